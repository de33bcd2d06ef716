"""Labels of one range of images."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.backend import cores
from zoo.data.pseudo_records import PseudoLabel
from zoo.errors import printable, require
from zoo.files import atomic_write
from zoo.pseudo_label.exclude import SIDE, perceptual_hashes
from zoo.pseudo_label.inputs import DamagedError, Range
from zoo.pseudo_label.job import INDEX, Task
from zoo.pseudo_label.teacher import Teacher, load_teacher

SMALLEST = np.finfo("float32").tiny  # probability whose logarithm replaces the logarithm of 0

ImageFile = tuple[bytes, str]  # contents, and name for messages
# An image file with pixels and thumbnail, or the name and error of an unreadable one.
Decoded = tuple[bytes, str, np.ndarray, np.ndarray] | str


def label_range(
    task: Task, number: int, images: Range, advance: Callable[[int], None] = lambda count: None
) -> None:
    """Labels the images of a range, unless its files exist.

    All batches have one size and always the same images, so that files have the same bytes
    wherever they are written. `advance` gets the number of images of each batch.
    """
    if task.path(number).exists() and task.path(number, INDEX).exists():
        return
    teacher, wanted = load_teacher(task.teacher), task.job.teacher
    require(teacher.id == wanted, f"teacher: expected {wanted}, as before", teacher.id)
    with atomic_write(task.path(number)) as records:
        index = _write_records(records, task, teacher, images, advance)
        # The index comes first: records mark the range as done.
        with atomic_write(task.path(number, INDEX)) as arrays:
            np.savez(arrays, **index)


def _write_records(
    path: Path, task: Task, teacher: Teacher, images: Range, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Writes the records of a range; returns its index, with unreadable and damaged files."""
    rows, unreadable, damaged = [], [], []
    job, size = task.job, teacher.preprocessing.image_size
    with tf.io.TFRecordWriter(str(path)) as file:
        for batch in _decoded(_batches(images, task, damaged), teacher):
            unreadable += [image for image in batch if isinstance(image, str)]
            readable = [image for image in batch if not isinstance(image, str)]
            pixels = np.zeros((job.batch_size, size, size, 3), "float32")  # the rest is black
            thumbnails = np.zeros((len(readable), SIDE, SIDE), "float32")
            for place, image in enumerate(readable):
                pixels[place], thumbnails[place] = image[2:]
            outputs = teacher.predict(pixels)[: len(readable)]
            if not np.isfinite(outputs).all():
                received = f"{teacher.id} returns probabilities that are not finite numbers"
                raise ValueError(f"teacher: {received}")
            hashes = perceptual_hashes(thumbnails)
            tops = zip(*most_probable(outputs, job.top_k, job.temperature), strict=True)
            for (content, name, *_), top, image_hash in zip(readable, tops, hashes, strict=True):
                classes, log_probabilities, rest = top
                label = PseudoLabel(
                    image=content,
                    name=name,
                    classes=classes,
                    log_probabilities=log_probabilities,
                    rest=rest,
                    score=np.exp(log_probabilities[0]),
                    teacher=teacher.id,
                    sha256=hashlib.sha256(content).digest(),
                    perceptual_hash=image_hash,
                )
                file.write(label.serialize())
                rows.append((classes[0], label.score, label.sha256, image_hash))
            advance(len(batch))
    labels, scores, digests, hashes = zip(*rows, strict=True) if rows else [()] * 4
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
            batch.extend(islice(files, task.job.batch_size))
        except DamagedError as error:
            if not task.skip_damaged:
                hint = "--damaged skip leaves the rest of it out"
                raise ValueError(f"input: damaged file: {error}; {hint}") from None
            damaged.append(str(error))
        if not batch:
            return
        yield batch


def _decoded(batches: Iterable[list[ImageFile]], teacher: Teacher) -> Iterator[list[Decoded]]:
    """Decodes images in threads, the next batch while the caller uses this one."""

    def decode(content: bytes, name: str) -> Decoded:
        try:
            return content, name, *teacher.decode(content)
        except ValueError as error:
            return printable(f"{name} ({error})")

    with ThreadPoolExecutor(cores()) as pool:
        started = ([pool.submit(decode, *file) for file in batch] for batch in batches)
        for batch, _ in pairwise(chain(started, [None])):
            yield [image.result() for image in batch or ()]


def most_probable(
    probabilities: np.ndarray, k: int, temperature: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the k most probable classes of `(n, classes)`, softened by a temperature.

    Of equally probable classes, the one with the lowest number comes first.

    Returns:
        Classes and log-probabilities, `(n, k)`, the most probable class first, and the probability
        of all other classes, `(n,)`.
    """
    logits = np.log(np.maximum(probabilities.astype("float64"), SMALLEST)) / temperature
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    classes = np.argsort(-logs, axis=-1, kind="stable")[:, :k]
    top = np.take_along_axis(logs, classes, -1)
    rest = np.maximum(1 - np.exp(top).sum(-1), 0) if k < logs.shape[-1] else np.zeros(len(logs))
    return classes, top, rest
