"""The folder that a training run writes."""

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from zoo import files
from zoo.cli.tasks import RUN_CONFIG, find_task
from zoo.config import RunConfig, TrainConfig
from zoo.errors import first_wrong, refusal, require
from zoo.files import answering, atomic_write, check_output, is_partial, remove, remove_partial

CONFIG = RUN_CONFIG
METRICS = "metrics.json"
MODEL = "model.keras"
WEIGHTS = "model.weights.h5"
RAW_WEIGHTS = "raw.weights.h5"  # raw weights, in runs with EMA weights
CHECKPOINTS = "checkpoints"
LOGS = "logs"
EPOCHS = "epochs.jsonl"
INDEX = "records.json"  # of the data: a resumed run compares it, and counts nothing again
CURVES = "curves.png"
PREDICTIONS = "predictions.png"

C = TypeVar("C", bound=RunConfig)
M = TypeVar("M", bound=BaseModel)

SHARED_WITHIN_S = 30.0  # time for which a network file system may cache that a file is missing


def check(config: RunConfig) -> bool:
    """Checks that the output folder is new, may be overwritten, or holds the same run unfinished.

    Returns whether there is an unfinished run to resume.
    """
    folder = config.output_dir
    with answering(folder):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"output_dir: expected a folder. Received: {str(folder)!r}, a file")
        for place in (folder, folder / CHECKPOINTS, folder / LOGS):
            check_output(place)
        if not folder.exists() or all(is_partial(path) for path in folder.iterdir()):
            return False
        if not (folder / CONFIG).is_file():
            raise ValueError(f"output_dir: {folder} holds other files; expected a new folder")
        if config.overwrite:
            return False
        hint = "choose another --output_dir, or remove that run with --overwrite true"
        holds = f"output_dir: {folder} holds"
        if (folder / METRICS).is_file():
            raise ValueError(f"{holds} a finished run; {config.longer()}; {hint}")
        # The data may be at another path: the index of the run shows whether they are the same.
        others = set(differing(config)) - ({"data.dir"} if (folder / INDEX).is_file() else set())
        if others:
            way = f"give the same ones to resume it, {hint}"
            other = f"other settings ({', '.join(sorted(others))})"
            raise ValueError(f"{holds} an unfinished run with {other}; {way}")
        remove_partial(folder)
        return True


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps other processes from training into the folder in the `with` block."""
    with ExitStack() as holding:
        try:
            holding.enter_context(files.held(folder))
        except BlockingIOError:
            expected = "output_dir: expected a folder that no other process trains into"
            raise refusal(expected, f"{str(folder)!r}, whose run goes on") from None
        yield


def other_data(folder: Any, what: str) -> ValueError:
    """Creates the error for a resumed run with other data."""
    return ValueError(
        "data.dir: expected the data that this run began with; choose another --output_dir, or "
        f"begin again with --overwrite true. Received: {str(folder)!r}, with other {what}"
    )


def differing(config: RunConfig) -> list[str]:
    """Returns the names of the settings that differ from the run in the folder."""
    before, now = (
        settings.model_dump(mode="json", exclude={"output_dir", "tpu"})
        for settings in (type(config).from_file(config.output_dir / CONFIG), config)
    )
    return _differing(before, now)


def _differing(first: Any, second: Any, name: str = "") -> list[str]:
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [name] * (first != second and not _same_path(first, second))
    return [
        setting
        for key in sorted(first.keys() | second.keys())
        for setting in _differing(
            first.get(key, {}), second.get(key, {}), f"{name}.{key}".lstrip(".")
        )
    ]


def _same_path(first: Any, second: Any) -> bool:
    names = [name for name in (first, second) if isinstance(name, str) and os.path.exists(name)]
    return len(names) == 2 and os.path.samefile(*names)


def save_config(config: RunConfig, head: str = "") -> None:
    """Saves the settings below the comment `head`."""
    with atomic_write(config.output_dir / CONFIG) as path:
        path.write_text(head + config.to_yaml())


def start(config: RunConfig, head: str = "") -> Path:
    """Removes the files of an earlier run, and saves the settings below the comment `head`."""
    folder = config.output_dir
    # Metrics are removed first, and settings last: an interruption leaves an unfinished run.
    written = (MODEL, WEIGHTS, RAW_WEIGHTS, CHECKPOINTS, LOGS, EPOCHS, INDEX, CURVES, PREDICTIONS)
    for name in (METRICS, *written, CONFIG):
        remove(folder / name)
    save_config(config, head)
    return folder


def finite(values: Any) -> Any:
    """Replaces numbers that are not finite by None, for JSON."""
    if isinstance(values, dict):
        return {name: finite(value) for name, value in values.items()}
    if isinstance(values, list):
        return [finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Writes the file that marks the run as finished."""
    files.write_json(folder / METRICS, metrics, indent=2)


class TestMetrics(BaseModel):
    """Test metrics."""

    accuracy: float = Field(ge=0, le=1, allow_inf_nan=False)


class Metrics(BaseModel):
    """The fields of `metrics.json` that commands read."""

    model_config = ConfigDict(strict=True)

    class_names: list[str] = Field(min_length=2)
    test: TestMetrics
    test_images: int = Field(ge=1)
    training_images: int = Field(ge=1)


def load_metrics(folder: Path) -> Metrics:
    """Returns the results of a finished run; a damaged file is refused."""
    return read_json(Metrics, folder / METRICS, f"run: expected an intact {METRICS}")


def read_json(kind: type[M], path: Path, expected: str) -> M:
    """Reads and validates a file, local or in a bucket; errors begin with `expected`."""
    with answering(path):
        content: Any = path.read_bytes()
    encoding = json.detect_encoding(content)  # editors of Windows put a mark before it
    text = content if encoding == "utf-8" else content.decode(encoding, "replace")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        received = f"{path} ({files.why_pointer(content) or first_wrong(error, 'the file')})"
        raise refusal(expected, received) from None


def read_index(path: Path, setting: str) -> dict[str, Any]:
    """Reads the index of a run's data; errors begin with the setting of its folder."""
    expected = f"{setting}: expected an intact {path.name}"
    return read_json(RootModel[dict[str, Any]], path, expected).root


def check_still_there(folder: Path) -> None:
    """Checks that the run has not been removed meanwhile."""
    if not (folder / CONFIG).is_file():
        raise ValueError(f"output_dir: {folder} was removed while the run went on")


def load_config(folder: Path, kind: type[C] = TrainConfig) -> C:
    """Returns the settings of a finished run, and refuses one of another kind."""
    with answering(folder):
        if not (folder / METRICS).is_file():
            raise refusal("run: expected the folder of a finished run", repr(str(folder)))
        task, expected = find_task({"run": folder}), kind.model_fields["task"].default
        require(
            task == expected, f"run: expected a run of {expected}", f"{str(folder)!r}, of {task}"
        )
        return kind.from_file(folder / CONFIG)


def is_shared(folder: Path, within_s: float = SHARED_WITHIN_S) -> bool:
    """Waits until this host sees a run that another host started; False if it never does."""
    end = time.monotonic() + within_s
    while not (folder / CONFIG).is_file():
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True
