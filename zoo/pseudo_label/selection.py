"""Selection among the images of a labeling job: what is left out, the order, and the records."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from pydantic import BaseModel

from zoo.data.errors import reason
from zoo.data.pseudo_records import LABELS, SELECTED, SELECTION, SelectedFile, Selection, parse
from zoo.errors import printable
from zoo.files import atomic_write, remove, write_json
from zoo.pseudo_label.exclude import Excluded, read_excluded
from zoo.pseudo_label.inputs import short_digest
from zoo.pseudo_label.job import INDEX, RECORDS, REPORT, Job, read_index
from zoo.pseudo_label.job import start as start_job
from zoo.pseudo_label.runners import BeamRunner, run_each

SETTINGS, SCRATCH, EXCLUDED = "selection_job.json", "unfinished", "excluded.npz"
IMAGES = "images.png"
BEFORE, THRESHOLD, DIGEST, HASH, KEPT = range(5)  # rows of the counts by class
LEFT_OUT = {"threshold": THRESHOLD, "digest": DIGEST, "perceptual_hash": HASH}
OTHER = (
    "input: expected the records of its index in {}; remove it and repeat the command of label, "
    "which writes it anew. Received: {}"
)
SHOWN_CLASSES, SHOWN = 4, 8  # classes in the figure, and images at each end of a class


class Selecting(BaseModel, extra="allow"):
    """The contents of `selection_job.json`: the job and the settings that decide the selection."""


class Candidates(NamedTuple):
    """The images that were not left out, in the order of the ranges, and counts of all images."""

    label: np.ndarray  # (n,)
    score: np.ndarray  # (n,)
    digest: np.ndarray  # (n,), the first four bytes, as integers
    record: np.ndarray  # (n,), number in its range
    ends: np.ndarray  # (ranges,), the end of the images of each range
    counts: np.ndarray  # (5, classes), images by reason and class


class Choice(NamedTuple):
    """The selected images of each class."""

    records: np.ndarray  # (n,), records of each candidate: 0, 1, or more with copies
    selected: np.ndarray  # (classes,)
    extremes: list[tuple[np.ndarray, np.ndarray]]  # most and least confident ones of each class


def choose(images: Candidates, per_class: int, copies: bool) -> Choice:
    """Selects the `per_class` images of each class with the highest scores.

    Equal scores are ordered by digest, equal digests by their place.
    """
    kept = images.counts[KEPT]
    records, selected = np.zeros(len(images.label), "int32"), np.zeros_like(kept)
    extremes = []
    order = np.lexsort((images.digest, -images.score, images.label))
    for label, members in enumerate(np.split(order, kept.cumsum()[:-1])):
        best = members[:per_class]
        times, more = divmod(per_class, len(best)) if copies and len(best) else (1, 0)
        records[best] = times
        records[best[:more]] += 1
        selected[label] = len(best)
        extremes.append((best[:SHOWN], best[-SHOWN:]))
    return Choice(records, selected, extremes)


@dataclass(frozen=True)
class Work:
    """One selection: its settings and paths, on any worker."""

    config: Any  # SelectConfig
    job: Job

    @property
    def scratch(self) -> Any:
        """Folder of files that are only needed until the selection is done."""
        return self.config.output / SCRATCH

    def path(self, number: int) -> Any:
        """Returns the path of the selected records of a range."""
        return self.config.output / SELECTED.format(number, len(self.job.ranges))

    def labels(self, number: int, suffix: str = RECORDS) -> Any:
        """Returns the path of the labels of a range."""
        return self.config.input / (LABELS.format(number, len(self.job.ranges)) + suffix)

    def index(self, number: int) -> dict[str, np.ndarray]:
        """Reads the index of a range."""
        return read_index(self.labels(number, INDEX), len(self.job.class_names), "input")

    def wanted(self, number: int) -> Any:
        """Returns the path of a range's selected record numbers and their numbers of copies."""
        return self.scratch / f"{number}.npy"

    def filter(self) -> Candidates:
        """Leaves out images below the threshold, and images of the labeled and test sets."""
        config, classes = self.config, len(self.job.class_names)
        path = self.scratch / EXCLUDED
        if not path.exists():
            sha256, hashes = read_excluded(config.exclude, config.tfds_dir)
            with atomic_write(path) as temporary:
                np.savez(temporary, sha256=sha256, perceptual_hash=hashes)
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            excluded = Excluded(arrays["sha256"], arrays["perceptual_hash"], config.hamming)
        columns, counts = [], np.zeros((5, classes), "int64")
        for number in range(len(self.job.ranges)):
            index = self.index(number)
            label, sha256 = index["label"], index["sha256"]
            low = index["score"] < config.threshold
            known = ~low & excluded.by_digest(sha256)
            near = ~low & ~known & excluded.by_hash(index["perceptual_hash"])
            kept = ~(low | known | near)
            for row, rows in enumerate((np.ones_like(kept), low, known, near, kept)):
                counts[row] += np.bincount(label[rows], minlength=classes)
            place = np.flatnonzero(kept).astype("int32")
            digest = sha256[kept, :4].copy().view(">u4")[:, 0].astype("uint32")
            columns.append((label[kept], index["score"][kept], digest, place))
        ends = np.cumsum([len(place) for *_, place in columns])
        arrays = map(np.concatenate, zip(*columns, strict=True))
        return Candidates(*arrays, ends=ends, counts=counts)

    def write(self, images: Candidates, beam: BeamRunner | None) -> None:
        """Writes the records of the most confident images, `select.json` and a report."""
        config, counts = self.config, images.counts
        choice = choose(images, config.per_class, config.copies)
        files = []
        parts = (np.split(array, images.ends[:-1]) for array in (images.record, choice.records))
        for number, (record, times) in enumerate(zip(*parts, strict=True)):
            with atomic_write(self.wanted(number)) as temporary:
                np.save(temporary, np.stack([record, times]))
            files.append((self.path(number), int(times.sum())))
        run_each(partial(write_shard, self), range(len(files)), beam)
        weights = choice.records.astype("float64")  # exact in float64
        after = np.bincount(images.label, weights, minlength=counts.shape[1]).astype("int64")
        left_out = {name: int(counts[row].sum()) for name, row in LEFT_OUT.items()}
        selected = Selection(
            class_names=self.job.class_names,
            teacher=self.job.teacher,
            files=tuple(
                SelectedFile(name=path.name, records=records, bytes=path.stat().st_size)
                for path, records in files
            ),
            settings=_settings(config),
            counts_before=tuple(counts[BEFORE].tolist()),
            counts_after=tuple(after.tolist()),
            left_out=left_out,
        )
        _report(self, images, choice, after, left_out)
        write_json(config.output / SELECTION, selected.model_dump(mode="json"))
        remove(self.scratch)
        print(
            f"selected {int(choice.selected.sum()):,} of {int(counts[BEFORE].sum()):,} images, "
            f"{int(after.sum()):,} records with copies; left out: "
            + ", ".join(f"{count:,} by {name}" for name, count in left_out.items())
            + f"\nwrote {config.output / SELECTION}"
        )


def start(config: Any, job: Job) -> Work:
    """Creates the output folder, or checks that it has the same selection, unfinished."""
    digest = short_digest(job.model_dump_json().encode(errors="surrogatepass"))
    wanted = Selecting.model_validate(_settings(config) | {"job": digest})
    start_job(config.output, SETTINGS, wanted, "another selection")
    if (config.output / SELECTION).is_file():
        raise ValueError(f"output: expected a new folder. Received: {config.output}, finished")
    return Work(config, job)


def _settings(config: Any) -> dict[str, Any]:
    """Returns the settings that decide the selection."""
    return config.model_dump(mode="json", exclude={"output", "runner", "beam", "config"})


def _records(path: Any, skip: int = 0) -> Iterator[bytes]:
    """Yields the records of a range; raises `ValueError` if more are requested than exist."""
    records: Any = tf.data.TFRecordDataset(str(path)).skip(skip)
    received = "fewer"
    try:
        yield from records.as_numpy_iterator()
    except tf.errors.OpError as error:
        received = reason(error)
    raise ValueError(OTHER.format(printable(path), received))


def write_shard(work: Work, number: int) -> None:
    """Writes the selected records of a range, copies last, unless the file exists."""
    path, source = work.path(number), work.labels(number)
    if path.exists():
        return
    record, times = np.load(BytesIO(work.wanted(number).read_bytes()), allow_pickle=False)
    sha256 = list(map(bytes, work.index(number)["sha256"]))
    wanted = np.zeros(len(sha256), "int32")
    wanted[record] = times
    with atomic_write(path) as temporary, tf.io.TFRecordWriter(str(temporary)) as file:
        for copy in range(wanted.max(initial=0)):
            for times, digest, content in zip(wanted, sha256, _records(source), strict=False):
                if times > copy:
                    if digest not in content:  # it is the feature image/sha256
                        raise ValueError(OTHER.format(printable(source), "other images"))
                    file.write(content)


def _report(
    work: Work, images: Candidates, choice: Choice, after: np.ndarray, left_out: dict[str, int]
) -> None:
    from zoo.plots.pseudo_labels import plot_extremes

    names, counts = work.job.class_names, images.counts
    content = {
        "teacher": work.job.teacher,
        "images": int(counts[BEFORE].sum()),
        "left_out": left_out,
        "selected": int(choice.selected.sum()),
        "records": int(after.sum()),
        "classes": {
            name: {
                "images": int(counts[BEFORE, i]),
                "to_select": int(counts[KEPT, i]),
                "selected": int(choice.selected[i]),
                "records": int(after[i]),
            }
            for i, name in enumerate(names)
        },
    }
    write_json(work.config.output / REPORT, content, indent=1)
    shown = np.argsort(-choice.selected, kind="stable")[:SHOWN_CLASSES]
    rows = [
        (names[label], _files(work, images, best), _files(work, images, worst))
        for label in shown.tolist()
        if choice.selected[label]
        for best, worst in [choice.extremes[label]]
    ]
    plot_extremes(rows, work.config.output / IMAGES)


def _files(work: Work, images: Candidates, places: np.ndarray) -> list[tuple[bytes, float]]:
    """Returns image files and scores of candidates."""
    files = []
    for place in places.tolist():
        source = work.labels(int(np.searchsorted(images.ends, place, "right")))
        parsed = parse(tf.constant(next(_records(source, int(images.record[place])))))
        files.append((parsed["image"].numpy(), float(parsed["score"])))
    return files
