"""A run that is trained here."""

from pathlib import Path

import pytest

from zoo.config import TrainConfig
from zoo.train.classification import train

QUICK = {
    "model": {"image_size": 16},
    "optimizer": {"warmup_epochs": 0},
    "training": {"epochs": 1},
}


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """Folder of a run of one epoch on small digits."""
    folder = tmp_path_factory.mktemp("runs") / "quick"
    train(TrainConfig(output_dir=folder, **QUICK))
    return folder
