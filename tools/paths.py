"""Drawings of paths, an easy Pathfinder task: `python -m tools.paths --output FOLDER`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import needs_extra, printable
from zoo.fields import OutputFolder
from zoo.files import atomic_write

# RGB colors of the right ends of the paths; every image has all of them.
COLORS = {
    "red": (255, 64, 64),
    "green": (64, 255, 64),
    "blue": (64, 64, 255),
    "yellow": (255, 255, 64),
}
PATH, MARK = 128, 255  # gray levels, on black
SIZE = 32  # height and width of an image in pixels
MARGIN = 3  # least number of rows from the border to an end
GAP = 7  # least number of rows between ends of two paths
LENGTHS = (6, 26)  # least and largest number of columns of a path
POINTS = 2 * SIZE  # drawn points of a path


class PathsConfig(Settings):
    """Draws four paths per image; the class is the color at the other end of the marked one.

    Writes train/CLASS/ and val/CLASS/ with PNG files of 32 x 32 pixels, for --data.source
    image_folder. Every training image is written twice, the second time upside down. Example:

      python -m tools.paths --output runs/paths
    """

    output: OutputFolder
    """New folder of the images."""
    train: int = Field(default=6_400, ge=1, le=100_000)
    """Drawings to train on."""
    val: int = Field(default=2_000, ge=1, le=100_000)
    """Drawings to test on."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of the drawings."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then draws."""
    config = PathsConfig.from_command_line(arguments, "python -m tools.paths")
    if config.output.exists() and any(config.output.iterdir()):
        raise ValueError(f"output: expected a new folder. Received: {str(config.output)!r}")
    write(config.output, config.train, config.val, config.seed)
    print(f"wrote 2 x {config.train} + {config.val} images to {printable(config.output)}")


def write(output: Path, train: int, val: int, seed: int = 0) -> None:
    """Writes the folder, all or nothing."""
    with needs_extra("train"):
        from PIL import Image

    with atomic_write(output) as folder:
        for number, (part, count) in enumerate((("train", train), ("val", val))):
            for name in COLORS:
                (folder / part / name).mkdir(parents=True)
            images, labels, _ = draw(count, 2 * seed + number)
            for place, (image, label) in enumerate(zip(images, labels, strict=True)):
                path = folder / part / list(COLORS)[label] / f"{place:06d}.png"
                Image.fromarray(image).save(path)
                if part == "train":
                    Image.fromarray(image[::-1]).save(path.with_stem(f"{place:06d}-flipped"))


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws an easy Pathfinder task (after Linsley et al., 2018, arXiv:1805.08315).

    Four paths run from the left to the right and do not touch. Their right ends are squares of the
    four colors, in random order. A white square marks one of the left ends; the label is the color
    at the other end of that path, so that a network has to relate two distant positions.

    Returns:
        Images, uint8 of shape `(count, 32, 32, 3)`, labels, and lengths of the marked paths, from
        the mark to the color.
    """
    rng = np.random.default_rng(seed)
    shape = count, len(COLORS)  # a row of paths for each image
    free = SIZE - 2 * MARGIN - GAP * (len(COLORS) - 1)
    steps = np.sort(rng.integers(0, free, (2, *shape)), axis=-1)
    left, right = steps + MARGIN + GAP * np.arange(len(COLORS))
    lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, shape)
    begin = rng.integers(MARGIN - 1, SIZE - MARGIN + 1 - lengths)
    colors = rng.permuted(np.tile(np.arange(len(COLORS)), (count, 1)), axis=1)
    marked = np.arange(count), rng.integers(0, len(COLORS), count)

    images = np.zeros((count, SIZE, SIZE, 3), "uint8")
    t = np.linspace(0, 1, POINTS)
    rows = left[..., None] + (right - left)[..., None] * t**2 * (3 - 2 * t)
    _paint(images, rows, begin[..., None] + lengths[..., None] * t, PATH)
    _paint_squares(images, right, begin + lengths, np.array([*COLORS.values()])[colors])
    _paint_squares(images, left[marked][:, None], begin[marked][:, None], np.full(3, MARK))
    return images, colors[marked], lengths[marked]


def _paint(images: np.ndarray, rows: np.ndarray, columns: np.ndarray, color: Any) -> None:
    """Sets pixels at rows and columns of each image, `(count, paths, points)`."""
    number = np.arange(len(images))[:, None, None]
    images[number, np.rint(rows).astype(int), np.rint(columns).astype(int)] = color


def _paint_squares(images: np.ndarray, rows: np.ndarray, columns: np.ndarray, color: Any) -> None:
    """Sets 3 x 3 pixels around each place, `(count, paths)`, to colors `(count, paths, 3)`."""
    down, across = np.mgrid[-1:2, -1:2].reshape(2, 9)
    _paint(images, rows[..., None] + down, columns[..., None] + across, color[..., None, :])


if __name__ == "__main__":
    run_command(main)
