"""Checkpoints of the whole state of a run, which resumes as if never interrupted.

The state is weights, optimizer, averages, metrics and the seeds of random layers; the data need
only the step. Files are in safetensors format: arrays, no code.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from pydantic import ConfigDict, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

import lambda_keras
from zoo.errors import first_wrong
from zoo.files import atomic_write, local_copy, remove, remove_partial

KEEP = 3  # files


@dataclass
class Progress:
    """Progress of a run."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    step: int = 0  # training steps done
    history: list[dict[str, float]] = field(default_factory=list)  # logs of each finished epoch
    epoch_steps: list[int] = field(default_factory=list)  # training steps when each of them ended
    seconds: float = 0.0  # of training, in all processes of the run

    @property
    def best_epoch(self) -> int | None:
        """Index of the first epoch with the highest test accuracy."""
        accuracies = [epoch["val_accuracy"] for epoch in self.history]
        return accuracies.index(max(accuracies)) if accuracies else None

    @property
    def best_step(self) -> int | None:
        """Number of training steps when the best epoch ended."""
        return None if self.best_epoch is None else self.epoch_steps[self.best_epoch]

    def stopped_early(self, patience: int | None) -> bool:
        """Returns whether `patience` epochs in a row were no better than the best one."""
        if patience is None or self.best_epoch is None:
            return False
        return len(self.history) - 1 - self.best_epoch >= patience


@dataclass
class Checkpoints:
    """Numbered files in a folder; the newest `KEEP` and the best are kept.

    A file appears under its name only when it is complete, and holds a checksum of its contents.
    """

    folder: Path
    variables: InitVar[Iterable[keras.Variable]]  # in an order fixed by the code
    write: bool = True  # whether this process writes the files; one of several does

    def __post_init__(self, variables: Iterable[keras.Variable]) -> None:
        # Paths are not unique, or have counters of the process.
        self._variables = {
            f"{number:05d} {variable.path.split('/')[-1]}": variable
            for number, variable in enumerate(variables)
        }

    def save(self, progress: Progress) -> None:
        """Writes a file, then removes the oldest ones, which stay if it cannot be written."""
        arrays = {  # by every process: metrics are summed over all of them
            name: np.asarray(ops.convert_to_numpy(variable))
            for name, variable in self._variables.items()
        }
        if not self.write:
            return
        text = json.dumps(vars(progress))
        checksum = contents_digest(text, arrays)
        metadata = {"progress": text, "sha256": checksum, "version": lambda_keras.__version__}
        try:
            with atomic_write(self._file(progress.step)) as temporary:
                # `save_file` lets only the owner read its files, whatever the umask allows.
                temporary.write_bytes(save(arrays, metadata))
        except (OSError, tf.errors.OpError) as error:
            place = f"the checkpoint {self._file(progress.step)}"
            why = getattr(error, "strerror", None) or error
            way = "with more room, the same command resumes from the one before, if there is one"
            raise ValueError(f"cannot write {place} ({why}); {way}") from error
        best = progress.best_step
        for old in self._files()[KEEP:]:
            if best is None or old != self._file(best):
                remove(old)

    def restore(self) -> Progress | None:
        """Restores all variables from the newest intact file; returns None if there is none.

        A damaged file is named on stderr, and the one before it is used. A file of another model,
        optimizer or version is refused.
        """
        if self.write:
            remove_partial(self.folder)
        for path in self._files():
            try:
                return self._restore(path)
            except DamagedError as error:
                print(f"damaged checkpoint {path} ({error}); using the one before", file=sys.stderr)
        return None

    def restore_best(self, progress: Progress) -> None:
        """Restores all variables from the best epoch."""
        path = self._file(progress.best_step or 0)
        try:
            self._restore(path)
        except DamagedError as error:
            raise ValueError(f"damaged checkpoint {path} of the best epoch ({error})") from error

    def _restore(self, path: Path) -> Progress:
        arrays, progress = _read(path)
        expected = {name: tuple(v.shape) for name, v in self._variables.items()}
        received = {name: array.shape for name, array in arrays.items()}
        differing = sorted({name for name, _ in expected.items() ^ received.items()})
        if differing:
            first = self._variables.get(differing[0])
            name = differing[0] if first is None else first.path
            why = f"{len(differing)} variables differ, such as {name!r}"
            other = "another model, optimizer or version of lambda_keras"
            raise ValueError(f"the checkpoint {path} is of {other}: {why}")
        for name, variable in self._variables.items():
            variable.assign(arrays[name])
        return progress

    def _file(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.safetensors"

    def _files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob("step-*.safetensors"), reverse=True)


class DamagedError(Exception):
    """A file that does not hold what was written."""


def _read(path: Path) -> tuple[dict[str, np.ndarray], Progress]:
    try:
        with local_copy(path) as here, safe_open(here, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if contents_digest(metadata["progress"], arrays) != metadata["sha256"]:
            raise DamagedError("wrong checksum")
    except (OSError, SafetensorError, KeyError) as error:
        raise DamagedError(str(error)) from error
    if (version := metadata.get("version")) != lambda_keras.__version__:
        other = f"lambda_keras {version or 0.1}, whose networks may compute otherwise"
        way = f"resume with that version. This is {lambda_keras.__version__}"
        raise ValueError(f"the checkpoint {path} is of {other}: {way}")
    try:
        return arrays, TypeAdapter(Progress).validate_json(metadata["progress"])
    except ValidationError as error:
        raise DamagedError(f"progress, {first_wrong(error, 'as a whole')}") from None


def contents_digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    """Returns the SHA-256 digest of a checkpoint's progress and arrays, in hexadecimal."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
