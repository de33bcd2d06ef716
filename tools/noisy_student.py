"""Pseudo-labels on a data set of TFDS, with seeds: `python -m tools.noisy_student --help`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tools.experiment import FEWEST, compare
from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import printable
from zoo.fields import Count, LocalPath, OutputFile, OutputFolder
from zoo.files import write_json
from zoo.measurements import columns, find_hardware, installed, print_table

CONFIG, DATA = "lambda_resnet14_fashion_mnist", "fashion_mnist"
TEACHER, NOISE = "teacher", "noise alone"
# The student's noise, in addition to the augmentation of the recipe.
NOISY = ["--model.overrides", "filters=8,dropout_rate=0.2,stochastic_depth_rate=0.1"]
QUIET = ["--model.overrides", "filters=8"]
COMPARED = ("seeds", "difference", "low", "high", "p", "detectable", "verdict")


class Config(Settings):
    """Trains a teacher and students on Fashion-MNIST with few labeled images (Table 5).

    For every seed, runs the commands of docs/pseudo_labels.md: trains a teacher, then in each
    round labels images at the temperature fitted to held-out labeled images, selects among them,
    and trains a student with more noise, the next teacher. A network with this noise but no
    pseudo-labels is trained, too. Every seed has other labeled images. Later calls
    resume. Example:

      python -m tools.noisy_student --folder runs/noisy_student
    """

    folder: OutputFolder
    """Folder of the runs, the labels and the selected images."""
    output: OutputFile = Path("docs/benchmarks/noisy_student.json")
    """JSON file of the results."""
    data_dir: LocalPath | None = None
    """Folder of data sets; None: ~/tensorflow_datasets."""
    seeds: list[Annotated[int, Field(ge=0, lt=60)]] = Field(default=[0, 1, 2], min_length=1)
    """Seeds of weights and order; each is one pair of a test."""
    labeled: int = Field(default=1000, ge=50, le=1000)
    """Images with labels, of which a fifth is held out."""
    images: Count = 60_000
    """Number of training images to pseudo-label, the last ones, without the labeled ones."""
    rounds: Count = 2
    """Students, one after another."""
    epochs: Count = 100
    """Epochs of every network over the labeled images."""


def main(arguments: Sequence[str]) -> None:
    """Trains the missing networks, then prints and writes accuracies and verdicts."""
    config = Config.from_command_line(arguments, "python -m tools.noisy_student")
    runs = [run for seed in config.seeds for run in _runs(config, seed)]
    report = {
        "benchmark": "noisy_student",
        "command": f"python -m tools.noisy_student --folder {config.folder.name}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": config.model_dump(mode="json", exclude={"folder", "output", "data_dir"}),
        "hardware": find_hardware(),
        "versions": installed(("keras", "tensorflow", "tensorflow-datasets", "numpy"), "pip"),
        "rows": [*runs, *(claims := verdicts(runs))],
    }
    write_json(config.output, report, indent=1)
    print_table("Networks", "network", columns("seed", "accuracy", "temperature", "minutes"), runs)
    print_table("Claims", "claim", columns(*COMPARED), claims)
    print(f"\nresults: {printable(config.output)}")


def _runs(config: Config, seed: int) -> Iterator[dict[str, Any]]:
    """Yields the accuracy of every network of a seed; trains missing networks."""
    count = config.labeled
    first, last = seed * count, (seed + 1) * count
    held_out = f"train[{last - count // 5}:{last}]"
    data = ["--data.dir", config.data_dir] * (config.data_dir is not None)
    tfds = ["--tfds_dir", config.data_dir] * (config.data_dir is not None)
    everything = f"tfds:{DATA}:train[-{config.images}:]"
    labeled = f"tfds:{DATA}:train[{first}:{last}],tfds:{DATA}:test"
    place = config.folder / f"seed{seed}"

    def network(name: str, *settings: Any) -> dict[str, Any]:
        run = place / name.replace(" ", "_")
        if not (run / "metrics.json").is_file():
            train = ["--config", CONFIG, "--training.seed", seed, "--output_dir", run, *data]
            train += ["--data.train_split", f"train[{first}:{last - count // 5}]"]
            train += ["--data.test_split", held_out, "--training.epochs", config.epochs]
            run_verb("train", *train, "--training.steps_per_execution", 1, *settings)
        evaluated = ["--run", run, "--data.test_split"]
        if not (run / "calibration").is_dir():
            calibration = ["--calibrate", "true", "--output", run / "calibration"]
            run_verb("evaluate", *evaluated, held_out, *calibration)
        if not (run / "test").is_dir():
            run_verb("evaluate", *evaluated, "test", "--output", run / "test")
        files = ("metrics.json", "calibration/evaluation.json", "test/evaluation.json")
        metrics, fitted, tested = (json.loads((run / file).read_text("utf-8")) for file in files)
        return {
            "kind": "run",
            "network": name,
            "seed": seed,
            "accuracy": 100 * tested["top1"],
            "temperature": fitted["calibration"]["temperature"],
            "minutes": metrics["training_seconds"] / 60,
        }

    teacher = network(TEACHER, *QUIET)
    yield teacher
    yield network(NOISE, *NOISY)
    run = place / TEACHER
    for number in range(1, config.rounds + 1):
        labels, selected = place / f"labels{number}", place / f"selected{number}"
        if not (selected / "select.json").is_file():
            temperature = ["--temperature", f"{teacher['temperature']:.3f}"]
            source = ["--teacher", run, "--input", everything, *temperature]
            run_verb("pseudo_label label", *source, "--output", labels, *tfds)
            chosen = ["--per_class", config.images // 10, "--hamming", 0, "--exclude", labeled]
            run_verb("pseudo_label select", "--input", labels, "--output", selected, *chosen, *tfds)
        name = f"student {number}"
        teacher = network(name, *NOISY, "--data.pseudo.dir", selected)
        run = place / name.replace(" ", "_")
        yield teacher


def run_verb(verb: str, *arguments: Any) -> None:
    """Runs a command of `zoo` in a process of its own, and shows its arguments."""
    name, *rest = verb.split()
    command = [sys.executable, "-m", f"zoo.{name}", *rest, *map(str, arguments)]
    print(*command[1:], flush=True)
    subprocess.run(command, check=True)


def verdicts(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists the verdicts on students and teachers, paired by seed."""
    by_name: dict[str, dict[int, float]] = {}
    for run in runs:
        by_name.setdefault(run["network"], {})[run["seed"]] = run["accuracy"]
    students = [name for name in by_name if name.startswith("student")]
    pairs = [(name, other) for name in students for other in (TEACHER, NOISE)]
    lines = []
    for first, second in [*pairs, *zip(students[1:], students, strict=False)]:
        seeds = sorted(by_name[first].keys() & by_name[second].keys())
        if len(seeds) >= FEWEST:
            comparison = compare(
                *([by_name[name][seed] for seed in seeds] for name in (first, second))
            )
            verdict = {**comparison._asdict(), "verdict": comparison.verdict(">")}
            lines.append({"kind": "claim", "claim": f"{first} > {second}", **verdict})
    return lines


if __name__ == "__main__":
    run_command(main)
