"""Labels images by a teacher: `python -m zoo.pseudo_label label`."""

from typing import Annotated, Literal

from pydantic import Field

from zoo.cli.settings import Settings
from zoo.cli.tasks import HUB
from zoo.config.model_options import check_place
from zoo.fields import (
    LARGEST,
    AnyOutputFolder,
    AnyPath,
    BatchSize,
    Count,
    TypedValues,
    checked_by,
)
from zoo.files import location
from zoo.pseudo_label.runners import LOCAL, Numbered, Runner, beam_runner, label_each


def _check_teacher(teacher: str) -> None:
    (check_place if teacher.startswith(HUB) else location)(teacher)


class LabelConfig(Settings):
    r"""Labels images by a trained network, the teacher, range by range.

    Each range of images becomes a file of records: images with the most probable classes, their
    log-probabilities, and hashes. A job that was killed resumes by the same command, with any
    runner: ranges whose file is there are done. A report of scores and classes comes at the end.

    Examples:
      python -m zoo.pseudo_label label --teacher runs/imagenet --input 'photos/**/*.jpg' \
        --output labels
      python -m zoo.pseudo_label label --teacher hf://OWNER/NAME --input 'gs://BUCKET/shards/*' \
        --output gs://BUCKET/labels --runner dataflow --beam project=NAME,region=us-central1
    """

    teacher: Annotated[str, checked_by(_check_teacher)]
    """Folder of a finished run, of a published network, or of a SavedModel of zoo.export; or
    hf://OWNER/NAME."""
    input: str = Field(min_length=1)
    """Images to label: a folder or a pattern of image files (** are folders of any depth), a
    pattern of TFRecord files with image/encoded, local or gs://; or tfds:NAME or tfds:NAME:SPLIT.
    """
    output: AnyOutputFolder
    """New folder for the labels, or the folder of the same job, to resume it; local or gs://."""
    runner: Runner = LOCAL
    """local: this process, without Apache Beam; direct: Beam on this machine; the others are
    Beam's, and take --beam options."""
    beam: TypedValues = Field(default={})
    """Pipeline options of Beam, e.g. --beam direct_num_workers=2"""
    batch_size: BatchSize = 64
    """Images per run of the teacher; equal batches give equal labels."""
    range_size: int = Field(default=10_000, ge=0, le=LARGEST)
    """Images of a range, at most; 0: each file of records is a range, and is not counted first."""
    top_k: Count = 100
    """Classes per image, the most probable ones; all if there are fewer."""
    temperature: float = Field(default=1.0, gt=0)
    """Divides the logits: above 1 for a teacher that is too confident."""
    damaged: Literal["refuse", "skip"] = "refuse"
    """Damaged files of records: an error, or leave out the rest of the file and report it."""
    tfds_dir: AnyPath | None = None
    """Folder of data sets for tfds:NAME; None: ~/tensorflow_datasets."""


def run(config: LabelConfig) -> None:
    """Checks all that a job needs, labels the ranges that are not done, and reports."""
    output, beam = config.output, beam_runner(config.runner, config.beam)
    from zoo.pseudo_label import job, report  # fails before the work without matplotlib
    from zoo.pseudo_label.inputs import find_ranges, sizes_and_times
    from zoo.pseudo_label.teacher import find_teacher, load_teacher

    find_teacher(config.teacher)  # loading it takes a while
    skip = config.damaged == "skip"
    ranges = find_ranges(config.input, config.range_size, config.tfds_dir, skip)
    teacher = load_teacher(config.teacher)
    wanted = job.Job(
        teacher=teacher.id,
        class_names=tuple(teacher.class_names),
        top_k=min(config.top_k, len(teacher.class_names)),
        temperature=config.temperature,
        batch_size=config.batch_size,
        input=config.input,
        ranges=tuple(images.describe() for images in ranges),
        sizes_and_times=sizes_and_times(ranges),
    )
    job.start(output, job.JOB, wanted, "the labels of another job")
    done = job.finished(output, len(ranges))
    pending: list[Numbered] = [(i, images) for i, images in enumerate(ranges) if i not in done]
    if done:
        print(f"resumes: {len(done):,} of {len(ranges):,} ranges are done", flush=True)
    common = wanted.model_copy(update={"ranges": ()})
    task = job.Task(common, config.teacher, str(output), len(ranges), skip)
    with report.Meter([images.take for _, images in pending]) as meter:
        label_each(task, pending, beam, meter.add)
    report.write(output, task, meter.images, meter.seconds)
