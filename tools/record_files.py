"""Small data sets in real files, as TFDS and the Cloud TPU tutorials would write them."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def jpeg(shade: int, size: tuple[int, int] = (40, 30), **options) -> bytes:
    """Returns a noisy JPEG file whose red channel is about `shade`."""
    noise = np.random.default_rng(shade).integers(-9, 9, (size[1], size[0], 3))
    pixels = np.clip(noise + np.array([shade, 100, 150]), 0, 255).astype("uint8")
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def write_tfds(
    folder: Path,
    name: str,
    splits: Mapping[str, Sequence[tuple[bytes, int]]],
    *,
    label=None,
    version: str = "1.0.0",
    per_shard: int = 7,
    image=None,
    **options,
) -> None:
    """Prepares a data set of TFDS with the features of ImageNet and, by default, 1000 classes.

    Images are the contents of files, or arrays.
    """
    import tensorflow_datasets as tfds

    place = folder / name / version
    place.mkdir(parents=True)
    features = {
        "image": image or tfds.features.Image(encoding_format="jpeg"),
        "label": label or tfds.features.ClassLabel(num_classes=1000),
        "file_name": tfds.features.Text(),
    }
    info = tfds.core.DatasetInfo(
        builder=tfds.core.DatasetIdentity(
            name=name, version=tfds.core.Version(version), data_dir=str(place), module_name=""
        ),
        features=tfds.features.FeaturesDict(features),
        supervised_keys=("image", "label"),
    )
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=per_shard, **options)
    writer.initialize_splits(list(splits))
    for split, examples in splits.items():
        for i, (one, number) in enumerate(examples):
            content = io.BytesIO(one) if isinstance(one, bytes) else one
            example = {"image": content, "label": number, "file_name": f"{split}{i}.JPEG"}
            writer.add_examples({split: [example]})
    writer.close_all()


def write_imagenet(folder: Path, train: int = 60, validation: int = 21) -> None:
    """Prepares a data set that TFDS takes for ImageNet; image i has class i."""
    splits = {"train": train, "validation": validation}
    splits = {split: [(jpeg(i), i) for i in range(count)] for split, count in splits.items()}
    write_tfds(folder, "imagenet2012", splits, version="5.1.0")


def write_tfrecords(
    path: Path, examples: Sequence[tuple[bytes, int]], names: Sequence[str] = ()
) -> None:
    """Writes one shard with the keys of the Cloud TPU tutorials; `names` are class names."""
    import tensorflow as tf

    def feature(value: bytes | int) -> tf.train.Feature:
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i, (image, label) in enumerate(examples):
            values = {"image/encoded": image, "image/class/label": label}
            if names:
                values["image/class/text"] = names[label].encode()
                values["image/filename"] = f"{path.name[:5]}_{i}.JPEG".encode()
            features = {name: feature(value) for name, value in values.items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
