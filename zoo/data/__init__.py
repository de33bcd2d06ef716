"""Images to train and test on, as tf.data pipelines without Python in them."""

from zoo.data.crops import resize_centre
from zoo.data.digits import DIGITS_TEST_COUNT, digits_arrays
from zoo.data.errors import naming_errors
from zoo.data.load import ImageData, load_data
from zoo.data.pipeline import EvalImages, TrainingImages
from zoo.data.sources import Shard

__all__ = [
    "DIGITS_TEST_COUNT",
    "EvalImages",
    "ImageData",
    "Shard",
    "TrainingImages",
    "digits_arrays",
    "load_data",
    "naming_errors",
    "resize_centre",
]
