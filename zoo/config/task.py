"""The task of files, runs, published networks and command lines."""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from zoo.cli.commands import CLASSIFICATION, DETECTION
from zoo.fields import read_settings
from zoo.registry import TABLE

NETWORK = "lambda_keras.json"  # description of a network that zoo.publish wrote
MAX_BYTES = 2**22  # of a description; that of the 21,841 classes of ImageNet has half a million
HUB = "hf://"
RUN_CONFIG = "config.yaml"  # the settings in a run folder
# Settings by which configurations without a task are recognized as those of detectors.
_OF_DETECTORS = {"data": {"test_batch_size"}, "training": {"steps"}}


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


def network_task(run: object, model: str | None) -> str:
    """Returns the task of a run, or of a published network; that of names is classification."""
    if run is not None:
        return read_task(f"{run}/{RUN_CONFIG}")
    published = model is not None and is_place(model) and published_task(model)
    return published or CLASSIFICATION


def read_task(file: str) -> str:
    """Returns the task of a file of settings; classification if it cannot be read."""
    try:
        return task_of(read_settings(file))
    except (ValueError, OSError):
        return CLASSIFICATION  # whose command reads the file again, and says what is wrong


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


def is_place(model: str) -> bool:
    """Returns whether --model is a folder or an address, not the name of a model.

    The name of a model of the zoo is no folder; `./NAME` is.
    """
    return model not in TABLE and (os.sep in model or os.path.isdir(model))


def is_published(place: str) -> bool:
    """Returns whether this is an address of the hub, or a folder that `zoo.publish` wrote."""
    return place.startswith(HUB) or os.path.isfile(os.path.join(place, NETWORK))


def published_task(place: str) -> str | None:
    """Returns the task in the description of a published network; None if there is none."""
    try:
        path = Path(place, NETWORK)
        if place.startswith(HUB):
            from lambda_keras.weights import hub

            repository, revision = hub.parse_address(place)
            path = hub.fetch(repository, [NETWORK], revision)
        with path.open("rb") as file:
            return json.loads(file.read(MAX_BYTES)).get("task")
    except (OSError, ValueError, AttributeError):  # the command reads it again, and says why
        return None
