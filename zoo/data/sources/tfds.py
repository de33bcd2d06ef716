"""Image classification datasets of TensorFlow Datasets."""

import logging
import math
from difflib import get_close_matches
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.data.errors import in_one_line, naming_errors, no_autograph, reason
from zoo.data.image_files import TO_8_BITS
from zoo.data.record_files import RecordFile, StreamSource, file_sizes
from zoo.data.record_layout import why_compressed
from zoo.data.sources.base import DataSource, Split
from zoo.data.sources.stored import Record
from zoo.devices import ONLY_HOST
from zoo.errors import errors_of, needs_extra, refusal, require
from zoo.files import check_no_pattern

# The license of ImageNet forbids to download it automatically.
IMAGENET = "put ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar into {}/downloads/manual, then "

SEVERAL = "real_label"  # feature of imagenet2012_real: a sequence of labels, which may be empty
Builder = Any  # of TensorFlow Datasets, which is imported where it is needed
CROPPED = "imagenet2012_corrupted"  # its images are central crops already


class Tfds(DataSource):
    """A prepared dataset of TensorFlow Datasets with the features `image` and `label`.

    In a dataset with `SEVERAL`, labels are multi-hot vectors.
    """

    @property
    def crop(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Fraction of the shorter side in test images."""
        return 1.0 if (self.config.name or "").startswith(CROPPED) else DataSource.crop

    def open(self, image_size: int) -> Split:
        with needs_extra("train"):
            import tensorflow_datasets as tfds
        name, folder = self.config.name or "", self.config.dir
        builder = find_builder(name, folder)
        features: dict[str, Any] = dict(builder.info.features.items())
        if SEVERAL in features:
            features["label"] = getattr(features[SEVERAL], "feature", None)
        label: Any = features.get("label")
        wanted = {"image": tfds.features.Image, "label": tfds.features.ClassLabel}
        require(
            all(isinstance(features.get(name), kind) for name, kind in wanted.items()),
            "data.name: expected a data set with the features image (Image) and label (ClassLabel)",
            f"{name!r} with {', '.join(sorted(features))}",
        )
        check_pixels(builder)
        if (form := builder.info.file_format.value) != "tfrecord":
            way = to_tfrecords(builder, name, folder)
            raise ValueError(f"data.dir: {name} cannot be read from {form} files; {way}")
        train, test = (
            self._stream(builder, setting, len(label.names))
            for setting in ("train_split", "test_split")
        )
        alpha = ("image has 4 channels, read as RGB and transparency, on white",)
        warnings = alpha if features["image"].shape[-1] == 4 else ()
        index: dict[str, Any] = {"data set": builder.info.full_name}
        for split, part in builder.info.splits.items():
            index[f"sizes of split {split}"] = [*map(int, [part.num_bytes, *part.shard_lengths])]
        return Split(train, test, tuple(label.names), warnings, self.check_same(index))

    def _stream(self, builder: Builder, setting: str, classes: int) -> StreamSource:
        import tensorflow_datasets as tfds

        split = getattr(self.config, setting)
        check_split(builder, split, f"data.{setting}")
        check_files(builder, split)
        decoders = {"image": tfds.decode.SkipDecoding()}

        @no_autograph
        def parse(serialized: tf.Tensor, number: tf.Tensor, path: tf.Tensor) -> Record:
            example = builder.info.features.deserialize_example(serialized, decoders=decoders)
            file = tf.strings.regex_replace(path, ".*/", "")
            name = example.get("file_name", tf.constant(""))
            separator = tf.where(name == "", "", " in ")
            name = tf.strings.join([name, separator, file, "__", tf.strings.as_string(number)])
            label = example[SEVERAL] if SEVERAL in example else example["label"]
            expected = f"data: expected a label from 0 to {classes - 1}. Received: "
            received = tf.strings.reduce_join(tf.strings.as_string(label), separator=", ")
            message = tf.strings.join([expected, received, ", of ", name])
            in_range = tf.reduce_all((label >= 0) & (label < classes))
            with tf.control_dependencies([tf.debugging.Assert(in_range, [in_one_line(message)])]):
                if SEVERAL in example:
                    label = tf.minimum(tf.reduce_sum(tf.one_hot(label, classes), 0), 1)
                return Record(image=example["image"], label=tf.identity(label), name=name)

        parts = builder.info.splits[split].file_instructions
        files = [RecordFile(str(part.filename), part.skip, part.take) for part in parts]
        stream = StreamSource(files, parse, self.config.shuffle_buffer)
        place = f"data.dir: {self.config.name} cannot be read"
        # Reads one record: secret labels are -1.
        with errors_of(place, tf.errors.OpError, reason), naming_errors(stream.files):
            next(iter(stream.read(ONLY_HOST)))
        return stream


def find_builder(name: str, folder: str | None) -> Builder:
    """Returns the builder of a prepared dataset."""
    with needs_extra("train"):
        import tensorflow_datasets as tfds
    logging.getLogger("absl").setLevel("ERROR")  # hides warnings on folders without a description
    try:
        builder = tfds.builder(name, data_dir=folder)
    except Exception as error:  # wrong names and damaged descriptions raise many kinds
        nearest = get_close_matches(name, tfds.list_builders(with_community_datasets=False))
        hint = f" (did you mean {' or '.join(nearest)}?)" if nearest else ""
        expected = "data.name: expected a data set of TensorFlow Datasets, or one that is in"
        raise refusal(f"{expected} data.dir", f"{name!r}{hint}: {reason(error)}") from None
    if not builder.is_prepared():
        check_no_pattern(folder or "", "data.dir", "TensorFlow Datasets takes")
        place = folder or "~/tensorflow_datasets"
        first = IMAGENET.format(place) if builder.name == "imagenet2012" else ""
        argument = f", data_dir={folder!r}" if folder else ""
        command = f"tfds.builder({name!r}{argument}).download_and_prepare()"
        command = f'python -c "import tensorflow_datasets as tfds; {command}"'
        raise ValueError(f"data.dir: {name} is not prepared in {place}: {first}run {command}")
    return builder


def check_split(builder: Builder, split: str, setting: str) -> None:
    """Refuses unknown and empty splits of a dataset; a part of a split is allowed."""
    try:
        count = builder.info.splits[split].num_examples
    except (ValueError, KeyError, AssertionError) as error:
        known = builder.info.splits.items()
        described = ", ".join(f"{name} ({part.num_examples} images)" for name, part in known)
        expected = f"{setting}: expected a split, or a part of one, of {builder.name}, which has"
        raise refusal(f"{expected} {described}", f"{split!r}: {reason(error)}") from None
    require(count >= 1, f"{setting}: expected one image or more", f"{split!r}, which is empty")


def check_pixels(builder: Builder) -> None:
    """Refuses images that are not uint8: their files hold 16 bits, or a float in four bytes."""
    dtype = getattr(dict(builder.info.features.items()).get("image"), "np_dtype", np.uint8)
    if dtype != np.uint8:
        expected = "data.name: expected the feature image of dtype uint8"
        raise refusal(expected, f"{np.dtype(dtype).name}; {TO_8_BITS}, and prepare it again")


def to_tfrecords(builder: Builder, name: str, folder: str | None) -> str:
    """Returns the command that converts a dataset to TFRecords, its image files as they are."""
    place = f", data_dir={str(folder)!r}" if folder else ""
    skip = "decoders={'image': tfds.decode.SkipDecoding()}"
    read = f"b.as_dataset(split=s, {skip})"
    if builder.info.file_format.value == "array_record":
        read = f"enumerate(b.as_data_source(s, {skip}))"
    return (
        f'convert it: python -c "import tensorflow_datasets as tfds; b = tfds.builder({name!r}'
        f"{place}); tfds.dataset_builders.store_as_tfds_dataset(b.name, b.version, "
        f"b.info.features, {{s: {read} for s in b.info.splits}}, data_dir='NEW_FOLDER')\""
    )


def check_files(builder: Builder, split: str) -> None:
    """Compares file sizes, which detects interrupted copies faster than reading the files."""
    info = builder.info
    used = sorted({str(path) for path in info.splits[split].filepaths})
    sizes = dict(zip(used, file_sizes(used), strict=True))
    for name, part in info.splits.items() if info.file_format.value == "tfrecord" else ():
        files = [str(path) for path in part.filepaths]
        size = sum(sizes.get(file, math.inf) for file in files)  # of all files, or infinite
        # Each record has 16 bytes of lengths and checksums. 0 bytes: unknown.
        least = int(part.num_bytes) + 16 * part.num_examples
        if part.num_bytes and size < least:
            why = next(filter(None, map(why_compressed, files)), "were they copied as a whole?")
            place = f"the {len(files)} files of {builder.name}, split {name}"
            raise refusal(f"data.dir: expected {least} bytes in {place}", f"{size} bytes; {why}")
