"""Records of pseudo-labeled images, as they are written and as training reads them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import tensorflow as tf
from pydantic import BaseModel, Field, model_validator

from zoo.data.errors import no_autograph, reason
from zoo.errors import printable, refusal, require
from zoo.files import answering, location
from zoo.run_folder import read_json

IMAGE, NAME = "image/encoded", "image/filename"  # keys, as in ImageNet's shards

LABELS = "labels-{:05d}-of-{:05d}"  # files of `label`, one for each range; .tfrecord and .npz
SELECTED = "train-{:05d}-of-{:05d}"  # files of `select`
SELECTION = "select.json"
READ = 2**30  # bytes up to which all records are checked, within seconds

_FLOATS = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
_INTEGERS = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
_BYTES, _FLOAT, _INTEGER = (
    tf.io.FixedLenFeature([], kind) for kind in (tf.string, tf.float32, tf.int64)
)
# Keys of `tf.train.Example` and kinds, by the fields of `PseudoLabel`; `label` is the first class.
_FEATURES: dict[str, tuple[str, Any]] = {
    "image": (IMAGE, _BYTES),
    "name": (NAME, _BYTES),
    "label": ("image/class/label", _INTEGER),
    "classes": ("label/classes", _INTEGERS),
    "log_probabilities": ("label/log_probabilities", _FLOATS),
    "rest": ("label/rest", _FLOAT),
    "score": ("label/score", _FLOAT),
    "teacher": ("label/teacher", _BYTES),
    "sha256": ("image/sha256", _BYTES),
    "perceptual_hash": ("image/perceptual_hash", _INTEGER),
}


@dataclass(frozen=True)
class PseudoLabel:
    """An image file and the outputs of the teacher: its k most probable classes, best first."""

    image: bytes  # the file as it was
    name: str  # for messages
    classes: Sequence[int] | np.ndarray  # (k,), from 0
    log_probabilities: Sequence[float] | np.ndarray  # (k,), natural logarithms
    rest: float  # probability of all other classes
    score: float  # probability of the first class
    teacher: str  # name, and the beginning of a digest of its weights
    sha256: bytes  # of the file
    perceptual_hash: int  # 64 bits, as a signed integer

    def serialize(self) -> bytes:
        """Returns a `tf.train.Example`: equal bytes for equal labels."""
        example = tf.train.Example()
        for field, (key, kind) in _FEATURES.items():
            value: Any = self.classes[0] if field == "label" else getattr(self, field)
            if isinstance(value, str):
                value = value.encode(errors="surrogateescape")
            name = {tf.string: "bytes", tf.float32: "float", tf.int64: "int64"}[kind.dtype]
            values = getattr(example.features.feature[key], f"{name}_list").value
            values.extend(value if kind in (_FLOATS, _INTEGERS) else [value])
        return example.SerializeToString(deterministic=True)


@no_autograph
def parse(records: tf.Tensor) -> dict[str, tf.Tensor]:
    """Parses serialized records, one or several: a tensor for each field of `PseudoLabel`.

    `label` is the first class.
    """
    features: Any = tf.io.parse_example(records, dict(_FEATURES.values()))
    return {field: features[key] for field, (key, _) in _FEATURES.items()}


@no_autograph
def soft_label(record: dict[str, tf.Tensor], classes: int, temperature: float = 1.0) -> tf.Tensor:
    """Returns the probabilities of all classes of a parsed record, `(classes,)`.

    The remaining probability is divided evenly among the classes that are not in the record.
    """
    top: Any = tf.exp(record["log_probabilities"])  # (k,)
    others = tf.maximum(classes - tf.size(top), 1)
    even = tf.fill([classes], record["rest"] / tf.cast(others, tf.float32))
    probabilities: Any = tf.tensor_scatter_nd_update(even, record["classes"][:, None], top)
    softened = probabilities ** (1 / temperature)
    return softened / tf.reduce_sum(softened)


class SelectedFile(BaseModel, extra="forbid", frozen=True):
    """A file of selected records."""

    name: str
    records: int = Field(ge=0)
    bytes: int = Field(ge=0)


class Selection(BaseModel, extra="forbid", frozen=True):
    """The contents of `select.json`, whose presence means that all files are complete."""

    version: Literal[1] = 1
    class_names: tuple[str, ...] = Field(min_length=2)
    teacher: str
    files: tuple[SelectedFile, ...] = Field(min_length=1)
    settings: dict[str, Any]
    counts_before: tuple[int, ...]  # labeled images of each class
    counts_after: tuple[int, ...]  # selected records of each class, copies included
    left_out: dict[str, int]  # images by reason: digest, perceptual_hash, threshold

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        if self.count != sum(self.counts_after):
            expected = f"expected {sum(self.counts_after)} records in files, as of classes"
            raise refusal(expected, self.count)
        return self

    @property
    def count(self) -> int:
        """Number of records."""
        return sum(file.records for file in self.files)

    def check_classes(self, class_names: Sequence[str], setting: str = "data.pseudo.dir") -> None:
        """Checks that the teacher has the classes of the labeled images, in their order."""
        if list(class_names) == list(self.class_names):
            return
        pairs = zip(self.class_names, class_names, strict=False)
        different = [
            f"{actual!r}, not {expected!r}" for actual, expected in pairs if actual != expected
        ]
        such = f", such as {printable(different[0])}" if different else ""
        classes = f"the {len(class_names)} classes of the labeled images"
        received = f"{len(self.class_names)} classes of {self.teacher}{such}"
        raise refusal(f"{setting}: expected pseudo-labels of {classes}", received)


def read_selection(folder: Any, setting: str = "data.pseudo.dir") -> Selection:
    """Reads the `select.json` of a folder, and checks that its files exist and have their sizes."""
    place = location(folder)
    with answering(place):
        require(
            (place / SELECTION).is_file(),
            f"{setting}: expected a folder of python -m zoo.pseudo_label select, with {SELECTION}",
            repr(str(place)),
        )
        selection = read_json(
            Selection, place / SELECTION, f"{setting}: expected an intact {SELECTION}"
        )
        with ThreadPoolExecutor(16) as pool:  # a bucket answers slowly
            sizes = list(pool.map(_size, (f"{place}/{file.name}" for file in selection.files)))
    for file, size in zip(selection.files, sizes, strict=True):
        expected = f"{setting}: expected {file.bytes} bytes in {printable(place / file.name)}"
        require(size == file.bytes, expected, "no such file" if size is None else size)
    return selection


def check_records(folder: Any, selection: Selection, setting: str = "data.pseudo.dir") -> None:
    """Reads the records of a selection, or the first one of each file if they are many."""
    whole = sum(file.bytes for file in selection.files) <= READ

    def check(file: SelectedFile) -> None:
        path, expected = f"{folder}/{file.name}", file.records if whole else min(file.records, 1)
        count, why = 0, ""
        try:
            for batch in tf.data.TFRecordDataset(path).take(-1 if whole else 1).batch(256):
                fields = parse(batch)
                labels = np.append(fields["label"], fields["classes"])
                if labels.min() < 0 or labels.max() >= len(selection.class_names):
                    why = "labels of other classes"
                count += len(batch)
        except tf.errors.OpError as error:
            why = f"damaged: {reason(error)}"
        require(
            not why and count == expected,
            f"{setting}: expected {expected:,} pseudo-labeled images in {printable(path)}",
            why or f"{count:,}",
        )

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(check, selection.files))


def _size(path: str) -> int | None:
    try:
        return tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        return None
