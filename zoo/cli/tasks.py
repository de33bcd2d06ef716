"""Table of tasks; finds the task of a run, a published network, a file or a command line."""

import json
import os
from collections.abc import Mapping, Sequence, Set
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lambda_keras.models.specs import NETWORKS
from zoo.backend import BACKENDS
from zoo.errors import unknown

ON_TENSORFLOW, ON_JAX = BACKENDS[:1], BACKENDS[:2]
NETWORK = "lambda_keras.json"  # description of a published network
MAX_BYTES = 2**22  # of a description; the 21,841 classes of ImageNet take half a million
HUB = "hf://"
RUN_CONFIG = "config.yaml"  # the settings in a run folder
Row = TypeVar("Row")


class Place(NamedTuple):
    """Settings of a command and the function that runs them, as `MODULE:NAME`; its backends."""

    settings: str
    run: str
    backends: Sequence[str] = ON_TENSORFLOW


class Task(NamedTuple):
    """A task: its commands by verb, and its parts of the commands that all tasks share."""

    commands: Mapping[str, Place]
    parts: Mapping[str, str]  # MODULE or MODULE:NAME
    extensions: Mapping[str, str] = {}  # of its `evaluate`, each a room; MODULE:NAME
    marks: Mapping[str, Set[str]] = {}  # settings of files that do not state their task


def place(settings: str, backends: Sequence[str] = ON_TENSORFLOW) -> Place:
    """Returns the place of settings whose module has the function `run`."""
    return Place(settings, settings.partition(":")[0] + ":run", backends)


# Written files state their task: runs in config.yaml, published networks in lambda_keras.json,
# exports in their model card. Modules named by strings are imported when they are needed.
TASKS = {
    "classification": Task(
        commands={
            "train": Place("zoo.config:TrainConfig", "zoo.train.classification:train", ON_JAX),
            "evaluate": place("zoo.evaluate.classification:EvaluateConfig", ON_JAX),
            "predict": place("zoo.predict.classification:PredictConfig"),
            "export": place("zoo.export.classification:ExportConfig"),
        },
        parts={
            "source": "zoo.inference.source.kinds:choose",
            "measure": "zoo.evaluate.classification:measure",
            "demo": "zoo.demo.classification:load",
            "publish": "zoo.publish.classification:ClassifierPublisher",
        },
        extensions={
            "calibration": "zoo.evaluate.calibration.extension:CalibrationExtension",
            "corruptions": "zoo.evaluate.corruptions.extension:CorruptionsExtension",
        },
    ),
    "detection": Task(
        commands={
            "train": Place("zoo.detection.config:DetectionConfig", "zoo.detection.train:train"),
            "evaluate": place("zoo.detection.evaluate:EvaluateConfig"),
            "predict": place("zoo.detection.predict:PredictConfig"),
            "export": place("zoo.detection.export:ExportConfig"),
        },
        parts={
            "source": "zoo.detection.detector:choose",
            "measure": "zoo.detection.evaluate:measure",
            "demo": "zoo.detection.demo:load",
            "publish": "zoo.detection.publish:DetectorPublisher",
        },
        marks={"data": {"test_batch_size"}, "training": {"steps"}},
    ),
}
DEFAULT = next(iter(TASKS))  # task of files that state none and have no marks


def find_task(given: Mapping[str, Any]) -> str:  # not checked yet
    """Returns the task that settings state, or the task of the run, network or file that they name.

    Args:
        given: Settings by name, of a file, a command line or Python: `task`, `run`, `model` and
            `config` count, in this order, then the marks of the tasks. Unreadable files count as
            the first task, whose commands read them again and report what is wrong.
    """
    if given.get("task") is not None:
        return given["task"]
    model = given.get("model")
    if given.get("run") is not None:
        return _task_of_file(_read(f"{given['run']}/{RUN_CONFIG}"))
    if isinstance(model, str):
        return _task_of_file(_describe(model) if is_place(model) else {})
    if given.get("config") is not None:
        return find_task({**_read(str(given["config"])), "config": None})
    return _task_of_file(given)


# Any: settings of every command, and objects that are imported by name.
def task_part(name: str, settings: Any) -> Any:
    """Imports the part of a command that depends on the task of `settings.run` or `.model`."""
    task = find_task({"run": settings.run, "model": getattr(settings, "model", None)})
    return load(named_task(task, TASKS).parts[name])


def choose_source(settings: Any) -> Any:
    """Returns the source of the network that `settings.run`, `.model` and maybe `.weights` name."""
    return task_part("source", settings)(settings)


def named_task(task: object, table: Mapping[str, Row]) -> Row:
    """Returns the entry of a task in a table, or raises an error with the nearest names."""
    if not isinstance(task, str) or task not in table:
        raise ValueError(f"task: no such task. {unknown(task, table)}")
    return table[task]


def options(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the options of a command line by name; its settings are not known yet."""
    given: dict[str, str] = {}
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            given[name.removeprefix("--")] = value if equals else following
    return given


def load(name: str) -> Any:  # of any type
    """Imports MODULE, or NAME of a module if the text is MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)


def is_place(model: str) -> bool:
    """Returns whether --model is a folder or an address, not the name of a model.

    The name of a model in the zoo never counts as a folder; `./NAME` does.
    """
    return model not in NETWORKS and (os.sep in model or os.path.isdir(model))


def is_published(place: str) -> bool:
    """Returns whether this is an address of the hub, or a folder of a published network."""
    return place.startswith(HUB) or os.path.isfile(os.path.join(place, NETWORK))


def _task_of_file(settings: Mapping[str, Any]) -> str:
    """Returns the task that a file states, or that its settings mark."""
    if settings.get("task") is not None:
        return settings["task"]
    for name, task in TASKS.items():
        for section, marks in task.marks.items():
            group = settings.get(section)
            if isinstance(group, Mapping) and not marks.isdisjoint(group):
                return name
    return DEFAULT


def _read(file: str) -> dict[str, Any]:
    from zoo.fields import read_settings  # needs the extra `train`; commands report its absence

    try:
        return read_settings(file)
    except (ValueError, OSError):
        return {}


def _describe(place: str) -> dict[str, Any]:
    """Reads the description of a published network."""
    try:
        path = Path(place, NETWORK)
        if place.startswith(HUB):
            from lambda_keras.weights import hub

            repository, revision = hub.parse_address(place)
            path = hub.fetch(repository, [NETWORK], revision)
        with path.open("rb") as file:
            return dict(json.loads(file.read(MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        return {}
