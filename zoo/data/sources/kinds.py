"""The table of data sources."""

from zoo.data.sources.base import DataSource
from zoo.data.sources.digits import Digits
from zoo.data.sources.image_folder import ImageFolder
from zoo.data.sources.tfds import Tfds
from zoo.data.sources.tfrecord import TFRecords

SOURCES: dict[str, type[DataSource]] = {
    "digits": Digits,
    "image_folder": ImageFolder,
    "tfds": Tfds,
    "tfrecord": TFRecords,
}
