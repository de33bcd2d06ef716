"""Predictions for images, printed with bars or written as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo import files
from zoo.cli.settings import Settings
from zoo.errors import printable, refusal

BAR = 30  # characters of the bar at probability 1


def check_outputs(source: str, outputs: Mapping[str, Any]) -> None:
    """Refuses named outputs with NaN or infinities; None, text and integers always pass."""
    import numpy as np

    for name, values in outputs.items():
        array = np.asarray(values)
        if array.dtype.kind in "OSUbiu":
            continue
        finite = np.isfinite(array)
        if not finite.all():
            expected = f"expected finite outputs of {source}"
            raise refusal(expected, f"{array[~finite].flat[0]} in {name}")


class ClassScore(NamedTuple):
    """A class and its probability, from 0 to 1."""

    index: int
    name: str
    probability: float


def describe(photo: Path, top: Sequence[ClassScore]) -> str:
    """Formats the lines about an image: its name, then percentages, bars and classes."""
    lines = [
        f"{score.probability:8.1%}  {'#' * round(BAR * score.probability):{BAR}}  "
        f"{printable(score.name)}"
        for score in top
    ]
    return "\n".join([printable(photo), *lines, ""])


def write_json(
    config: Settings, predictions: Sequence[tuple[Path, Sequence[ClassScore]]], path: Path
) -> None:
    """Writes the settings, and the index, name and probability of each predicted class."""
    settings = config.model_dump(
        mode="json", exclude={"photos", "output", "threshold"}, exclude_none=True
    )
    photos = [
        {"photo": str(photo), "top": [score._asdict() for score in top]}
        for photo, top in predictions
    ]
    files.write_json(path, {**settings, "photos": photos}, indent=2)
