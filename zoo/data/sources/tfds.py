"""Image classification datasets of TensorFlow Datasets."""

import logging
from difflib import get_close_matches
from glob import has_magic
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from zoo.data.errors import in_one_line, naming_errors, no_autograph, reason
from zoo.data.image_files import TO_8_BITS
from zoo.data.record_files import Read, RecordFile, reader
from zoo.data.record_layout import why_compressed
from zoo.data.sources.base import DataSource, Record, Split, StreamSource, file_sizes
from zoo.devices import ONLY_HOST, Host
from zoo.errors import needs_extra

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

# The license of ImageNet forbids to download it automatically.
IMAGENET = "put ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar into {}/downloads/manual, then "

SEVERAL = "real_label"  # feature of imagenet2012_real: a sequence of labels, which may be empty
CROPPED = "imagenet2012_corrupted"  # central crops already


class Source(DataSource):
    """A prepared dataset of TensorFlow Datasets with the features `image` and `label`.

    Records of a data set with `SEVERAL` have a vector with 1 for each of their classes as label.
    """

    @property
    def crop(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Fraction of the shorter side in test images."""
        return 1.0 if (self.config.name or "").startswith(CROPPED) else DataSource.crop

    def open(self, image_size: int) -> Split:
        with needs_extra("train"):
            import tensorflow_datasets as tfds
        name, folder = self.config.name or "", self.config.dir
        builder = find_builder(tfds, name, folder)
        features: dict[str, Any] = dict(builder.info.features.items())
        if SEVERAL in features:
            features["label"] = getattr(features[SEVERAL], "feature", None)
        label: Any = features.get("label")
        wanted = {"image": tfds.features.Image, "label": tfds.features.ClassLabel}
        if not all(isinstance(features.get(name), kind) for name, kind in wanted.items()):
            raise ValueError(
                "data.name: expected a data set with the features image (Image) and label "
                f"(ClassLabel). Received: {name!r} with {', '.join(sorted(features))}"
            )
        check_pixels(builder)
        sources = []
        for setting in ("train_split", "test_split"):
            split = getattr(self.config, setting)
            count = check_split(builder, split, f"data.{setting}")
            files = check_files(builder, split)
            read = _reader(tfds, builder, split, len(label.names))
            sources.append(StreamSource(count, read, self.config.shuffle_buffer, files))
            try:
                with naming_errors(files):  # labels are -1 where they are secret
                    next(iter(read(ONLY_HOST, None, 0)))
            except (tf.errors.OpError, ImportError, NotImplementedError) as error:
                form = builder.info.file_format.value
                hint = "" if form == "tfrecord" else f"; {to_tfrecords(builder, name, folder)}"
                why = f"{form} files: {reason(error)}{hint}"
                raise ValueError(f"data.dir: {name} cannot be read from {why}") from None
        train, test = sources
        alpha = ("image has 4 channels, read as RGB and transparency, on white",)
        warnings = alpha if features["image"].shape[-1] == 4 else ()
        index: dict[str, Any] = {"data set": builder.info.full_name}
        for split, part in builder.info.splits.items():
            index[f"sizes of split {split}"] = [*map(int, [part.num_bytes, *part.shard_lengths])]
        return Split(train, test, tuple(label.names), warnings, self.check_same(index))


def find_builder(tfds: Any, name: str, folder: str | None) -> "tfds.core.DatasetBuilder":
    """Returns the builder of a prepared dataset."""
    logging.getLogger("absl").setLevel("ERROR")  # warnings of folders without a description
    try:
        builder = tfds.builder(name, data_dir=folder)
    except Exception as error:  # wrong names and damaged descriptions raise many kinds
        nearest = get_close_matches(name, tfds.list_builders(with_community_datasets=False))
        hint = f" (did you mean {' or '.join(nearest)}?)" if nearest else ""
        raise ValueError(
            "data.name: expected a data set of TensorFlow Datasets, or one that is in data.dir. "
            f"Received: {name!r}{hint}: {reason(error)}"
        ) from None
    if not builder.is_prepared():
        if folder and has_magic(folder):
            raise ValueError(
                "data.dir: expected a path without *, ? and [, which TensorFlow Datasets takes for "
                f"a pattern. Received: {folder!r}"
            )
        place = folder or "~/tensorflow_datasets"
        first = IMAGENET.format(place) if builder.name == "imagenet2012" else ""
        argument = f", data_dir={folder!r}" if folder else ""
        raise ValueError(
            f"data.dir: {name} is not prepared in {place}: {first}run "
            f'python -c "import tensorflow_datasets as tfds; '
            f'tfds.builder({name!r}{argument}).download_and_prepare()"'
        )
    return builder


def check_split(builder: Any, split: str, setting: str) -> int:
    """Returns the number of records of a split, or of a part of one."""
    try:
        count = builder.info.splits[split].num_examples
    except (ValueError, KeyError, AssertionError) as error:
        known = builder.info.splits.items()
        described = ", ".join(f"{name} ({part.num_examples} images)" for name, part in known)
        raise ValueError(
            f"{setting}: expected a split, or a part of one, of {builder.name}, which has "
            f"{described}. Received: {split!r}: {reason(error)}"
        ) from None
    if count < 1:
        raise ValueError(
            f"{setting}: expected one image or more. Received: {split!r}, which is empty"
        )
    return count


def check_pixels(builder: Any) -> None:
    """Refuses images that are not uint8: their files hold 16 bits, or a float in four bytes."""
    dtype = getattr(dict(builder.info.features.items()).get("image"), "np_dtype", np.uint8)
    if dtype != np.uint8:
        raise ValueError(
            "data.name: expected the feature image of dtype uint8. Received: "
            f"{np.dtype(dtype).name}; {TO_8_BITS}, and prepare it again"
        )


def to_tfrecords(builder: Any, name: str, folder: Any) -> str:
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


def check_files(builder: Any, split: str) -> list[str]:
    """Compares sizes, which shows interrupted copies in less time than reading the files.

    Returns the TFRecord files.
    """
    info = builder.info
    used = sorted({str(path) for path in info.splits[split].filepaths})
    sizes = dict(zip(used, file_sizes(used), strict=True))
    if info.file_format.value != "tfrecord":
        return []
    for name, part in info.splits.items():
        files = [str(path) for path in part.filepaths]
        if part.num_bytes and sizes.keys() >= set(files):  # 0: unknown
            found = sum(sizes[file] for file in files)
            # Each record has 16 bytes of lengths and checksums.
            expected = int(part.num_bytes) + 16 * part.num_examples
            if found < expected:
                why = next(filter(None, map(why_compressed, files)), "were they copied as a whole?")
                raise ValueError(
                    f"data.dir: expected {expected} bytes in the {len(files)} files of "
                    f"{builder.name}, split {name}. Received: {found} bytes; {why}"
                )
    return used


def _reader(tfds: Any, builder: Any, split: str, classes: int) -> Read:
    decoders = {"image": tfds.decode.SkipDecoding()}

    def read(host: Host, order: tf.Tensor | None, first: int) -> tf.data.Dataset:
        records = builder.as_dataset(
            split=tfds.even_splits(split, host.count)[host.index] if host.count > 1 else split,
            decoders=decoders,
            shuffle_files=order is not None,
            read_config=tfds.ReadConfig(
                add_tfds_id=True,
                shuffle_seed=order,
                shuffle_reshuffle_each_iteration=False,
                try_autocache=False,
            ),
        )
        return records.skip(first).map(record)

    @no_autograph
    def parse(serialized: tf.Tensor, number: tf.Tensor, path: tf.Tensor) -> Record:
        example = builder.info.features.deserialize_example(serialized, decoders=decoders)
        file = tf.strings.regex_replace(path, ".*/", "")
        example["tfds_id"] = tf.strings.join([file, tf.strings.as_string(number)], "__")
        return record(example)

    @no_autograph
    def record(example: Record) -> Record:
        name = example.get("file_name", tf.constant(""))
        name = tf.strings.join([name, tf.where(name == "", "", " in "), example["tfds_id"]])
        label = example[SEVERAL] if SEVERAL in example else example["label"]
        expected = f"data: expected a label from 0 to {classes - 1}. Received: "
        received = tf.strings.reduce_join(tf.strings.as_string(label), separator=", ")
        message = tf.strings.join([expected, received, ", of ", name])
        in_range = tf.reduce_all((label >= 0) & (label < classes))
        with tf.control_dependencies([tf.debugging.Assert(in_range, [in_one_line(message)])]):
            if SEVERAL in example:
                label = tf.minimum(tf.reduce_sum(tf.one_hot(label, classes), 0), 1)
            return {"image": example["image"], "label": tf.identity(label), "name": name}

    if builder.info.file_format.value != "tfrecord":  # a resumed run reads over what was seen
        return read
    parts = builder.info.splits[split].file_instructions
    return reader([RecordFile(str(one.filename), one.skip, one.take) for one in parts], parse)
