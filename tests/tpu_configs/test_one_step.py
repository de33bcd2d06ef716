"""A recipe of each kind reads its images, and runs a step."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.networks import RECIPES

from zoo.config import TrainConfig
from zoo.train.classification import train

# An epoch of one step or two, of the shallowest network of a family: another test builds all.
SHRUNK = {
    "model.image_size": 32,
    "optimizer.warmup_epochs": 0,
    "training.epochs": 1,
}
OF_SOURCE = {
    "tfds": {
        "data.batch_size": 8,
        "data.train_split": "train[:8]",
        "data.test_split": "validation[:8]",
        "data.shuffle_buffer": 8,
    },
    "image_folder": {"data.batch_size": 16, "model.weights": "None"},
    # All 1437 images in one step would take 12 GB.
    "digits": {"data.batch_size": 512, "model.image_size": 16},
}


def shrunk(file: Path, *arguments) -> TrainConfig:
    """The recipe with an epoch of one step, or two, of small images."""
    full = TrainConfig.from_file(file)
    name = re.sub(r"^lambda_resnet\d{3}", "lambda_resnet14", full.model.name)
    overrides = {"model.name": name, **SHRUNK, **OF_SOURCE[full.data.source]}
    pairs = [str(word) for key, value in overrides.items() for word in (f"--{key}", value)]
    return TrainConfig.from_command_line(["--config", str(file), *pairs, *arguments])


def kinds(file: Path) -> set[tuple]:
    """Settings that decide a step; other tests build and fit the networks, and train on digits."""
    config = TrainConfig.from_file(file)
    if config.data.source == "digits":
        return set()
    return {
        ("source", config.data.source),
        ("optimizer", config.optimizer.name),
        ("frozen", config.model.freeze_backbone),
        ("pseudo-labels", config.data.pseudo.dir is not None),
    }


def stochastic_depth(file: Path) -> float:
    return TrainConfig.from_file(file).model.overrides.get("stochastic_depth_rate", 0)


def covering() -> list[Path]:
    """Few files that have every kind of step together, those with stochastic depth first."""
    missing = set().union(*map(kinds, RECIPES))
    chosen = []
    while missing:
        best = max(RECIPES, key=lambda file: (len(missing & kinds(file)), stochastic_depth(file)))
        chosen.append(best)
        missing -= kinds(best)
    return chosen


@pytest.fixture
def eagerly():
    """One step is not worth compiling."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def is_fine_tuning(file: Path) -> bool:
    return TrainConfig.from_file(file).model.freeze_backbone


# All but fine-tuning are left to `make test-slow`.
FILES = [
    pytest.param(file, id=file.stem, marks=() if is_fine_tuning(file) else pytest.mark.very_slow)
    for file in covering()
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly")
@pytest.mark.parametrize("file", FILES)
def test_one_step(file, imagenet, photos, pseudo_labels, eagerly, tmp_path):
    """A recipe of each kind reads its images and runs a step."""
    sources = {"tfds": imagenet, "image_folder": photos, "digits": None}
    folder = sources[TrainConfig.from_file(file).data.source]
    where = ["--data.dir", str(folder)] if folder else []
    if TrainConfig.from_file(file).data.pseudo.dir:
        where += ["--data.pseudo.dir", str(pseudo_labels)]
    config = shrunk(file, "--output_dir", str(tmp_path / "run"), *where)
    metrics = train(config)
    assert metrics["training_images"] // config.data.batch_size <= 2
    assert np.isfinite(metrics["history"]["loss"]).all()
    assert np.isfinite(metrics["test"]["loss"])
    assert (config.output_dir / "model.weights.h5").is_file()
    assert (config.output_dir / "predictions.png").is_file()
