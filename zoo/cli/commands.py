"""The table of commands: summary, settings, function and backends of each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.backend import BACKENDS
from zoo.cli.tasks import DEFAULT, ON_TENSORFLOW, TASKS, Place, place


class Command(NamedTuple):
    """A command, one per task if tasks have their own; or several, by the word after the verb."""

    summary: str
    places: Mapping[str, Place] = {}
    parts: Mapping[str, "Command"] = {}


def _command(summary: str, settings: str, backends: Sequence[str] = ON_TENSORFLOW) -> Command:
    """Returns the row of a command for all tasks; the module of its settings has `run`."""
    return Command(summary, {DEFAULT: place(f"zoo.{settings}", backends)})


def _by_task(summary: str, verb: str) -> Command:
    """Returns the row of a verb for which tasks have their own commands."""
    places = {name: row.commands[verb] for name, row in TASKS.items() if verb in row.commands}
    return Command(summary, places)


PSEUDO_LABEL = {
    "label": ("label images by a teacher, on this machine or by Apache Beam", "LabelConfig"),
    "select": ("select the labels to train on: filtered, balanced, none twice", "SelectConfig"),
}
BENCHMARK = {
    "layer": "time and memory of every implementation of the layer",
    "attention": "lambda layers and attention: time, memory, growth (Table 4)",
    "steps": "causal lambda layers step by step, the time of the next position",
    "models": "whole networks and those of keras.applications and timm",
    "data": "CPU time of reading and augmenting an image",
    "serving": "latency of Keras and of every exported format",
    "accelerator": "layers and networks on a GPU or TPU, within minutes",
}
# Modules are named by strings: each is imported when its command starts.
COMMANDS = {
    "list": _command("list the models of the zoo", "list.command:ListConfig", BACKENDS),
    "train": _by_task("train a network, or resume a run", "train"),
    "evaluate": _by_task("measure a network on test images", "evaluate"),
    "predict": _by_task("run a network on images", "predict"),
    "pseudo_label": Command(
        "label images by a teacher, and select labels to train on",
        parts={
            name: _command(summary, f"pseudo_label.{name}:{settings}")
            for name, (summary, settings) in PSEUDO_LABEL.items()
        },
    ),
    "export": _by_task("export a model for a server or another runtime", "export"),
    "publish": _command(
        "write a trained model with its card, or upload it to the Hugging Face Hub",
        "publish.command:PublishConfig",
    ),
    "maps": _command("draw attention maps beside lambdas", "maps.command:MapsConfig"),
    "demo": _command("serve a page with predictions and lambda maps", "demo.command:DemoConfig"),
    "serve": _command("serve an export over HTTP", "serve.command:ServeConfig"),
    "convert": _command(
        "convert weights of other libraries for Keras", "convert.command:ConvertConfig", BACKENDS
    ),
    "flops": _command("count the operations of a model", "flops.command:FlopsConfig", BACKENDS),
    "detection.convert": _command(
        "convert COCO's images for training detectors", "detection.convert:ConvertConfig"
    ),
    "benchmark": Command(
        "measure time and memory of layers, networks and exports",
        parts={
            name: _command(summary, f"benchmark.{name}:Config", BACKENDS)
            for name, summary in BENCHMARK.items()
        },
    ),
}
