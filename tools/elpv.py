"""Solar cells of elpv-dataset as folders of images: `python -m tools.elpv --help`."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import needs_extra, printable
from zoo.fields import Count, LocalPath, OutputFolder
from zoo.files import atomic_write

CLASSES = ("defective", "intact")
CELLS = 60  # of a module; their images follow each other
SIZE = 64  # pixels


class ElpvConfig(Settings):
    """Splits electroluminescence images of solar cells into halves to train and to test on.

    Reads the data of the package elpv-dataset (CC BY-NC-SA 4.0; Buerhop-Lutz et al., 2018), and
    writes train/CLASS/ and val/CLASS/ for --data.source image_folder. A cell is defective if the
    probability of a defect is above one half. The set does not name modules: runs of 60 images of
    one type, about a module each, stay in one half. Example:

      pip download --no-deps elpv-dataset && unzip -d elpv elpv_dataset-*.whl
      python -m tools.elpv --input elpv/elpv_dataset/data --output runs/elpv0 --seed 0
    """

    input: LocalPath
    """Folder with labels.csv and images/."""
    output: OutputFolder
    """New folder of the images."""
    size: Count = SIZE
    """Height and width of the images in pixels."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of the split."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then writes the folder, all or nothing."""
    config = ElpvConfig.from_command_line(arguments, "python -m tools.elpv")
    if config.output.exists() and any(config.output.iterdir()):
        raise ValueError(f"output: expected a new folder. Received: {str(config.output)!r}")
    with needs_extra("train"):
        from PIL import Image
    cells = read_labels(config.input)
    training = split([kind for *_, kind in cells], config.seed)
    with atomic_write(config.output) as folder:
        for (path, defective, _), in_training in zip(cells, training, strict=True):
            place = folder / ("train" if in_training else "val") / CLASSES[not defective]
            place.mkdir(parents=True, exist_ok=True)
            with Image.open(path) as image:
                image.resize((config.size, config.size)).save(place / path.name)
    print(
        f"wrote {sum(training)} images to train on and {len(cells) - sum(training)} to test on to "
        f"{printable(config.output)}"
    )


def read_labels(folder: Path) -> list[tuple[Path, bool, str]]:
    """Reads path, defect flag and type of every cell, in the order of the file."""
    file = folder / "labels.csv"
    if not file.is_file():
        raise ValueError(f"input: expected a folder with labels.csv. Received: {str(folder)!r}")
    cells = []
    for line, row in enumerate(csv.reader(file.read_text("utf-8").splitlines(), delimiter=" "), 1):
        try:
            name, probability, kind = filter(None, row)
            cells.append((folder / name, float(probability) > 1 / 2, kind))
        except ValueError:
            raise ValueError(
                f"input: expected path, probability and type in line {line} of {str(file)!r}. "
                f"Received: {' '.join(row)!r}"
            ) from None
        if not cells[-1][0].is_file():
            raise ValueError(f"input: expected the image {name!r} of line {line}")
    return cells


def split(kinds: Sequence[str], seed: int) -> np.ndarray:
    """Assigns half of the runs of `CELLS` images of each type to training: a bool per image."""
    runs, length = np.zeros(len(kinds), int), 0
    for place in range(1, len(kinds)):
        length = 0 if kinds[place] != kinds[place - 1] else (length + 1) % CELLS
        runs[place] = runs[place - 1] + (length == 0)
    random, training = np.random.default_rng(seed), np.zeros(len(kinds), bool)
    for kind in sorted(set(kinds)):
        modules = np.unique(runs[np.array(kinds) == kind])
        training |= np.isin(runs, random.permutation(modules)[: -(-len(modules) // 2)])
    return training


if __name__ == "__main__":
    run_command(main)
