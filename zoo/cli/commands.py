"""The table of commands: summary, settings, function and backends of each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.cli.run import BACKENDS

CLASSIFICATION, DETECTION = "classification", "detection"


class Place(NamedTuple):
    """Settings of a command and the function that runs them, as `MODULE:NAME`; its backends."""

    settings: str
    run: str
    backends: Sequence[str] = BACKENDS[:1]


class Command(NamedTuple):
    """One command, for each task if they differ; or several, by the word after the verb."""

    summary: str
    places: Mapping[str, Place] = {}
    parts: Mapping[str, "Command"] = {}


def _one(
    summary: str, module: str, settings: str = "Config", backends: Sequence[str] = BACKENDS[:1]
) -> Command:
    place = Place(f"zoo.{module}:{settings}", f"zoo.{module}:run", backends)
    return Command(summary, {CLASSIFICATION: place})


def _by_task(summary: str, verb: str, settings: str, backends: Sequence[str]) -> Command:
    places = {
        task: Place(f"zoo.{verb}.{task}:{settings}", f"zoo.{verb}.{task}:run", of_task)
        for task, of_task in ((CLASSIFICATION, backends), (DETECTION, BACKENDS[:1]))
    }
    return Command(summary, places)


# Names of modules instead of imports: each is imported when its command starts.
COMMANDS = {
    "list": _one("list the models of the zoo", "list.command", "ListConfig", BACKENDS),
    "train": Command(
        "train a classifier or a detector, or resume a run",
        {
            CLASSIFICATION: Place(
                "zoo.config:TrainConfig", "zoo.train.classification:train", BACKENDS[:2]
            ),
            DETECTION: Place("zoo.config.detection:DetectionConfig", "zoo.train.detection:train"),
        },
    ),
    "evaluate": _by_task(
        "measure a classifier or a detector on test images",
        "evaluate",
        "EvaluateConfig",
        BACKENDS[:2],
    ),
    "predict": _by_task(
        "classify images, or find objects in them", "predict", "PredictConfig", BACKENDS[:1]
    ),
    "pseudo_label": Command(
        "label images by a teacher, and select labels to train on",
        parts={
            "label": _one(
                "label images by a teacher, on this machine or by Apache Beam",
                "pseudo_label.label",
                "LabelConfig",
            ),
            "select": _one(
                "select the labels to train on: filtered, balanced, none twice",
                "pseudo_label.select",
                "SelectConfig",
            ),
        },
    ),
    "export": _by_task(
        "export a model for a server or another runtime", "export", "ExportConfig", BACKENDS[:1]
    ),
    "publish": _one(
        "write a trained model with its card, or upload it to the Hugging Face Hub",
        "publish.command",
        "PublishConfig",
    ),
    "maps": _one("draw attention maps beside lambdas", "maps.command", "MapsConfig"),
    "demo": _one("serve a page with predictions and lambda maps", "demo.command", "DemoConfig"),
    "serve": _one("serve an export over HTTP", "serve.command", "ServeConfig"),
    "client": _one("send images to a server", "client", "ClientConfig", BACKENDS),
    "convert": _one(
        "convert weights of other libraries for Keras", "convert.command", "ConvertConfig", BACKENDS
    ),
    "flops": _one("count the operations of a model", "flops.command", "FlopsConfig", BACKENDS),
    "detection.convert": _one(
        "convert COCO's images for training detectors", "detection.convert", "ConvertConfig"
    ),
    "benchmark": Command(
        "measure time and memory of layers, networks and exports",
        parts={
            name: _one(summary, f"benchmark.{name}", backends=BACKENDS)
            for name, summary in {
                "layer": "time and memory of every implementation of the layer",
                "attention": "lambda layers and attention: time, memory, growth (Table 4)",
                "steps": "causal lambda layers step by step, the time of the next position",
                "models": "whole networks and those of keras.applications and timm",
                "serving": "latency of Keras and of every exported format",
                "accelerator": "layers and networks on a GPU or TPU, within minutes",
            }.items()
        },
    ),
}
