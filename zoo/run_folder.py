"""The folder that a training run writes."""

import json
from pathlib import Path
from typing import Any

from zoo.config import TrainConfig
from zoo.files import remove, replacing

CONFIG = "config.yaml"
METRICS = "metrics.json"
MODEL = "model.keras"
CHECKPOINTS = "checkpoints"
LOGS = "logs"
CURVES = "curves.png"
PREDICTIONS = "predictions.png"


def check_unused(folder: Path, overwrite: bool) -> None:
    """Makes sure that a new run destroys nothing.

    Args:
        folder: Where the new run shall be.
        overwrite: Whether a run that is there may be removed.

    Raises:
        ValueError: If the folder holds anything, unless that is a run and may be removed.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output_dir: expected a folder. Received: {str(folder)!r}, a file")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / CONFIG).is_file():
        raise ValueError(f"output_dir: {folder} holds other files; expected a new folder")
    if not overwrite:
        state = "a finished" if (folder / METRICS).is_file() else "an unfinished"
        raise ValueError(
            f"output_dir: {folder} holds {state} run; "
            "choose another --output_dir, or remove that run with --overwrite true"
        )


def start(config: TrainConfig) -> Path:
    """Creates the folder, without the files of an earlier run, and saves the settings in it."""
    folder = config.output_dir
    # The metrics go first and the settings last: what is interrupted here is an unfinished run.
    for name in (METRICS, MODEL, CHECKPOINTS, LOGS, CURVES, PREDICTIONS, CONFIG):
        remove(folder / name)
    with replacing(folder / CONFIG) as path:
        path.write_text(config.to_yaml())
    return folder


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Writes the file that marks the run as finished."""
    with replacing(folder / METRICS) as path:
        path.write_text(json.dumps(metrics, indent=2, allow_nan=False) + "\n")


def load_config(folder: Path) -> TrainConfig:
    """Returns the settings of a finished run.

    Raises:
        ValueError: If the folder is missing or holds no finished run.
    """
    if not (folder / METRICS).is_file():
        raise ValueError(f"run: expected the folder of a finished run. Received: {str(folder)!r}")
    return TrainConfig.from_file(folder / CONFIG)
