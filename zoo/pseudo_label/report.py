"""Progress and report of a labeling job: counts, and histograms of scores and classes."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from zoo.errors import needs_extra, printable, some
from zoo.files import write_json
from zoo.plots.pseudo_labels import plot_labels
from zoo.pseudo_label.job import INDEX, REPORT, SCORES, Task, read_index

with needs_extra("train"):
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

BINS = 20  # of scores
NAMED = 100  # unreadable images that the report names
MEMORY_S = 3600  # window of the estimated time left, long since workers finish whole ranges


class Meter(Progress):
    """A progress bar with images per second and the time left, in a `with` block.

    `takes` are the numbers of images of the ranges, -1 where it is unknown.
    """

    def __init__(self, takes: Sequence[int]) -> None:
        rate = "images, {task.fields[rate]} images/s, left:"
        columns = "Labeling", BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()
        super().__init__(*columns, speed_estimate_period=MEMORY_S)
        self.images, self.seconds, self._begin = 0, 0.0, time.monotonic()
        self._task = self.add_task("", total=None if -1 in takes else sum(takes), rate="-")

    def add(self, count: int) -> None:
        """Counts images."""
        self.images += count
        self.seconds = time.monotonic() - self._begin
        self.update(self._task, advance=count, rate=f"{self.images / self.seconds:,.1f}")


def write(folder: Any, task: Task, labeled: int, seconds: float) -> None:
    """Writes and prints the report; `labeled` images took this command `seconds`."""
    job, names = task.job, task.job.class_names
    classes, scores, total = np.zeros(len(names), "int64"), np.zeros(BINS, "int64"), 0.0
    unreadable, named, damaged = 0, [], []
    for number in range(task.count):
        index = read_index(task.path(number, INDEX), len(names))
        classes += np.bincount(index["label"], minlength=len(names))
        scores += np.histogram(index["score"], BINS, (0, 1))[0]
        total += float(index["score"].sum(dtype="float64"))
        unreadable += len(index["unreadable"])
        named += index["unreadable"][: NAMED - len(named)].tolist()
        damaged += index["damaged"].tolist()
    images = int(classes.sum())
    mean = total / images if images else None
    rate = labeled / seconds if labeled else None
    title = f"{job.teacher}: {images:,} images, mean score {mean or 0:.4f}"
    plot_labels(scores, classes, names, title, folder / SCORES)
    content = {
        "teacher": job.teacher,
        "images": images,
        "mean_score": mean,
        "unreadable": unreadable,
        "unreadable_images": named,
        "damaged_files": damaged,
        "scores": {"bins": BINS, "images": scores.tolist()},
        "classes": dict(zip(names, classes.tolist(), strict=True)),
        "last_command": {"images": labeled, "seconds": seconds, "images_per_second": rate},
    }
    write_json(folder / REPORT, content, indent=1)
    if labeled:
        print(f"labeled {labeled:,} images in {seconds:,.1f} s, {rate:,.1f} images/s")
    print(title)
    if unreadable:
        print(f"{unreadable:,} unreadable images: {some(map(printable, named), 5)}")
    for line in damaged:
        print(f"damaged file: {printable(line)}; its rest was left out")
    print(f"wrote {printable(folder / REPORT)} and {SCORES}")
