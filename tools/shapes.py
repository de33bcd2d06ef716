"""A small synthetic dataset in COCO's format: `python -m tools.shapes`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import Field

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.detection.coco import Json, encode_mask
from zoo.errors import needs_extra, printable
from zoo.fields import OutputFolder
from zoo.files import atomic_write

CATEGORIES = ("disc", "square", "triangle")
SIDES = (0.08, 0.5)  # sides of a shape, as fractions of the image
MOST = 5  # drawn objects per image
EMPTY_EVERY, CROWD_EVERY = 12, 10  # intervals of images without objects, and with a crowd
CROWD = 8  # shapes per crowd
VISIBLE = 0.5  # smallest visible fraction of a shape


@dataclass(frozen=True)
class Shape:
    """A drawn object: index of its category, visible mask, and area in pixels."""

    category: int
    mask: np.ndarray
    area: int
    crowd: bool = False


class ShapesConfig(Settings):
    """Draws discs, squares and triangles on parts of the two sample images of scikit-learn.

    Writes train/ and val/ with JPEG files, and train.json and val.json with boxes and exact masks
    in COCO's format, for zoo.detection.convert. Some images are empty, some have a crowd. The same
    seed draws the same images. Example:

      python -m tools.shapes --output runs/shapes --train 240 --val 80
    """

    output: OutputFolder
    """New folder of the images."""
    train: int = Field(default=240, ge=1, le=100_000)
    """Number of training images."""
    val: int = Field(default=80, ge=1, le=100_000)
    """Number of test images."""
    size: int = Field(default=256, ge=64, le=400)
    """Height and width in pixels."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of the drawings."""
    masks: bool = True
    """Write masks in addition to boxes."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then draws."""
    config = ShapesConfig.from_command_line(arguments, "python -m tools.shapes")
    if config.output.exists() and any(config.output.iterdir()):
        raise ValueError(f"output: expected a new folder. Received: {str(config.output)!r}")
    write(config.output, config.train, config.val, config.size, config.seed, config.masks)
    print(f"wrote {config.train} + {config.val} images to {printable(config.output)}")


def write(output: Path, train: int, val: int, size: int, seed: int = 0, masks: bool = True) -> None:
    """Writes the dataset, all or nothing, with backgrounds from the left and the right halves."""
    with needs_extra("train"):
        from PIL import Image
        from sklearn.datasets import load_sample_images

    halves = [np.array_split(photo, 2, axis=1) for photo in load_sample_images().images]
    with atomic_write(output) as folder:
        for number, (part, count) in enumerate((("train", train), ("val", val))):
            (folder / part).mkdir(parents=True)
            backgrounds = [pair[number] for pair in halves]
            images, annotations = [], []
            for place in range(count):
                random = np.random.default_rng([seed, number, place])
                image, objects = draw(backgrounds, size, place, random)
                name = f"{place:06d}.jpg"
                Image.fromarray(image).save(folder / part / name, quality=90)
                images.append({"id": place, "file_name": name, "height": size, "width": size})
                for one in objects:
                    if not masks:
                        del one["segmentation"]
                    annotations.append({"id": len(annotations) + 1, "image_id": place, **one})
            categories = [{"id": i, "name": name} for i, name in enumerate(CATEGORIES, start=1)]
            content = {"images": images, "annotations": annotations, "categories": categories}
            (folder / f"{part}.json").write_text(json.dumps(content))


def draw(
    backgrounds: Sequence[np.ndarray], size: int, place: int, random: np.random.Generator
) -> tuple[np.ndarray, list[Json]]:
    """Draws an image, of shape `(size, size, 3)`, and returns it with its objects.

    Objects are in COCO's format, with masks of their visible parts. Some places, which are indices
    of images, have no objects, others a crowd.
    """
    photo = backgrounds[int(random.integers(len(backgrounds)))]
    top, left = (random.integers(side - min(side, size) + 1) for side in photo.shape[:2])
    image = photo[top : top + size, left : left + size]
    missing = [(0, size - side) for side in image.shape[:2]]
    image = np.pad(image, (*missing, (0, 0)), mode="reflect")
    if place % EMPTY_EVERY == EMPTY_EVERY - 1:
        return image, []
    drawn: list[Shape] = []
    if place % CROWD_EVERY == CROWD_EVERY - 1:
        category, center = int(random.integers(len(CATEGORIES))), random.uniform(0.3, 0.7, 2)
        mask = np.zeros((size, size), bool)
        for _ in range(CROWD):
            mask |= _pixels(category, size, 0.06, center + random.uniform(-0.12, 0.12, 2), random)
        drawn.append(Shape(category, mask, int(mask.sum()), crowd=True))
    for _ in range(random.integers(1, MOST + 1)):
        category = int(random.integers(len(CATEGORIES)))
        side, center = random.uniform(*SIDES), random.uniform(0.15, 0.85, 2)
        mask = _pixels(category, size, side, center, random)
        others = [replace(shape, mask=shape.mask & ~mask) for shape in drawn]
        if all(shape.mask.sum() >= VISIBLE * shape.area for shape in others):
            drawn = [*others, Shape(category, mask, int(mask.sum()))]
    image = image.astype("float32")
    for shape in drawn:
        color, grain = random.uniform(0, 255, 3), random.normal(0, 12, (size, size, 1))
        image = np.where(shape.mask[..., None], 0.15 * image + 0.85 * color + grain, image)
    image = np.clip(image, 0, 255).astype("uint8")
    return image, [_object(shape) for shape in drawn]


def _pixels(
    category: int, size: int, side: float, center: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Returns the mask of a shape, `(size, size)`; `side` is a fraction of the image."""
    rows, columns = (np.mgrid[:size, :size] + 0.5) / size - center[:, None, None]
    name = CATEGORIES[category]
    if name == "disc":
        return rows**2 + columns**2 <= (side / 2) ** 2
    angle = random.uniform(0, 2 * np.pi)
    down = rows * np.cos(angle) - columns * np.sin(angle)
    right = rows * np.sin(angle) + columns * np.cos(angle)
    if name == "square":
        return np.maximum(abs(down), abs(right)) <= side / 2
    inner = side / np.sqrt(12)  # radius of the incircle of an equilateral triangle
    return (down <= inner) & (abs(right) * np.sqrt(3) - down <= 2 * inner)


def _object(shape: Shape) -> Json:
    rows, columns = (np.flatnonzero(shape.mask.any(axis)) for axis in (1, 0))
    top, left = int(rows[0]), int(columns[0])
    return {
        "category_id": shape.category + 1,
        "iscrowd": int(shape.crowd),
        "bbox": [left, top, int(columns[-1]) + 1 - left, int(rows[-1]) + 1 - top],
        "area": int(shape.mask.sum()),
        "segmentation": encode_mask(shape.mask),
    }


if __name__ == "__main__":
    run_command(main)
