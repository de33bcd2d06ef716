"""Report of a labeling job: counts, and histograms of scores and classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoo.errors import printable, some
from zoo.files import write_json
from zoo.plots.pseudo_labels import plot_labels
from zoo.pseudo_label.job import INDEX, REPORT, SCORES, Task, read_index

BINS = 20  # of scores
NAMED = 100  # unreadable images that the report names


@dataclass
class Totals:
    """Counts over all ranges."""

    classes: np.ndarray  # images of each class
    scores: np.ndarray = field(default_factory=lambda: np.zeros(BINS, "int64"))
    sum_of_scores: float = 0.0
    unreadable: int = 0
    named: list[str] = field(default_factory=list)  # the first unreadable images
    damaged: list[str] = field(default_factory=list)

    def add(self, index: dict[str, np.ndarray]) -> None:
        """Adds a range."""
        self.classes += np.bincount(index["label"], minlength=len(self.classes))
        self.scores += np.histogram(index["score"], BINS, (0, 1))[0]
        self.sum_of_scores += float(index["score"].sum(dtype="float64"))
        self.unreadable += len(index["unreadable"])
        self.named += index["unreadable"][: NAMED - len(self.named)].tolist()
        self.damaged += index["damaged"].tolist()


def write(
    folder: Any, task: Task, class_names: Sequence[str], labeled: int, seconds: float
) -> None:
    """Writes and prints the report; `labeled` images took this command `seconds`."""
    totals = Totals(np.zeros(len(class_names), "int64"))
    for number in range(task.count):
        totals.add(read_index(task.path(number, INDEX), len(class_names)))
    images = int(totals.classes.sum())
    mean = totals.sum_of_scores / images if images else None
    rate = labeled / seconds if labeled else None
    title = f"{task.teacher_id}: {images:,} images, mean score {mean or 0:.4f}"
    plot_labels(totals.scores, totals.classes, class_names, title, folder / SCORES)
    content = {
        "teacher": task.teacher_id,
        "images": images,
        "mean_score": mean,
        "unreadable": totals.unreadable,
        "unreadable_images": totals.named,
        "damaged_files": totals.damaged,
        "scores": {"bins": BINS, "images": totals.scores.tolist()},
        "classes": dict(zip(class_names, totals.classes.tolist(), strict=True)),
        "last_command": {"images": labeled, "seconds": seconds, "images_per_second": rate},
    }
    write_json(folder / REPORT, content, indent=1)
    if labeled:
        print(f"labeled {labeled:,} images in {seconds:,.1f} s, {rate:,.1f} images/s")
    print(title)
    if totals.unreadable:
        print(f"{totals.unreadable:,} unreadable images: {some(map(printable, totals.named), 5)}")
    for line in totals.damaged:
        print(f"damaged file: {printable(line)}; its rest was left out")
    print(f"wrote {printable(folder / REPORT)} and {SCORES}")
