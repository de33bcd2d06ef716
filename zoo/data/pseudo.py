"""Pseudo-labeled images for training, from a folder of `zoo.pseudo_label select`."""

from dataclasses import replace

import tensorflow as tf

from zoo.config import DataConfig
from zoo.data import pseudo_records
from zoo.data.crops import convert
from zoo.data.errors import no_autograph
from zoo.data.load import (
    ImageData,
    PseudoLabeled,
    TrainingImages,
    find_source,
    held_out_preprocessing,
    readers,
)
from zoo.data.record_files import RecordFile, StreamSource
from zoo.data.sources.base import DataSource, Record
from zoo.errors import printable

OWN_SEEDS = 2**32  # added to the seed, so that images and their order are of other random numbers


def with_pseudo_labels(
    data: ImageData, config: DataConfig, image_size: int, seed: int, label_smoothing: float
) -> ImageData:
    """Adds pseudo-labeled images to the training images; they are augmented alike.

    Raises `ValueError` if the folder is incomplete, or its classes are not those of the data.
    """
    pseudo = config.pseudo
    selection = pseudo_records.read_selection(pseudo.dir)
    selection.check_classes(data.class_names)
    pseudo_records.check_records(pseudo.dir, selection)
    classes = len(data.class_names)

    @no_autograph
    def parse(record: tf.Tensor, number: tf.Tensor, file: tf.Tensor) -> Record:
        found = pseudo_records.parse(record)
        if pseudo.labels == "soft":
            label = pseudo_records.soft_label(found, classes, pseudo.temperature)
        else:
            label = tf.one_hot(found["label"], classes)
        place = tf.strings.join([", number ", tf.strings.as_string(number), " of ", file])
        return {"image": found["image"], "label": label, "name": found["name"] + place}

    files = [RecordFile(f"{pseudo.dir}/{one.name}", 0, one.records) for one in selection.files]
    stream = StreamSource(files, parse, config.shuffle_buffer)
    read_image, _ = readers(
        config, _of_files(find_source(config)), held_out_preprocessing(config, image_size)
    )
    images = TrainingImages(stream, read_image, seed + OWN_SEEDS)
    added = PseudoLabeled(images, pseudo.ratio, label_smoothing)
    if (wanted := added.images_for(config.batch_size)) > selection.count:
        raise ValueError(
            f"data.pseudo.ratio: expected at most {selection.count} pseudo-labeled images in a "
            f"batch, the number in {printable(pseudo.dir)}. Received: {wanted}"
        )
    return replace(data, train=replace(data.train, pseudo=added))


def _of_files(source: DataSource) -> DataSource:
    """Returns the source with its own augmentation, for records that hold image files."""

    class OfFiles(type(source)):
        read = DataSource.read

        def encoded(self, record: Record) -> tf.Tensor:
            return convert(record["image"])

    return OfFiles(source.config)  # pyright: ignore[reportAbstractUsage]
