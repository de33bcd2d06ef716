"""Pseudo-labeled images for training, from a folder of selected labels."""

from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from zoo.config import DataConfig
from zoo.data import pseudo_records
from zoo.data.errors import no_autograph
from zoo.data.load import ImageData, TrainingImages, readers
from zoo.data.record_files import RecordFile, StreamSource
from zoo.data.sources.kinds import SOURCES
from zoo.data.sources.stored import AnyFile, Record
from zoo.devices import Host
from zoo.errors import printable, require

OWN_SEEDS = 2**32  # added to the seed, so that these images have random numbers of their own


@dataclass(frozen=True, kw_only=True)
class WithPseudoLabels(TrainingImages):
    """Labeled training images, with pseudo-labeled images in every batch.

    `ratio` is the number of pseudo-labeled images for each labeled image. `label_smoothing` is for
    the labeled images alone.
    """

    pseudo: TrainingImages
    ratio: float
    label_smoothing: float

    @property
    def files(self) -> list[str]:
        return super().files + self.pseudo.files

    def step_size(self, batch_size: int) -> int:
        return batch_size + round(self.ratio * batch_size)

    def unmixed(
        self, batch_size: int, classes: int, first_step: int, host: Host
    ) -> tf.data.Dataset:
        others = self.step_size(batch_size) - batch_size
        # Interleaving gives each host, device and micro-batch both kinds in proportion.
        counts = host.size(batch_size), host.size(others)
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        order, smoothing = np.argsort(places, kind="stable"), self.label_smoothing

        @no_autograph
        def joined(labeled: tuple[tf.Tensor, tf.Tensor], pseudo: tuple[tf.Tensor, tf.Tensor]):
            smoothed = labeled[1] * (1 - smoothing) + smoothing / classes
            images = tf.concat([labeled[0], pseudo[0]], 0)
            return tf.gather(images, order), tf.gather(tf.concat([smoothed, pseudo[1]], 0), order)

        labeled = super().unmixed(batch_size, classes, first_step, host)
        pseudo = self.pseudo.unmixed(others, classes, first_step, host)
        return tf.data.Dataset.zip(labeled, pseudo).map(joined)


def with_pseudo_labels(
    data: ImageData, config: DataConfig, image_size: int, seed: int, label_smoothing: float
) -> ImageData:
    """Adds pseudo-labeled images to the training images; they are augmented alike.

    Raises `ValueError` if the folder is incomplete, or its classes differ from the data's.
    """
    pseudo, classes = config.pseudo, len(data.class_names)
    selection = pseudo_records.read_selection(pseudo.dir)
    selection.check_classes(data.class_names)
    pseudo_records.check_records(pseudo.dir, selection)

    @no_autograph
    def parse(record: tf.Tensor, number: tf.Tensor, file: tf.Tensor) -> Record:
        fields = pseudo_records.parse(record)
        if pseudo.labels == "soft":
            label = pseudo_records.soft_label(fields, classes, pseudo.temperature)
        else:
            label = tf.one_hot(fields["label"], classes)
        place = tf.strings.join([", number ", tf.strings.as_string(number), " of ", file])
        return Record(image=fields["image"], label=label, name=fields["name"] + place)

    files = [RecordFile(f"{pseudo.dir}/{file.name}", 0, file.records) for file in selection.files]
    source = SOURCES[config.source](config)  # its augmentation is for pseudo-labeled images, too
    read_images, _ = readers(config, source, source.center(image_size), AnyFile())
    images = TrainingImages(
        StreamSource(files, parse, config.shuffle_buffer), read_images, seed + OWN_SEEDS
    )
    train = WithPseudoLabels(
        **vars(data.train), pseudo=images, ratio=pseudo.ratio, label_smoothing=label_smoothing
    )
    wanted = train.step_size(config.batch_size) - config.batch_size
    most = f"{images.count} pseudo-labeled images in a batch, the number in {printable(pseudo.dir)}"
    require(wanted <= images.count, f"data.pseudo.ratio: expected at most {most}", wanted)
    return replace(data, train=train)
