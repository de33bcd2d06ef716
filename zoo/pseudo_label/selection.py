"""The passes over the shards of a labeling job that select its records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

import numpy as np
import tensorflow as tf
from pydantic import BaseModel

from zoo.data.pseudo_records import LABELS, SELECTED, SELECTION, SelectedFile, Selection, parse
from zoo.files import atomic_write, location, remove, write_json
from zoo.pseudo_label.exclude import Excluded, read_excluded
from zoo.pseudo_label.job import INDEX, RECORDS, REPORT, Job
from zoo.pseudo_label.job import start as start_job
from zoo.pseudo_label.ranking import Cut, Partial, Ranks, find_cut, ranks

SETTINGS, SCRATCH, EXCLUDED = "selection_job.json", "unfinished", "excluded.npz"
IMAGES = "images.png"
BEFORE, THRESHOLD, DIGEST, HASH, KEPT = range(5)  # rows of the counts by class
RANGES = 40  # bits below the number of a shard in the place of an image
SHOWN_CLASSES, SHOWN = 4, 8  # of the figure: classes, and images of each, at both ends


class Selecting(BaseModel, extra="allow"):
    """The contents of `selection_job.json`: the settings that decide the selection."""


@dataclass(frozen=True)
class Copies:
    """The records of each selected image: as often as its class says, or once more."""

    first: Cut  # the selected images
    times: np.ndarray  # (classes,)
    more: Cut  # those with one more

    def number(self, of: Ranks) -> np.ndarray:
        """Returns the number of records of each image, `(n,)`."""
        return np.where(self.first.holds(of), self.times[of.label] + self.more.holds(of), 0)


@dataclass(frozen=True)
class Work:
    """One selection: what its passes have to know, to run on any worker."""

    config: Any  # SelectConfig
    job: Job

    @property
    def scratch(self) -> Any:
        """Folder of what is only needed until the selection is done."""
        return self.config.output / SCRATCH

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.job.class_names)

    def filter(self, spread: Any) -> np.ndarray:
        """Leaves images out, and returns counts by reason and class, `(5, classes)`."""
        config = self.config
        path = self.scratch / EXCLUDED
        if not path.exists():
            sha256, hashes = read_excluded(config.exclude, config.tfds_dir)
            with atomic_write(path) as beside:
                np.savez(beside, sha256=sha256, perceptual_hash=hashes)
        return spread.total(partial(_filter, self))

    def write(self, spread: Any, counts: np.ndarray) -> None:
        """Finds the most confident images, writes their records, `select.json` and a report."""
        config, kept = self.config, counts[KEPT]
        first = find_cut(np.minimum(kept, config.per_class), self._total(spread))
        few = (kept > 0) & (kept < config.per_class) & config.copies
        times, rest = np.divmod(config.per_class, np.where(few, kept, config.per_class))
        copies = Copies(first, times, find_cut(rest, self._total(spread)))
        spread.each(partial(_write_shard, self, copies))
        after = first.count * times + copies.more.count
        files = [self._file(number, copies) for number in range(spread.count)]
        left_out = {
            name: int(counts[row].sum())
            for name, row in (
                ("threshold", THRESHOLD),
                ("digest", DIGEST),
                ("perceptual_hash", HASH),
            )
        }
        selected = Selection(
            class_names=self.job.class_names,
            teacher=self.job.teacher,
            files=tuple(files),
            settings=_settings(config),
            counts_before=tuple(counts[BEFORE].tolist()),
            counts_after=tuple(after.tolist()),
            left_out=left_out,
        )
        _report(self, first, counts, after, left_out)
        write_json(config.output / SELECTION, selected.model_dump(mode="json"))
        remove(self.scratch)
        print(
            f"selected {int(first.count.sum()):,} of {int(counts[BEFORE].sum()):,} images, "
            f"{int(after.sum()):,} records with copies; left out: "
            + ", ".join(f"{count:,} by {name}" for name, count in left_out.items())
            + f"\nwrote {config.output / SELECTION}"
        )

    def _total(self, spread: Any) -> Any:
        return lambda cut: spread.total(partial(_histogram, self, cut))

    def _file(self, number: int, copies: Copies) -> SelectedFile:
        path, of = self.path(number), self.candidates(number)[0]
        records = int(copies.number(of).sum())
        return SelectedFile(name=path.name, records=records, bytes=path.stat().st_size)

    def path(self, number: int) -> Any:
        """Returns the path of the selected records of a range."""
        return self.config.output / SELECTED.format(number, len(self.job.ranges))

    def labels(self, number: int, suffix: str = RECORDS) -> Any:
        """Returns the path of the labels of a range."""
        return self.config.input / (LABELS.format(number, len(self.job.ranges)) + suffix)

    def candidates(self, number: int) -> tuple[Ranks, np.ndarray]:
        """Returns ranks and record numbers of the images of a range that were not left out."""
        with _arrays(self.scratch / f"{number}.npz") as arrays:
            return Ranks(arrays["label"], arrays["words"]), arrays["record"]


def start(config: Any, job: Job) -> Work:
    """Creates the output folder, or checks that it has the same selection, unfinished."""
    start_job(config.output, SETTINGS, Selecting(**_settings(config)), "another selection")
    if (config.output / SELECTION).is_file():
        raise ValueError(f"output: expected a new folder. Received: {config.output}, finished")
    return Work(config, job)


def _settings(config: Any) -> dict[str, Any]:
    """Returns the settings that decide the selection."""
    return config.model_dump(mode="json", exclude={"output", "runner", "beam", "config"})


def _arrays(path: Any) -> Any:
    return np.load(BytesIO(path.read_bytes()), allow_pickle=False)


@lru_cache(1)  # once in a process
def _excluded(path: str, distance: int) -> Excluded:
    with _arrays(location(path)) as arrays:
        return Excluded(arrays["sha256"], arrays["perceptual_hash"], distance)


def _filter(work: Work, number: int) -> np.ndarray:
    """Writes the ranks of the images of a range that may be selected; returns counts."""
    config = work.config
    with _arrays(work.labels(number, INDEX)) as index:
        label, score = index["label"], index["score"]
        sha256, hashes = index["sha256"], index["perceptual_hash"]
    excluded = _excluded(str(work.scratch / EXCLUDED), config.hamming)
    low = score < config.threshold
    known = ~low & excluded.by_digest(sha256)
    near = ~low & ~known & excluded.by_hash(hashes)
    kept = ~(low | known | near)
    record = np.flatnonzero(kept)
    chosen = ranks(label[kept], score[kept], sha256[kept], (number << RANGES) + record)
    with atomic_write(work.scratch / f"{number}.npz") as beside:
        np.savez(beside, label=chosen.label, words=chosen.words, record=record)
    everything = np.ones_like(kept)
    return np.stack(
        [
            np.bincount(label[rows], minlength=work.classes)
            for rows in (everything, low, known, near, kept)
        ]
    )


def _histogram(work: Work, cut: Partial, number: int) -> np.ndarray:
    return cut.histogram(work.candidates(number)[0])


def _write_shard(work: Work, copies: Copies, number: int) -> None:
    """Writes the selected records of a range, copies after all others, unless that was done."""
    path = work.path(number)
    if path.exists():
        return
    of, record = work.candidates(number)
    wanted_of = np.zeros(int(record.max(initial=-1)) + 1, "int64")
    wanted_of[record] = copies.number(of)
    source = str(work.labels(number))
    with atomic_write(path) as beside, tf.io.TFRecordWriter(str(beside)) as file:
        for times in range(wanted_of.max(initial=0)):
            records: Any = tf.data.TFRecordDataset(source).as_numpy_iterator()
            for content, wanted in zip(records, wanted_of, strict=False):
                if wanted > times:
                    file.write(content)


def _report(
    work: Work, first: Cut, counts: np.ndarray, after: np.ndarray, left_out: dict[str, int]
) -> None:
    from zoo.plots.pseudo_labels import plot_extremes

    names = work.job.class_names
    content = {
        "teacher": work.job.teacher,
        "images": int(counts[BEFORE].sum()),
        "left_out": left_out,
        "selected": int(first.count.sum()),
        "records": int(after.sum()),
        "classes": {
            name: {
                "images": int(counts[BEFORE, i]),
                "to_select": int(counts[KEPT, i]),
                "selected": int(first.count[i]),
                "records": int(after[i]),
            }
            for i, name in enumerate(names)
        },
    }
    write_json(work.config.output / REPORT, content, indent=1)
    shown = np.argsort(-first.count, kind="stable")[:SHOWN_CLASSES]
    rows = [
        (names[label], _images(work, best), _images(work, worst))
        for label in shown.tolist()
        if first.count[label]
        for best, worst in [_extremes(work, first, label)]
    ]
    plot_extremes(rows, work.config.output / IMAGES)


def _extremes(work: Work, first: Cut, label: int) -> tuple[list, list]:
    """Returns places of the most and the least confident selected images of a class."""
    best: list[tuple[int, int]] = []
    worst: list[tuple[int, int]] = []
    for number in range(len(work.job.ranges)):
        of, _ = work.candidates(number)
        held = first.holds(of) & (of.label == label)
        seen = sorted({*best, *worst, *((one, place) for one, place in of.words[held].tolist())})
        best, worst = seen[:SHOWN], seen[-SHOWN:]
    return best, worst


def _images(work: Work, places: Sequence[tuple[int, int]]) -> list[tuple[bytes, float]]:
    """Returns image files and scores of ranks."""
    found = []
    for _, place in places:
        number, record = place >> RANGES, place & (1 << RANGES) - 1
        dataset = tf.data.TFRecordDataset(str(work.labels(number))).skip(record).take(1)
        parsed = parse(next(iter(dataset)))
        found.append((parsed["image"].numpy(), float(parsed["score"])))
    return found
