"""Trains one network with several mixers: `python -m zoo.benchmark pathfinder --help`."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt

from zoo import run_folder
from zoo.benchmark.report import Column, Report, digits
from zoo.benchmark.settings import BenchmarkSettings, EachOnce, each
from zoo.cli.run import use_backend
from zoo.cli.settings import OutputFolder
from zoo.config import TrainConfig
from zoo.errors import unknown

# What is in the place of lambda layers, and the widths with which parameters are as many.
MIXERS: dict[str, dict[str, Any]] = {
    "convolution": {"placement": "CCCC", "filters": 8},
    "lambda": {"mixer": "lambda", "scope": None, "filters": 9},
    "content": {"mixer": "content", "key_dim": 32, "filters": 9},
    "global": {"mixer": "global", "num_heads": 4, "filters": 9},
    "local": {"mixer": "local", "num_heads": 4, "scope": 3, "filters": 9},
}
# 11 layers: the stem, three bottleneck blocks of which the last has the mixer, the classifier.
COMMON = {"blocks": [0, 1, 1, 1], "placement": "CCCL"}
MODEL, IMAGE_SIZE = "lambda_resnet14", 32

# Lengths for which accuracies are said apart: within reach of convolutions, in part, beyond.
LENGTHS = ((6, 12), (13, 19), (20, 26))

CONVENTIONS = {
    "images": "source pathfinder of zoo.train: 32 x 32 pixels, four paths of which one is marked; "
    "the colour at its other end is one of four",
    "network": "lambda_resnet14 without c2: a 3x3 convolution and three bottleneck blocks of "
    "strides 2, the last with the mixer, on a map of 8 x 8; then the mean and a linear classifier",
    "convolution": "3x3; with those before it sees 17 x 17 pixels",
    "lambda": "lambda layer with position lambdas between all positions of a map, 4 queries",
    "content": "the same without position lambdas",
    "global": "attention to all positions, with relative positions, 4 heads",
    "local": "attention to 3x3 positions around the query, 4 heads; its stride is a pooling of "
    "3x3, so that the network sees 25 x 25 pixels",
    "parameters": "trainable ones; widths make them equal within 5 %",
    "accuracy": "of test images, after the last step: mean over the seeds; chance is 25 %",
    "deviation": "sample standard deviation over the seeds",
    "accuracies": "of each seed, which the weights and the order of images follow",
    "by_length": "accuracy of test images with so many columns between mark and colour: mean over "
    "the seeds",
    "curves": "accuracy of test images after every epoch, for each seed",
    "training_seconds": "of one training, its evaluations included: mean over the seeds",
}


def _span(lengths: tuple[int, int]) -> str:
    return f"{lengths[0]} to {lengths[1]}"


PERCENT = "{:.1%}".format
COLUMNS = (
    Column("parameters", "parameters", "{:,}".format),
    Column("accuracy", "accuracy", PERCENT),
    Column("deviation", "deviation", PERCENT),
    Column("lowest", "lowest", PERCENT),
    Column("highest", "highest", PERCENT),
    *(Column(_span(lengths), f"by_length.{_span(lengths)}", PERCENT) for lengths in LENGTHS),
    Column("s per training", "training_seconds", digits),
)


def _find(name: str) -> None:
    if name not in MIXERS:
        raise ValueError(f"no such mixer. {unknown(name, MIXERS)}")


class Config(BenchmarkSettings, cli_prog_name="python -m zoo.benchmark pathfinder"):
    """Trains a small ResNet with each of several mixers to see where a path ends.

    The images are generated, drawings of paths. All networks have the same layers but for the
    mixer, as many parameters within 5 %, and as many steps. Every training is one of
    python -m zoo.train with a folder of its own. Given again after an interruption, the command
    keeps the ones that are done and goes on with the others.
    """

    mixers: Annotated[tuple[str, ...], EachOnce, each(_find)] = Field(
        default=tuple(MIXERS), description="Of " + ", ".join(MIXERS) + "."
    )
    seeds: Annotated[tuple[NonNegativeInt, ...], EachOnce] = Field(
        default=(0, 1, 2), description="One training of each mixer for each of these."
    )
    epochs: int = Field(default=10, ge=1, description="Passes over the training images.")
    runs: OutputFolder = Field(
        default=Path("runs/pathfinder"), description="Folder of the run folders, which are kept."
    )

    def training(self, mixer: str, seed: int) -> TrainConfig:
        """Returns the settings of one training."""
        return TrainConfig.model_validate(
            {
                "output_dir": self.runs / f"{mixer}_{seed}",
                "model": {
                    "name": MODEL,
                    "image_size": IMAGE_SIZE,
                    "overrides": {**COMMON, **MIXERS[mixer]},
                    "batch_norm_momentum": 0.9,
                },
                "data": {"source": "pathfinder", "batch_size": 64},
                "optimizer": {"name": "adamw", "learning_rate": 0.012, "warmup_epochs": 0.5},
                "training": {"epochs": self.epochs, "label_smoothing": 0, "seed": seed},
            }
        )


def run(config: Config, arguments: Sequence[str]) -> None:
    """Trains what is not trained yet, prints and writes.

    Raises:
        ValueError: If a run folder has a run with other settings.
    """
    # A seed of all mixers comes before the next seed: an interrupted comparison is one of fewer.
    order = product(config.seeds, config.mixers)
    trainings = {(mixer, seed): config.training(mixer, seed) for seed, mixer in order}
    for training in trainings.values():
        _check(training)
    use_backend("tensorflow")
    report = Report(config, arguments, ["tensorflow"], CONVENTIONS)
    results = {key: _result(training) for key, training in trainings.items()}
    report.table(
        "Pathfinder: accuracies, and those by columns from mark to colour",
        "mixer",
        COLUMNS,
        [summary(m, [results[m, seed] for seed in config.seeds]) for m in config.mixers],
    )
    from zoo.benchmark.plots import plot_pathfinder

    report.draw = plot_pathfinder
    report.finish()


def _check(training: TrainConfig) -> None:
    folder = training.output_dir
    if (folder / run_folder.CONFIG).is_file() and (others := run_folder.differing(training)):
        raise ValueError(
            f"runs: {folder} holds a run with other settings ({', '.join(others)}); give the same "
            "ones to go on, or choose another folder"
        )


def _result(training: TrainConfig) -> dict[str, Any]:
    """Trains a network, unless the run is finished, and returns its metrics."""
    import keras

    metrics = training.output_dir / run_folder.METRICS
    if not metrics.is_file():
        from zoo.train.loop import train

        train(training)
    by_length = accuracy_by_length(training.output_dir)
    keras.utils.clear_session()
    return json.loads(metrics.read_bytes()) | {"by_length": by_length}


def accuracy_by_length(folder: Path) -> dict[str, float]:
    """Returns the accuracies of a run's network on test images, for each row of `LENGTHS`.

    Raises:
        ValueError: If the folder holds no finished run.
    """
    from zoo.data.sources.pathfinder import held_out_drawings
    from zoo.inference.classifier import predict
    from zoo.inference.source.run import Run

    images, labels, lengths = held_out_drawings()
    right = predict(Run(folder).load().model, images).argmax(-1) == labels
    return {
        _span((low, high)): float(right[(low <= lengths) & (lengths <= high)].mean())
        for low, high in LENGTHS
    }


def summary(mixer: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the row of a mixer, from what is known of its runs."""
    accuracies = [result["test"]["accuracy"] for result in results]
    return {
        "mixer": mixer,
        "arguments": COMMON | MIXERS[mixer],
        "parameters": results[0]["trainable_parameters"],
        "accuracy": fmean(accuracies),
        "deviation": stdev(accuracies) if len(accuracies) > 1 else None,
        "lowest": min(accuracies),
        "highest": max(accuracies),
        "accuracies": accuracies,
        "by_length": {
            span: fmean(result["by_length"][span] for result in results)
            for span in results[0]["by_length"]
        },
        "curves": [result["history"]["val_accuracy"] for result in results],
        "training_seconds": fmean(result["training_seconds"] for result in results),
    }
