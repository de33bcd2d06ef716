"""TFRecord shards with a description, which `zoo.detection.convert` writes and training reads."""

import glob
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from zoo.cli.settings import Section
from zoo.detection import coco
from zoo.detection.config import DetectionConfig
from zoo.errors import printable, refusal, require, some
from zoo.files import answering, in_bucket, local_copy, why_no_file
from zoo.run_folder import other_data, read_json

DESCRIPTION = "dataset.json"
TRAIN, TEST = "train", "val"  # prefixes of the shards, as in COCO
ANNOTATIONS = "val.json"  # annotations of the test images
Ids = dict[str, list[int]]  # of the images in each shard

# The detector has an output for every id up to the largest one.
Categories = Annotated[dict[coco.CategoryId, str], Field(min_length=1)]


MOST_OBJECTS = 100  # in an image, for COCO's metric and the Model Garden; data with more raise it


class Part(Section):
    """The training images, or the test images."""

    images: int = Field(ge=1)
    objects: int = Field(ge=1)


class Labels(BaseModel):
    """Category names by id, ids in the user's file where they differ, most objects in an image."""

    categories: Categories
    file_ids: dict[coco.CategoryId, int | str] = {}
    most_objects: int = Field(default=MOST_OBJECTS, ge=MOST_OBJECTS)


class Dataset(Labels, Section):
    """Description of a folder of shards: categories, images, and kind of objects."""

    train: Part
    val: Part
    masks: bool = True

    @classmethod
    def read(cls, folder: Path) -> "Dataset":
        """Reads the description of a folder, local or in a bucket."""
        path = folder / DESCRIPTION
        expected = "data.dir: expected a folder that python -m zoo.detection.convert has written"
        with answering(path):
            require(path.is_file(), expected, f"{str(folder)!r}, without {DESCRIPTION}")
        return read_json(cls, path, f"data.dir: expected an intact {DESCRIPTION}")


def pattern(folder: Path, part: str) -> str:
    """Returns the file pattern of `TRAIN` or `TEST`."""
    return f"{glob.escape(str(folder))}/{part}-*.tfrecord"


class Counts(Section):
    """Training shards of a run: numbers of records by path, and `sizes` in bytes."""

    train: dict[str, Annotated[int, Field(ge=0)]]
    sizes: tuple[int, ...] = ()

    def here(self, folder: Path) -> "Counts":
        """Returns the same shards in a folder, to which they may have been moved."""
        import tensorflow as tf

        from zoo.data.record_files import file_sizes

        files = sorted(tf.io.gfile.glob(pattern(folder, TRAIN)))
        names = [[*map(os.path.basename, paths)] for paths in (self.train, files)]
        if names[0] != names[1] or self.sizes not in ((), (*file_sizes(files),)):
            raise other_data(folder, "names or sizes of training shards")
        counts = dict(zip(files, self.train.values(), strict=True))
        return self.model_copy(update={"train": counts})


def check(folder: Path, dataset: Dataset, part: str, image_size: float = 64) -> Ids:
    """Reads all shards of a part once, and checks them, including checksums.

    Training resizes images to fit `image_size` pixels or more; too elongated ones are refused.
    """
    import tensorflow as tf

    files = sorted(tf.io.gfile.glob(pattern(folder, part)))
    if not files:
        raise ValueError(f"data.dir: expected shards. Received: no {pattern(folder, part)}")
    with ThreadPoolExecutor(16) as pool:  # buckets are slow
        ids_per_file = list(pool.map(lambda file: _check_file(file, dataset, image_size), files))
    count, expected = sum(map(len, ids_per_file)), getattr(dataset, part).images
    require(
        count == expected,
        f"data.dir: expected the {expected} {part} images of {folder / DESCRIPTION}",
        f"{count} in {len(files)} shards",
    )
    return dict(zip(files, ids_per_file, strict=True))


def _check_file(file: str, dataset: Dataset, image_size: float) -> list[int]:
    import tensorflow as tf

    from zoo.data.crops import is_deep_png
    from zoo.data.errors import reason
    from zoo.data.image_files import TO_8_BITS
    from zoo.data.record_layout import why_compressed

    keys: dict[str, Any] = {
        "image/source_id": tf.io.FixedLenFeature([], tf.string),
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/mask": tf.io.VarLenFeature(tf.string),
        "image/height": tf.io.FixedLenFeature([], tf.int64),
        "image/width": tf.io.FixedLenFeature([], tf.int64),
    }
    ids: list[int] = []
    try:
        records: Any = tf.data.TFRecordDataset(file).batch(16)
        for batch in records.map(lambda texts: tf.io.parse_example(texts, keys)):
            source, images, labels, masks, heights, widths = (batch[key] for key in keys)
            if is_deep_png(images).numpy().any():
                raise ValueError(f"16-bit PNG; {TO_8_BITS}")
            for height, width in tf.stack([heights, widths], -1).numpy().tolist():
                check_shape(height, width, image_size)
            ids += map(int, source.numpy().tolist())
            unknown = set(labels.values.numpy().tolist()) - dataset.categories.keys()
            if unknown:
                raise ValueError(f"category {min(unknown)}, which {DESCRIPTION} does not name")
            if dataset.masks and masks.indices.shape != labels.indices.shape:
                raise ValueError(f"objects without masks, which {DESCRIPTION} promises")
    except (tf.errors.OpError, ValueError) as error:
        why = "" if in_bucket(file) else why_no_file(file)
        received = why_compressed(file) or f"{printable(file)} ({why or reason(error)})"
        raise refusal("data.dir: expected intact shards", received) from None
    return ids


def check_shape(height: int, width: int, image_size: float) -> None:
    """Refuses an image whose shorter side vanishes when it is resized to fit."""
    expected = f"expected images less than {2 * image_size:g} times as long as wide"
    received = f"{width} x {height} pixels"
    require(min(height, width) * image_size > max(height, width) / 2, expected, received)


def training_records(
    config: DetectionConfig, counts: Counts, first_step: int = 0, _: Any = None
) -> Any:
    """Returns an endless `tf.data.Dataset` of serialized `tf.train.Example`s to train on.

    An epoch consists of all full batches of the images, each at most once, shuffled by the seed.
    Order and position are functions of the seed and the step, so a resumed run continues with the
    same images after its `first_step` steps.
    """
    from zoo.data.errors import no_autograph
    from zoo.data.record_files import RecordFile, StreamSource
    from zoo.devices import ONLY_HOST

    data = config.data
    source = StreamSource(
        [RecordFile(file, 0, count) for file, count in counts.train.items()],
        no_autograph(lambda record, number, file: record),
        data.shuffle_buffer,
    )
    groups = source.training(data.batch_size, first_step, ONLY_HOST, config.training.seed)
    return groups.unbatch()


def read_annotations(
    folder: Path, dataset: Dataset, shards: Ids, categories: Mapping[int, str] | None = None
) -> coco.Json:
    """Reads the annotations of the test images, and checks them for pycocotools.

    `shards` is what `check` returns. Categories get the ids of `categories`, by name.
    """
    ids = [number for shard in shards.values() for number in shard]
    path = folder / ANNOTATIONS
    try:
        with answering(path):
            if not path.is_file():
                raise ValueError("not found")
            with local_copy(path) as here:
                annotations, *findings = coco.parse(here, masks=dataset.masks)
        faults = [line for kinds in findings for line in kinds.lines()]
        if annotations.categories != dataset.categories:
            faults.insert(0, f"other categories than in {DESCRIPTION}")
        if annotations.objects.keys() != set(ids):
            count = len(annotations.images)
            faults.insert(0, f"{count} images, which are not the {len(ids)} of the shards")
        if faults:
            raise ValueError(some(faults, separator="; "))
    except ValueError as error:
        expected = "data.dir: expected the annotations of the test images"
        raise refusal(expected, f"{path} ({error})") from None
    numbers = {name: i for i, name in (categories or annotations.categories).items()}
    return annotations.renumbered(numbers).to_json()


def by_image(annotations: coco.Json) -> Mapping[int, tuple[str, list[coco.Json]]]:
    """Returns the file name and objects of each image, by image id."""
    images = {image["id"]: (image["file_name"], []) for image in annotations["images"]}
    for annotation in annotations["annotations"]:
        images[annotation["image_id"]][1].append(annotation)
    return images


def read_images(files: str, most: int | None = None, ids: Collection[int] = ()) -> dict[int, Any]:
    """Reads the images of `ids`, the first `most`, or all: uint8 `(height, width, 3)`.

    `files` is the `pattern` of their shards.
    """
    import tensorflow as tf

    text = tf.io.FixedLenFeature([], tf.string)
    keys = {"image/encoded": text, "image/source_id": text}
    images: dict[int, Any] = {}
    records: Any = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(files)))
    for record in records:
        if len(images) == (len(ids) or most):
            break
        features: Any = tf.io.parse_single_example(record, keys)
        number = int(features["image/source_id"].numpy())
        if not ids or number in ids:
            image: Any = tf.io.decode_image(features["image/encoded"], 3, expand_animations=False)
            images[number] = image.numpy()
    return images
