"""The whole state of a run in files: an interrupted run goes on as if it had not been.

Weights, optimizer, averages and the seeds of random layers; the data need only the number of the
step. Files are in safetensors format: arrays, no code.
"""

import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from zoo.files import remove, remove_partial, replacing

KEEP = 3  # files
_SUFFIX = ".safetensors"


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        step: Number of training steps done.
        history: What `fit` logged, for each epoch that has ended.
    """

    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


class Checkpoints:
    """Numbered files in a folder, of which the newest few are kept.

    A file appears under its name only when it is whole, and holds a checksum of its contents.

    Args:
        folder: Where the files are.
        model: Model whose layers' variables are saved.
        optimizer: Its optimizer, built.
    """

    def __init__(
        self, folder: Path, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> None:
        self.folder = folder
        # The order is fixed by the code; paths are not unique, or counted in each process.
        self._variables = {
            f"{number:05d} {variable.path.split('/')[-1]}": variable
            for number, variable in enumerate([*model.variables, *optimizer.variables])
        }

    def save(self, progress: Progress) -> Path:
        """Writes a file, then removes the oldest ones.

        Raises:
            ValueError: If it cannot be written; the earlier files stay.
        """
        arrays = {
            name: np.asarray(ops.convert_to_numpy(variable))
            for name, variable in self._variables.items()
        }
        text = json.dumps(vars(progress))
        metadata = {"progress": text, "sha256": _checksum(text, arrays)}
        path = self.folder / f"step-{progress.step:09d}{_SUFFIX}"
        try:
            with replacing(path) as beside:
                save_file(arrays, beside, metadata)
        except (OSError, SafetensorError) as error:
            raise ValueError(
                f"cannot write the checkpoint {path} ({error}); with more room, the same command "
                "goes on from the one before"
            ) from error
        for old in self._files()[KEEP:]:
            remove(old)
        return path

    def restore(self) -> Progress | None:
        """Sets all variables as they were saved last, and says when that was.

        A damaged file is named on the screen, and the one before it is used.

        Returns:
            None if there is no file that is whole.

        Raises:
            ValueError: If the newest whole file is of another model or optimizer.
        """
        remove_partial(self.folder)
        for path in self._files():
            try:
                arrays, text = _read(path)
            except (OSError, SafetensorError, ValueError, KeyError) as error:
                print(f"damaged checkpoint {path} ({error}); using the one before", file=sys.stderr)
                continue
            expected = {name: tuple(v.shape) for name, v in self._variables.items()}
            received = {name: array.shape for name, array in arrays.items()}
            differing = sorted(
                name
                for name in expected.keys() | received.keys()
                if expected.get(name) != received.get(name)
            )
            if differing:
                first = self._variables.get(differing[0])
                raise ValueError(
                    f"the checkpoint {path} is of another model or optimizer: {len(differing)} "
                    f"variables differ, such as {differing[0] if first is None else first.path!r}"
                )
            for name, variable in self._variables.items():
                variable.assign(arrays[name])
            return Progress(**json.loads(text))
        return None

    def _files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob(f"step-*{_SUFFIX}"), reverse=True)


class SaveProgress(keras.callbacks.Callback):
    """Saves the state after every epoch, every so many steps, and when the run is told to stop.

    Args:
        checkpoints: Where to.
        progress: What `fit` continues; kept up to date.
        every_steps: Steps between files within an epoch; None: none.
        stop: Asked after every execution: whether to save and stop now.
    """

    model: Any  # set by `fit`

    def __init__(
        self, checkpoints: Checkpoints, progress: Progress, every_steps: int | None, stop
    ) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.progress = progress
        self.every_steps = every_steps
        self.stop = stop

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if not np.isfinite((logs or {}).get("loss", 0.0)):
            raise ValueError(
                f"the loss is no longer finite at step {self._steps()}; the last good checkpoint "
                f"is of step {self.progress.step}; lower optimizer.learning_rate"
            )
        if self.stop():
            self._save()
            raise SystemExit(
                f"stopped at step {self.progress.step}; the same command goes on from there"
            )
        if self.every_steps and self._steps() - self.progress.step >= self.every_steps:
            self._save()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.progress.history.append({name: float(v) for name, v in (logs or {}).items()})
        self._save()

    def _steps(self) -> int:
        return int(ops.convert_to_numpy(self.model.optimizer.iterations))

    def _save(self) -> None:
        self.progress.step = self._steps()
        self.checkpoints.save(self.progress)


def _read(path: Path) -> tuple[dict[str, np.ndarray], str]:
    with safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if _checksum(metadata["progress"], arrays) != metadata["sha256"]:
        raise ValueError("wrong checksum")
    return arrays, metadata["progress"]


def _checksum(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
