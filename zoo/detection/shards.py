"""What `zoo.detection.convert` writes and training reads: TFRecord shards with a description."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from zoo.cli.settings import STRICT
from zoo.errors import first_wrong
from zoo.files import answering

DESCRIPTION = "dataset.json"
TRAIN, TEST = "train", "val"  # prefixes of the shards, as COCO's
ANNOTATIONS = "val.json"  # what detections are compared with


class Part(BaseModel):
    """The images of training, or those of the test."""

    model_config = STRICT

    images: int = Field(ge=1)
    objects: int = Field(ge=1)


class Dataset(BaseModel):
    """What is in a folder of shards.

    Attributes:
        categories: Names of the categories by their ids.
        train: Images to train on.
        val: Images to test on.
    """

    model_config = STRICT

    categories: dict[int, str] = Field(min_length=1)
    train: Part
    val: Part

    @classmethod
    def read(cls, folder: Path) -> "Dataset":
        """Reads the description of a folder, local or in a bucket.

        Raises:
            ValueError: If it is not there or is damaged.
        """
        path = folder / DESCRIPTION
        with answering(path):
            if not path.is_file():
                raise ValueError(
                    "data.dir: expected a folder that python -m zoo.detection.convert has written. "
                    f"Received: {str(folder)!r}, without {DESCRIPTION}"
                )
            text = path.read_bytes()
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            received = f"Received: {path} ({first_wrong(error, 'the file')})"
            raise ValueError(f"data.dir: expected an intact {DESCRIPTION}. {received}") from None


def pattern(folder: Path, part: str) -> str:
    """Returns which files are the shards of a part."""
    return f"{folder}/{part}-*.tfrecord"


def read_images(files: str, most: int | None = None, ids: Collection[int] = ()) -> dict[int, Any]:
    """Returns images of shards by their ids, as they are stored.

    Args:
        files: Which shards, as `pattern` returns it.
        most: How many, the first ones. Defaults to None: all.
        ids: Of the images. Defaults to (): any.

    Returns:
        uint8 arrays of shape `(height, width, 3)`.
    """
    import tensorflow as tf

    keys = {
        name: tf.io.FixedLenFeature([], tf.string) for name in ("image/encoded", "image/source_id")
    }
    images: dict[int, Any] = {}
    records: Any = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(files)))
    for record in records:
        if len(images) == (len(ids) or most):
            break
        found: Any = tf.io.parse_single_example(record, keys)
        number = int(found["image/source_id"].numpy())
        if not ids or number in ids:
            image: Any = tf.io.decode_image(found["image/encoded"], 3, expand_animations=False)
            images[number] = image.numpy()
    return images
