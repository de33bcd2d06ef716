"""Selects the pseudo-labels to train on: `python -m zoo.pseudo_label select`."""

from typing import Literal

from pydantic import Field

from zoo.cli.settings import Settings
from zoo.errors import printable, refusal, require, some
from zoo.fields import AnyOutputFolder, AnyPath, Count, TypedValues
from zoo.files import remove
from zoo.pseudo_label.runners import LOCAL, Runner, beam_runner
from zoo.run_folder import read_json


class SelectConfig(Settings):
    r"""Selects the pseudo-labels to train on, as Noisy Student does (arXiv:1911.04252).

    Images with a score below the threshold are left out, and images of the labeled and test sets.
    Of each class, the most confident ones are kept; rare classes get copies. The same command
    resumes a job that was killed, with any runner.

    Examples:
      python -m zoo.pseudo_label select --input labels --output selected \
        --exclude 'imagenet/train-*','imagenet/validation-*'
    """

    input: AnyPath
    """Folder of zoo.pseudo_label label, whose job is finished; local or gs://."""
    output: AnyOutputFolder
    """New folder for the selected records, or the folder of the same job, to resume it."""
    threshold: float = Field(default=0.3, ge=0, lt=1)
    """Lowest score: probability of the most probable class."""
    per_class: Count = 130_000
    """Images of each class, the most confident ones first."""
    copies: bool = True
    """Repeat the images of classes that have fewer, the most confident ones once more."""
    exclude: list[str] = Field(default=[])
    """Labeled and test images, which are left out: patterns as for --input of label."""
    hamming: int = Field(default=3, ge=0, le=15)
    """Different bits of perceptual hashes, up to which two images are the same, re-encoded."""
    empty_classes: Literal["refuse", "allow"] = "refuse"
    """Classes without an image to select."""
    runner: Runner = LOCAL
    """As for label."""
    beam: TypedValues = Field(default={})
    """Pipeline options of Beam, e.g. --beam direct_num_workers=2"""
    tfds_dir: AnyPath | None = None
    """Folder of data sets for tfds:NAME; None: ~/tensorflow_datasets."""


def run(config: SelectConfig) -> None:
    """Checks the labels, selects among them, and writes the records and a report."""
    beam = beam_runner(config.runner, config.beam)
    import zoo.plots.pseudo_labels  # noqa: F401  # fails before the work without matplotlib
    from zoo.pseudo_label import selection
    from zoo.pseudo_label.job import JOB, Job, finished

    expected = f"input: expected a folder of python -m zoo.pseudo_label label, with {JOB}"
    require((config.input / JOB).is_file(), expected, repr(str(config.input)))
    job = read_json(Job, config.input / JOB, f"input: expected an intact {JOB}")
    count = len(job.ranges)
    if missing := sorted(set(range(count)) - finished(config.input, count)):
        left = f"{len(missing)} of {count} ranges are missing ({some(map(str, missing))})"
        received = f"{config.input}, in which {left}; repeat its command"
        raise refusal("input: expected a finished job", received)
    new = not config.output.exists()
    work = selection.start(config, job)
    try:
        images = work.filter()
        kept = images.counts[selection.KEPT]
        require(
            kept.any(), "threshold: expected one below the scores of some images", config.threshold
        )
        empty = [name for name, count in zip(job.class_names, kept, strict=True) if not count]
        if empty and config.empty_classes == "refuse":
            received = f"none for {len(empty)} ({printable(some(empty))})"
            hint = "--empty_classes allow goes on without them"
            expected = "input: expected images to select for every class"
            raise refusal(expected, f"{received}; {hint}")
        work.write(images, beam)
    except ValueError:
        if not any(path.name.startswith("train-") for path in config.output.iterdir()):
            remove(work.scratch)
            remove(config.output / selection.SETTINGS)
            if new:
                remove(config.output)
        raise
