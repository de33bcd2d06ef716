"""Tasks: classification and detection."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import zip_longest
from typing import Any

from pydantic_settings import SettingsError

from zoo.cli.settings import ConfigFile
from zoo.errors import unknown

CLASSIFICATION, DETECTION = "classification", "detection"
RUN_CONFIG = "config.yaml"  # the settings in a run folder
# Settings by which configurations without a task are recognized as those of detectors.
_OF_DETECTORS = {"data": {"test_batch_size"}, "training": {"steps"}}


def task_of(settings: Mapping[str, Any]) -> str:
    """Returns the task of settings that were read from a file."""
    if "task" in settings:
        return settings["task"]
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


def find_task(arguments: Sequence[str]) -> str:
    """Returns the task of a command line: of --task, of the run of --run, or of --config.

    Args:
        arguments: The words after the name of the command.
    """
    given: dict[str, str] = {}
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        given[name] = value if equals else following
    if "--task" in given:
        return given["--task"]
    if "--run" in given:
        return read_task(f"{given['--run']}/{RUN_CONFIG}")
    return read_task(given["--config"]) if "--config" in given else CLASSIFICATION


def run_by_task(arguments: Sequence[str], modules: Mapping[str, str]) -> None:
    """Runs the module of a command that is for the task of the command line.

    Args:
        arguments: The words after the name of the command.
        modules: Names of modules with a function `main`, by task.

    Raises:
        ValueError: If the command has no such task.
    """
    task = find_task(arguments)
    if task not in modules:
        raise ValueError(f"task: no such task. {unknown(task, modules)}")
    import_module(modules[task]).main(arguments)
