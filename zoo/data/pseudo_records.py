"""Records of pseudo-labeled images, which `zoo.pseudo_label` writes and training reads."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import tensorflow as tf
from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoo.data.errors import no_autograph, reason
from zoo.errors import printable
from zoo.files import answering, location
from zoo.run_folder import read_json

# Keys of `tf.train.Example`; the first three are those of ImageNet's shards.
IMAGE, NAME, LABEL = "image/encoded", "image/filename", "image/class/label"
CLASSES, LOG_PROBABILITIES, REST = "label/classes", "label/log_probabilities", "label/rest"
SCORE, TEACHER = "label/score", "label/teacher"
SHA256, PERCEPTUAL_HASH = "image/sha256", "image/perceptual_hash"

LABELS = "labels-{:05d}-of-{:05d}"  # files of `label`, one for each range; .tfrecord and .npz
SELECTED = "train-{:05d}-of-{:05d}"  # files of `select`
SELECTION = "select.json"
READ = 2**30  # bytes of records that are checked as a whole, within seconds

_FEATURES = {
    IMAGE: tf.io.FixedLenFeature([], tf.string),
    NAME: tf.io.FixedLenFeature([], tf.string),
    LABEL: tf.io.FixedLenFeature([], tf.int64),
    CLASSES: tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    LOG_PROBABILITIES: tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
    REST: tf.io.FixedLenFeature([], tf.float32),
    SCORE: tf.io.FixedLenFeature([], tf.float32),
    TEACHER: tf.io.FixedLenFeature([], tf.string),
    SHA256: tf.io.FixedLenFeature([], tf.string),
    PERCEPTUAL_HASH: tf.io.FixedLenFeature([], tf.int64),
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
        features = {
            IMAGE: _bytes(self.image),
            NAME: _bytes(self.name.encode(errors="surrogateescape")),
            LABEL: _integers([self.classes[0]]),
            CLASSES: _integers(self.classes),
            LOG_PROBABILITIES: _floats(self.log_probabilities),
            REST: _floats([self.rest]),
            SCORE: _floats([self.score]),
            TEACHER: _bytes(self.teacher.encode()),
            SHA256: _bytes(self.sha256),
            PERCEPTUAL_HASH: _integers([self.perceptual_hash]),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        return example.SerializeToString(deterministic=True)


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _integers(values: Any) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _floats(values: Any) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


@no_autograph
def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
    """Parses one serialized record: a tensor for each field of `PseudoLabel`, and `label`."""
    found: Any = tf.io.parse_single_example(record, _FEATURES)
    return {
        "image": found[IMAGE],
        "name": found[NAME],
        "label": found[LABEL],
        "classes": found[CLASSES],  # (k,)
        "log_probabilities": found[LOG_PROBABILITIES],  # (k,)
        "rest": found[REST],
        "score": found[SCORE],
        "teacher": found[TEACHER],
        "sha256": found[SHA256],
        "perceptual_hash": found[PERCEPTUAL_HASH],
    }


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


class Selection(BaseModel):
    """The contents of `select.json`, whose presence means that all files are complete."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
            raise ValueError(
                f"expected {sum(self.counts_after)} records in files, as of classes. "
                f"Received: {self.count}"
            )
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
        different = [f"{one!r}, not {other!r}" for one, other in pairs if one != other]
        raise ValueError(
            f"{setting}: expected pseudo-labels of the {len(class_names)} classes of the labeled "
            f"images. Received: {len(self.class_names)} classes of {self.teacher}"
            + (f", such as {printable(different[0])}" if different else "")
        )


def read_selection(folder: Any, setting: str = "data.pseudo.dir") -> Selection:
    """Reads the `select.json` of a folder, and checks that its files are there, as long as then."""
    place = location(folder)
    with answering(place):
        if not (place / SELECTION).is_file():
            raise ValueError(
                f"{setting}: expected a folder of python -m zoo.pseudo_label select, with "
                f"{SELECTION}. Received: {str(place)!r}"
            )
        selection = read_json(
            Selection, place / SELECTION, f"{setting}: expected an intact {SELECTION}"
        )
        with ThreadPoolExecutor(16) as pool:  # a bucket answers slowly
            sizes = list(pool.map(_size, (f"{place}/{file.name}" for file in selection.files)))
    for file, size in zip(selection.files, sizes, strict=True):
        if size != file.bytes:
            raise ValueError(
                f"{setting}: expected {file.bytes} bytes in {printable(place / file.name)}. "
                f"Received: {'no such file' if size is None else size}"
            )
    return selection


def check_records(folder: Any, selection: Selection, setting: str = "data.pseudo.dir") -> None:
    """Reads the records of a selection, or the first one of each file if they are many."""
    whole = sum(file.bytes for file in selection.files) <= READ

    def check(file: SelectedFile) -> None:
        path, expected = f"{folder}/{file.name}", file.records if whole else min(file.records, 1)
        records = tf.data.TFRecordDataset(path).take(-1 if whole else 1).batch(256)
        count, of_classes = 0, True
        try:
            for batch in records:
                found: Any = tf.io.parse_example(batch, _FEATURES)
                labels = np.append(found[LABEL], found[CLASSES])
                of_classes &= bool(
                    (labels >= 0).all() and (labels < len(selection.class_names)).all()
                )
                count += len(found[LABEL])
            why = "" if of_classes else "labels of other classes"
        except tf.errors.OpError as error:
            why = f"damaged: {reason(error)}"
        if why or count != expected:
            raise ValueError(
                f"{setting}: expected {expected:,} pseudo-labeled images in {printable(path)}. "
                f"Received: {why or f'{count:,}'}"
            )

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(check, selection.files))


def _size(path: str) -> int | None:
    try:
        return tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        return None
