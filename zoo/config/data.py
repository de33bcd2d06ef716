"""Settings of the images that a run trains and tests on."""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from zoo.cli.settings import Section, one_of


class SourceRow(NamedTuple):
    """A data source, whose code is the module of its name in `zoo.data.sources`."""

    purpose: str  # images that it reads
    # Those that only some sources have, with what messages call them if they are required.
    settings: Mapping[str, str] = {}


SOURCES = {
    "digits": SourceRow("scikit-learn's handwritten digits", {"class_weights": ""}),
    "pathfinder": SourceRow(
        "drawings of paths, of which one is marked; its class is the color at the other end"
    ),
    "image_folder": SourceRow("image files", {"dir": "a folder of images", "class_weights": ""}),
    "tfds": SourceRow(
        "a data set of TensorFlow Datasets", {"dir": "", "name": "the name of a data set"}
    ),
    "tfrecord": SourceRow(
        "shards of tf.train.Example",
        {"dir": "a folder of shards", "classes": "the number of classes"},
    ),
}

# Augmentations in addition to crops, flips and shifts.
AUGMENTATIONS = ("randaugment_magnitude", "color_jitter", "random_erasing", "mixup", "cutmix")


def check_only_for(section: Section, setting: str, choice: str, allowed: Collection[str]) -> None:
    """Refuses a setting that is for `allowed` values of the setting `choice` only."""
    value, chosen = getattr(section, setting), getattr(section, choice)
    if value is not None and value is not False and chosen not in allowed:
        names = " or ".join(f"{choice}={name}" for name in allowed)
        raise ValueError(
            f"{setting} is for {names} only. Received: {setting}={value}, {choice}={chosen}"
        )


class DataConfig(Section):
    """Training and test images."""

    source: Annotated[str, one_of("source", SOURCES)] = Field(
        default="digits",
        description="; ".join(f"{name}: {row.purpose}" for name, row in SOURCES.items()) + ".",
    )
    dir: str | None = None
    """image_folder: folder with train/CLASS/* and val/CLASS/*, or with CLASS/* to split; tfds:
    where data sets are prepared, local or gs://; tfrecord: folder of shards."""
    name: str | None = None
    """tfds: data set, such as imagenet2012."""
    train_split: str = "train"
    """tfds: images to train on; train[20shard:] holds 2 % of ImageNet out."""
    test_split: str = "validation"
    """tfds: images to test on, such as train[:20shard]."""
    classes: int | None = Field(default=None, ge=2)
    """tfrecord: number of classes; labels count from 0 or from 1."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Held-out fraction of a folder that has no train/ and val/."""
    split_seed: int = Field(default=0, ge=0)
    """Seed of the choice of these held-out images."""
    batch_size: int = Field(default=64, ge=1)
    """Images per step, over all devices."""
    augment: bool = True
    """Random crops and flips; digits: shifts by up to 1/8 instead; pathfinder: half of the images
    upside down instead."""
    randaugment_magnitude: float | None = Field(default=None, ge=0, le=30)
    """Strength of RandAugment, 10 being its nominal maximum; None: without."""
    randaugment_layers: int = Field(default=2, ge=1, le=8)
    """Operations of RandAugment per image."""
    color_jitter: float | None = Field(default=None, gt=0, le=1)
    """Change brightness, contrast, saturation by up to this fraction, such as 0.4; None: not."""
    random_erasing: float | None = Field(default=None, gt=0, le=1)
    """Fraction of the images in which noise replaces a window, such as 0.25; None: without."""
    mixup: float | None = Field(default=None, gt=0, le=10)
    """Alpha of MixUp, such as 0.2: weighted sums of two images of a batch, and of their labels;
    None: without."""
    cutmix: float | None = Field(default=None, gt=0, le=10)
    """Alpha of CutMix, such as 1: a window of an image is replaced by that of another one; None:
    without. With MixUp, too, every batch has one of the two at random."""
    class_weights: Literal["balanced"] | None = None
    """digits, image_folder; balanced: all classes have the same weight in the loss, however many
    images they have; None: all images have the same weight."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """Images that cannot be decoded are named. refuse: the run ends, for image_folder before the
    first step, for tfds and tfrecord when the image is read. skip: image_folder leaves them out;
    tfds and tfrecord replace them by another image of the batch in training, and leave them out in
    tests."""
    shuffle_buffer: int = Field(default=10_000, ge=1)
    """tfds, tfrecord: size of the shuffle buffer of undecoded images, in addition to the order of
    the files; takes 1.1 GB of memory per host for ImageNet."""

    @model_validator(mode="after")
    def _fits_source(self) -> Self:
        own = SOURCES[self.source].settings
        for name in dict.fromkeys(name for row in SOURCES.values() for name in row.settings):
            value = getattr(self, name)
            if value is None and own.get(name):
                raise ValueError(f"source={self.source} needs {own[name]}. Received: {name}=None")
            check_only_for(
                self, name, "source", [key for key, row in SOURCES.items() if name in row.settings]
            )
        for name in AUGMENTATIONS:
            value = getattr(self, name)
            if value is not None and not self.augment:
                raise ValueError(
                    f"{name} needs augment=true. Received: {name}={value}, augment=false"
                )
        if self.batch_size < 2 and (self.mixup or self.cutmix):
            raise ValueError(
                "mixup and cutmix need batch_size of 2 or more. "
                f"Received: batch_size={self.batch_size}"
            )
        return self
