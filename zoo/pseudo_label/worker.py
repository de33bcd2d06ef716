"""Labels of one range of images."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.data.pseudo_records import PseudoLabel
from zoo.errors import printable
from zoo.files import atomic_write
from zoo.pseudo_label.hashes import digest, perceptual_hashes
from zoo.pseudo_label.inputs import DamagedError, Range
from zoo.pseudo_label.job import INDEX, Task
from zoo.pseudo_label.teacher import Teacher, load_teacher

SMALLEST = np.finfo("float32").tiny  # probability whose logarithm stands for that of 0

ImageFile = tuple[bytes, str]  # contents, and name for messages


class Decoded(NamedTuple):
    """An image file as the teacher gets it, and why it is unreadable: "" if it is readable."""

    content: bytes
    name: str
    pixels: np.ndarray
    thumbnail: np.ndarray
    why: str


def label_range(
    task: Task, number: int, images: Range, advance: Callable[[int], None] = lambda count: None
) -> None:
    """Labels the images of a range, unless that has been done.

    Batches are all of one size, and always of the same images, so that files are equal to the byte
    wherever they are written. `advance` gets the number of images of each batch.
    """
    if task.path(number).exists() and task.path(number, INDEX).exists():
        return
    teacher = load_teacher(task.teacher)
    if teacher.id != task.teacher_id:
        raise ValueError(f"teacher: expected {task.teacher_id}, as before. Received: {teacher.id}")
    with atomic_write(task.path(number)) as records:
        index = _write_records(records, task, teacher, images, advance)
        # Before the records, whose presence means that the range is done.
        with atomic_write(task.path(number, INDEX)) as arrays:
            np.savez(arrays, **index)


def _write_records(
    path: Path, task: Task, teacher: Teacher, images: Range, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Writes the records of a range; returns its index, and what could not be read."""
    labels, scores, digests, hashes = [], [], [], []
    unreadable, damaged = [], []
    batches = _batches(images, task, damaged)
    with tf.io.TFRecordWriter(str(path)) as file:
        for batch in _decoded(batches, teacher):
            top = most_probable(_probabilities(batch, teacher, task), task.top_k, task.temperature)
            perceptual = perceptual_hashes(np.stack([image.thumbnail for image in batch]))
            for i, image in enumerate(batch):
                if image.why:
                    unreadable.append(printable(f"{image.name} ({image.why})"))
                    continue
                label = PseudoLabel(
                    image=image.content,
                    name=image.name,
                    classes=top.classes[i],
                    log_probabilities=top.log_probabilities[i],
                    rest=top.rest[i],
                    score=top.score[i],
                    teacher=teacher.id,
                    sha256=digest(image.content),
                    perceptual_hash=perceptual[i],
                )
                file.write(label.serialize())
                labels.append(label.classes[0])
                scores.append(label.score)
                digests.append(label.sha256)
                hashes.append(label.perceptual_hash)
            advance(len(batch))
    return {
        "label": np.array(labels, "int32"),
        "score": np.array(scores, "float32"),
        "sha256": np.frombuffer(b"".join(digests), "uint8").reshape(-1, 32),
        "perceptual_hash": np.array(hashes, "int64"),
        "unreadable": np.array(unreadable, "U"),
        "damaged": np.array(damaged, "U"),
    }


def _batches(images: Range, task: Task, damaged: list[str]) -> Iterator[list[ImageFile]]:
    """Yields full batches, and a last smaller one; a damaged shard ends them, if skipped."""
    files = images.read()
    while True:
        batch = []
        try:
            batch.extend(islice(files, task.batch_size))
        except DamagedError as error:
            if not task.skip_damaged:
                raise ValueError(
                    f"input: damaged file: {error}; --damaged skip leaves the rest of it out"
                ) from None
            damaged.append(str(error))
        if not batch:
            return
        yield batch


def _decoded(batches: Iterable[list[ImageFile]], teacher: Teacher) -> Iterator[list[Decoded]]:
    """Decodes images in threads, those of the next batch while the caller uses this one."""

    def decode(file: ImageFile) -> Decoded:
        content, name = file
        try:
            return Decoded(content, name, *teacher.decode(content), "")
        except ValueError as error:
            return Decoded(content, name, *teacher.nothing, str(error))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting: list[Any] = []
        for batch in batches:
            ahead = [pool.submit(decode, file) for file in batch]
            if waiting:
                yield [image.result() for image in waiting]
            waiting = ahead
        if waiting:
            yield [image.result() for image in waiting]


def _probabilities(batch: Sequence[Decoded], teacher: Teacher, task: Task) -> np.ndarray:
    """Runs the teacher; black images fill up the last batch of a range."""
    black = [teacher.nothing[0]] * (task.batch_size - len(batch))
    outputs = teacher.predict(np.stack([*(image.pixels for image in batch), *black]))
    if not np.isfinite(outputs).all():
        raise ValueError(f"teacher: {teacher.id} returns probabilities that are not finite numbers")
    return outputs[: len(batch)]


class MostProbable(NamedTuple):
    """The k most probable classes of each image, the most probable one first."""

    classes: np.ndarray  # (n, k)
    log_probabilities: np.ndarray  # (n, k)
    rest: np.ndarray  # (n,), the probability of all other classes
    score: np.ndarray  # (n,), the highest probability


def most_probable(probabilities: np.ndarray, k: int, temperature: float) -> MostProbable:
    """Returns the k most probable classes of `(n, classes)`, softened by a temperature.

    Of equally probable classes, the one with the lowest number comes first.
    """
    logits = np.log(np.maximum(probabilities.astype("float64"), SMALLEST)) / temperature
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    classes = np.argsort(-logs, axis=-1, kind="stable")[:, :k]
    top = np.take_along_axis(logs, classes, -1)
    rest = np.maximum(1 - np.exp(top).sum(-1), 0) if k < logs.shape[-1] else np.zeros(len(logs))
    return MostProbable(classes, top, rest, np.exp(top[:, 0]))
