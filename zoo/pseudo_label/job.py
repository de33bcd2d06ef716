"""A labeling job: its settings, teacher and ranges, and the files of its folder."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from zoo.data.errors import reason
from zoo.data.pseudo_records import LABELS
from zoo.errors import printable, refusal
from zoo.files import answering, is_partial, location, remove_partial, write_json
from zoo.run_folder import read_json

JOB, REPORT, SCORES = "job.json", "report.json", "scores.png"
RECORDS, INDEX = ".tfrecord", ".npz"  # of each range, the index without images
PER_IMAGE = {"label": "i", "score": "f", "sha256": "u", "perceptual_hash": "i"}
ARRAYS = PER_IMAGE | {"unreadable": "U", "damaged": "U"}  # of an index, by dtype kind


class Job(BaseModel, extra="forbid", frozen=True):
    """The contents of `job.json`: all settings that the labels depend on."""

    version: Literal[1] = 1
    teacher: str
    class_names: tuple[str, ...] = Field(min_length=2)
    top_k: int
    temperature: float
    batch_size: int
    input: str
    ranges: tuple[dict[str, Any], ...]
    sizes_and_times: str = ""  # digest of the image or record files


@dataclass(frozen=True)
class Task:
    """A job without its ranges: all that a worker needs to label a range."""

    job: Job
    teacher: str  # place
    output: str
    count: int  # of ranges
    skip_damaged: bool

    def path(self, number: int, suffix: str = RECORDS) -> Any:
        """Returns the path of the records, or of the index, of a range."""
        return location(self.output) / (LABELS.format(number, self.count) + suffix)


def start(folder: Any, name: str, job: BaseModel, holds: str) -> None:
    """Writes the file of a job to a new folder, or checks that the folder has the same job.

    In the error message, `holds` names the contents of a folder of another job.
    """
    wanted = job.model_dump(mode="json")
    with answering(folder):
        if not (folder / name).is_file():
            if folder.exists() and not all(is_partial(path) for path in folder.iterdir()):
                raise refusal("output: expected a new folder", f"{str(folder)!r} with other files")
            write_json(folder / name, wanted)
            return
    existing = read_json(type(job), folder / name, f"output: expected an intact {name}")
    before = existing.model_dump(mode="json")
    if different := [key for key in wanted if before.get(key) != wanted[key]]:
        other = f"other {', '.join(different)}"
        way = "repeat its command to resume it, or choose another folder"
        raise ValueError(f"output: {folder} holds {holds} ({other}); {way}")
    remove_partial(folder)


def finished(folder: Any, count: int) -> set[int]:
    """Returns the numbers of the ranges whose records and index exist."""
    with answering(folder):
        names = {path.name for path in folder.iterdir()}
    stems = (LABELS.format(i, count) for i in range(count))
    return {i for i, stem in enumerate(stems) if {stem + RECORDS, stem + INDEX} <= names}


def read_index(path: Any, classes: int, setting: str = "output") -> dict[str, np.ndarray]:
    """Reads the index of a finished range: an array of each name of `ARRAYS`."""
    try:
        content = path.read_bytes()
        if not content.startswith(b"PK"):
            raise ValueError("no .npz file")
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            index = {name: arrays[name] for name in ARRAYS}
        label, score = index["label"], index["score"]
        for name, kind in ARRAYS.items():
            count = len(label) if name in PER_IMAGE else index[name].size
            shape = (count, 32) if name == "sha256" else (count,)
            if index[name].dtype.kind != kind or index[name].shape != shape:
                raise ValueError(f"{name} of {index[name].dtype}, {index[name].shape}")
        if not ((label >= 0) & (label < classes) & (score >= 0) & (score < 1.001)).all():
            raise ValueError(f"no labels of {classes} classes with scores from 0 to 1")
    except Exception as error:  # damaged archives raise many kinds
        way = "remove it and repeat the command of label, which writes it anew"
        expected = f"{setting}: expected an intact index in {printable(path)}; {way}"
        raise refusal(expected, reason(error)) from None
    return index
