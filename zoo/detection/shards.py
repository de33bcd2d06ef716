"""What `zoo.detection.convert` writes and training reads: TFRecord shards with a description."""

from pathlib import Path

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

    @property
    def num_classes(self) -> int:
        """Outputs of a detector: one for the background, and one for every id up to the last."""
        return max(self.categories) + 1

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
