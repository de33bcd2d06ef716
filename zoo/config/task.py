"""Tasks: classification and detection."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import zip_longest
from typing import Any, TypeVar

from pydantic_settings import SettingsError

from zoo.cli.model_options import is_place, published_task
from zoo.cli.run import BACKENDS
from zoo.cli.settings import ConfigFile
from zoo.config import TrainConfig
from zoo.config.detection import DetectionConfig
from zoo.errors import unknown

CLASSIFICATION, DETECTION = "classification", "detection"
# Modules with a function `choose`: which source of a network some settings name.
SOURCES = {CLASSIFICATION: "zoo.inference.source.kinds", DETECTION: "zoo.detection.detector"}
# Settings of training, and the backends that it runs on.
TRAINING = {
    CLASSIFICATION: (TrainConfig, BACKENDS[:2]),
    DETECTION: (DetectionConfig, BACKENDS[:1]),
}
RUN_CONFIG = "config.yaml"  # the settings in a run folder
# Settings by which configurations without a task are recognized as those of detectors.
_OF_DETECTORS = {"data": {"test_batch_size"}, "training": {"steps"}}

Row = TypeVar("Row")


def task_of(settings: Mapping[str, Any]) -> str:
    """Returns the task of settings that were read from a file."""
    if "task" in settings:
        return settings["task"]
    if "run" in settings or isinstance(settings.get("model"), str):
        return network_task(settings.get("run"), settings.get("model"))
    is_detector = any(
        isinstance(section := settings.get(name), dict) and section.keys() & names
        for name, names in _OF_DETECTORS.items()
    )
    return DETECTION if is_detector else CLASSIFICATION


def read_task(file: str) -> str:
    """Returns the task of a file of settings; classification if it cannot be read."""
    try:
        return task_of(ConfigFile.read(file))
    except (SettingsError, OSError):
        return CLASSIFICATION  # whose command reads the file again, and says what is wrong


def network_task(run: object, model: str | None) -> str:
    """Returns the task of a run, or of a published network; that of names is classification."""
    if run is not None:
        return read_task(f"{run}/{RUN_CONFIG}")
    published = model is not None and is_place(model) and published_task(model)
    return published or CLASSIFICATION


def choose_source(settings: Any) -> Any:
    """Returns the source of the network that `run`, `model` and maybe `weights` name."""
    task = network_task(settings.run, settings.model)
    return import_module(row_of_task(task, SOURCES)).choose(settings)


def find_task(arguments: Sequence[str]) -> str:
    """Returns the task of a command line: by --task, by --run or --model, or by --config."""
    given: dict[str, str] = {}
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        given[name] = value if equals else following
    if "--task" in given:
        return given["--task"]
    if "--run" in given or "--model" in given:
        return network_task(given.get("--run"), given.get("--model"))
    return read_task(given["--config"]) if "--config" in given else CLASSIFICATION


def task_module(verb: str, task: str) -> Any:
    """Imports the module of a command that is for a task, such as `zoo.predict.detection`."""
    row_of_task(task, SOURCES)  # which refuses others
    return import_module(f"zoo.{verb}.{task}")


def row_of_task(task: str, table: Mapping[str, Row]) -> Row:
    """Returns the row of a table that is for a task; an unknown one is refused."""
    if task not in table:
        raise ValueError(f"task: no such task. {unknown(task, table)}")
    return table[task]
