"""Experiments of several seeds with verdicts: `python -m tools.experiment --help`."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from unittest.mock import patch

import numpy as np
from pydantic import Field, model_validator
from pydantic_settings import CliPositionalArg

from tools import elpv
from zoo.cli.run import run_command
from zoo.cli.settings import Section, Settings
from zoo.config import NetworkName, OptimizerConfig
from zoo.errors import printable, unknown
from zoo.fields import Count, LocalPath, OutputFile, TypedValues, read_settings
from zoo.files import write_json
from zoo.measurements import Column, find_hardware, installed, print_table

LEVEL, POWER = 0.05, 0.8  # level of the paired t-test; power for the detectable difference
ROTATION, SHIFT = 30, 4  # largest rotation (degrees) and shift (pixels) of `moved` images
CORRUPTIONS = ("gaussian_noise", "shot_noise", "contrast", "pixelate", "jpeg_compression")
SEVERITY, CORRUPTED = 3, 2000  # severity as in ImageNet-C; corrupted test images
PREDICTED_NUMBERS = 400_000  # in the test images that are predicted at once
TIMED_STEPS, TIMED_ROUNDS = 20, 5  # the fastest round counts
# Settings that affect the time of a step.
OF_TIMES = ("network", "model", "batch_size", "image_size", "precision")
FEWEST = 3  # seeds for a verdict
METRICS = ("accuracy", "moved", "corrupted", "calibration_error")
OF_CELLS = ("roc_auc", "f1", "accuracy", "calibration_error")
ELPV = "elpv"  # data: the images of solar cells that `tools.elpv` reads
# Defaults of settings that older results lack.
LATER = {"precision": "float32", "weights": None, "image_size": None, "class_weights": False}


class Row(Section):
    """A network and its training: settings that differ from the experiment's."""

    model: TypedValues = Field(default={})
    """Constructor arguments, in addition to the experiment's."""
    optimizer: TypedValues = Field(default={})
    """Settings of the optimizer, instead of the experiment's."""
    train_images: Count | None = None
    """Training images, another random part of them for each seed; None: all."""
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    """Keras' dtype policy."""
    weights: str | None = None
    """Initial weights, for any number of classes and channels; None: random."""
    image_size: Count | None = None
    """elpv: height and width in pixels."""


class Table(Section):
    """Claims about rows, each `A > B` (A is more accurate) or `A = B`."""

    about: str
    """Heading of the table, with the statement of the paper."""
    claims: list[str] = Field(min_length=1)
    metrics: list[
        Literal["accuracy", "moved", "corrupted", "calibration_error", "roc_auc", "f1"]
    ] = Field(default=["accuracy", "moved"], min_length=1)

    def pairs(self) -> list[tuple[str, str, str]]:
        """Splits the claims into two rows and the sign between them."""
        claims = []
        for claim in self.claims:
            first, sign, second = (part.strip() for part in claim.partition(" > "))
            if not sign:
                first, sign, second = (part.strip() for part in claim.partition(" = "))
            if not sign:
                raise ValueError(f"claims: expected A > B or A = B. Received: {claim!r}")
            claims.append((first, sign, second))
        return claims


class Experiment(Section):
    """Networks to compare: all see as many images; seeds fix their order."""

    data: str
    """Data set of TensorFlow Datasets with a train and a test split and images of one size; or
    elpv, which is halved by seed (tools.elpv)."""
    held_out: int = Field(default=0, ge=0)
    """Number of training images, the last ones, to test on instead of the test images."""
    class_weights: bool = False
    """Weight the loss so that all classes count equally."""
    network: NetworkName
    model: TypedValues = Field(default={})
    """Constructor arguments of all rows."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer of the rows; warmup_epochs is a fraction of the training."""
    batch_size: Count = 128
    images: Count
    """Images that each network sees."""
    seeds: list[int] = Field(min_length=FEWEST)
    """Seeds of weights, order and parts of the data; each seed is one pair of a test."""
    rows: dict[str, Row]
    tables: dict[str, Table]

    @model_validator(mode="after")
    def _known_rows(self) -> Self:
        for first, _, second in chain(*(table.pairs() for table in self.tables.values())):
            for name in (first, second):
                if name not in self.rows:
                    raise ValueError(f"claims: expected a row. {unknown(name, self.rows)}")
        for name, row in self.rows.items():
            if (self.data == ELPV) != (row.image_size is not None):
                raise ValueError(f"rows: expected image_size with elpv alone. Received: {name!r}")
        for table in self.tables.values():
            for metric in table.metrics:
                if metric not in self.metrics:
                    raise ValueError(f"metrics: expected others. {unknown(metric, self.metrics)}")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of these data."""
        return OF_CELLS if self.data == ELPV else METRICS

    def settings(self, name: str) -> dict[str, Any]:
        """Returns all that a row's result depends on."""
        row = self.rows[name]
        optimizer = self.optimizer.model_copy(update=row.optimizer)
        return {
            "data": self.data,
            "held_out": self.held_out,
            "network": self.network,
            "model": {**self.model, **row.model},
            "optimizer": OptimizerConfig(**optimizer.model_dump()).model_dump(mode="json"),
            "batch_size": self.batch_size,
            "images": self.images,
            "train_images": row.train_images,
            "precision": row.precision,
            "weights": row.weights,
            "image_size": row.image_size,
            "class_weights": self.class_weights,
        }

    def order(self) -> Iterator[tuple[str, int]]:
        """Yields rows and seeds, table by table, seed by seed."""
        for table in self.tables.values():
            names = dict.fromkeys(name for claim in table.pairs() for name in (claim[0], claim[2]))
            yield from ((name, seed) for seed in self.seeds for name in names)


class Config(Settings):
    """Trains the missing runs of an experiment, and prints tables with verdicts.

    The experiment is a YAML file: rows, seeds, and claims about pairs of rows. Every network is
    trained from memory by Keras' fit, and its result added to the JSON file, so that the same
    command resumes after a kill. A claim is tested by a two-sided paired t-test at 5 %, paired by
    seed. Example:

      python -m tools.experiment tools/experiments/fashion_mnist.yaml
    """

    file: CliPositionalArg[LocalPath]
    """YAML file of the experiment."""
    output: OutputFile | None = None
    """JSON file of the results; None: docs/benchmarks/NAME.json."""
    data_dir: LocalPath | None = None
    """Folder of data sets; None: ~/tensorflow_datasets. elpv: the folder of labels.csv."""
    train: bool = True
    """Train what is missing; false: compare what is there."""
    time: bool = False
    """Measure the time of a step of each row instead of training."""


class Images(NamedTuple):
    """Gray or color images in [0, 255], `(count, height, width, channels)`, and their labels."""

    images: np.ndarray
    labels: np.ndarray


def main(arguments: Sequence[str]) -> None:
    """Reads the experiment, trains, and prints."""
    config = Config.from_command_line(arguments, "python -m tools.experiment")
    experiment = Experiment.model_validate(read_settings(str(config.file)))
    output = config.output or Path("docs/benchmarks") / f"{config.file.stem}.json"
    if config.train:
        run(experiment, output, load(experiment, config.data_dir), config.time)
    report = read(output) | {"command": f"python -m tools.experiment {config.file}"}
    show(experiment, report)
    write(experiment, output, report)
    print(f"\nresults: {printable(output)}")


Data = Callable[[int | None, int], tuple[Images, Images]]


def load(experiment: Experiment, folder: Path | None) -> Data:
    """Returns a function from image size and seed to training and test images."""
    if experiment.data == ELPV:
        return load_cells(folder or Path("elpv"))

    from zoo.data.sources.tfds import find_builder

    builder = find_builder(experiment.data, folder and str(folder))
    splits = builder.as_dataset(["train", "test"], batch_size=-1, as_supervised=True)
    train, test = (Images(*(part.numpy() for part in split)) for split in splits)
    if held_out := experiment.held_out:
        test = Images(*(values[-held_out:] for values in train))
        train = Images(*(values[:-held_out] for values in train))
    return lambda size, seed: (train, test)


def load_cells(folder: Path) -> Data:
    """Returns a function from image size and seed to two halves of the solar cells.

    Class 0 is `defective`.
    """
    from PIL import Image

    cells = elpv.read_labels(folder)
    labels = np.array([not defective for _, defective, _ in cells], int)

    @cache
    def images(size: int) -> np.ndarray:
        opened = (Image.open(path).convert("L").resize((size, size)) for path, *_ in cells)
        return np.stack([np.asarray(image) for image in opened])[..., None]

    def halves(size: int | None, seed: int) -> Any:
        training = elpv.split([kind for *_, kind in cells], seed)
        every = images(size or elpv.SIZE)
        return tuple(Images(every[half], labels[half]) for half in (training, ~training))

    return halves


def write(experiment: Experiment, output: Path, report: dict[str, Any]) -> None:
    """Writes the results with the current rows and claims of the experiment."""
    report["benchmark"] = "experiment"
    report["rows"] = [*rows(experiment, report), *claims(experiment, report)]
    write_json(output, report, indent=1)


def read(output: Path) -> dict[str, Any]:
    """Reads the results; none if there is no file."""
    return json.loads(output.read_text("utf-8")) if output.is_file() else {"runs": [], "times": []}


def matching(report: Mapping[str, Any], kind: str, settings: Mapping[str, Any]) -> list[Any]:
    """Lists the runs with these settings, or the times of this network, whatever the row's name."""
    names = OF_TIMES if kind == "times" else settings.keys()
    wanted = {name: settings[name] for name in names}
    return [row for row in report[kind] if wanted.items() <= {**LATER, **row["settings"]}.items()]


def standardized(images: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    """Normalizes images by the mean and the deviation of all training pixels."""
    return ((images - scale[0]) / scale[1]).astype("float32")


def test_sets(test: Images, scale: tuple[float, float]) -> dict[str, np.ndarray]:
    """Returns normalized test images: plain, moved and corrupted, the same in all runs."""
    from scipy.ndimage import affine_transform
    from tensorflow_datasets.image_classification import corruptions

    random = np.random.default_rng(0)
    moved = np.empty_like(test.images)
    for place, image in enumerate(test.images):
        angle = np.deg2rad(random.uniform(-ROTATION, ROTATION))
        cos, sin = np.cos(angle), np.sin(angle)
        matrix = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
        center = (np.array(image.shape) - 1) / 2
        shift = [*random.uniform(-SHIFT, SHIFT, 2), 0]
        offset = center - matrix @ (center + shift)
        affine_transform(image, matrix, offset, output=moved[place], order=1)
    sets = {"accuracy": test.images, "moved": moved}
    np.random.seed(0)  # noqa: NPY002 (the corruptions draw from it)
    for name in CORRUPTIONS:
        corrupt = getattr(corruptions, name)
        gray = [np.repeat(image, 3 // image.shape[-1], -1) for image in test.images[:CORRUPTED]]
        images = [corrupt(image, SEVERITY)[..., : test.images.shape[-1]] for image in gray]
        sets[name] = np.stack(images)
    return {name: standardized(images, scale) for name, images in sets.items()}


def batches_of(settings: Mapping[str, Any], seed: int, train: Images, steps: int) -> Any:
    """Returns a `tf.data.Dataset` of training batches, with class weights if these are set."""
    import tensorflow as tf

    random = np.random.default_rng(seed)
    size, used = settings["batch_size"], settings["train_images"] or len(train.labels)
    part = random.permutation(len(train.labels))[:used]
    passes = -(-steps * size // used)
    order = np.concatenate([random.permutation(part) for _ in range(passes)])[: steps * size]
    tensors = [tf.constant(train.images), tf.constant(train.labels)]
    if settings["class_weights"]:
        counts = np.bincount(train.labels[part])
        weights = (len(part) / len(counts) / counts).astype("float32")
        tensors.append(tf.constant(weights[train.labels]))
    batches = tf.data.Dataset.from_tensor_slices(order.reshape(steps, size))
    return batches.map(lambda index: tuple(tf.gather(tensor, index) for tensor in tensors))


def prepare(settings: Mapping[str, Any], seed: int, train: Images, steps: int) -> tuple[Any, Any]:
    """Builds a network, and returns it with the function that trains it for some steps."""
    import keras

    from lambda_keras.models.mixers import MIXERS
    from tools.two_lambda_layers import MIXER
    from zoo.precision import precision
    from zoo.registry import create_model
    from zoo.train.optimizer import add_weight_decay, create_optimizer

    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    batches = batches_of(settings, seed, train, steps)
    with patch.dict(MIXERS, MIXER), precision(settings["precision"]):
        model: Any = create_model(
            settings["network"],
            weights=settings["weights"],
            adapt_weights=settings["weights"] is not None,
            input_shape=train.images.shape[1:],
            classes=int(train.labels.max()) + 1,
            classifier_activation=None,
            **settings["model"],
        )
    optimizer = OptimizerConfig(**settings["optimizer"])
    add_weight_decay(model, optimizer.weight_decay)
    model.compile(
        create_optimizer(optimizer, settings["batch_size"], steps, 1, model),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=math.gcd(steps, 50),
        jit_compile=False,
    )
    return model, lambda: model.fit(batches.prefetch(4), verbose=0, shuffle=False)


def evaluate(model: Any, tests: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, float]:
    """Measures accuracy on all test sets, in percent, and calibration.

    Of two classes, ROC AUC and F1 are of class 0, in percent.
    """
    from scipy.special import log_softmax
    from sklearn.metrics import f1_score, roc_auc_score

    from zoo.evaluate.scores import Scores, negative_log_likelihood

    size = max(1, PREDICTED_NUMBERS // tests["accuracy"][0].size)
    logs = {
        name: log_softmax(model.predict(images, batch_size=size, verbose=0).astype("float64"), -1)
        for name, images in tests.items()
    }
    right = {name: scores.argmax(-1) == labels[: len(scores)] for name, scores in logs.items()}
    plain = logs["accuracy"]
    loss = negative_log_likelihood(plain, labels)
    scores = Scores(np.exp(plain.max(-1)), right["accuracy"], loss)
    metrics = {name: 100 * float(hits.mean()) for name, hits in right.items()}
    if CORRUPTIONS[0] in metrics:
        metrics["corrupted"] = float(np.mean([metrics[name] for name in CORRUPTIONS]))
    if plain.shape[-1] == 2:
        metrics["roc_auc"] = 100 * float(roc_auc_score(labels == 0, plain[:, 0] - plain[:, 1]))
        metrics["f1"] = 100 * float(f1_score(labels == 0, plain.argmax(-1) == 0))
    return {
        **metrics,
        "loss": loss,
        "calibration_error": 100 * scores.calibration_error,
    }


class Work(NamedTuple):
    """The slow steps of an experiment, and the clock that times them."""

    prepare: Callable[..., tuple[Any, Any]]
    evaluate: Callable[..., dict[str, float]]
    test_sets: Callable[..., dict[str, np.ndarray]]
    clock: Callable[[], float] = time.perf_counter


WORK = Work(prepare, evaluate, test_sets)


def run(
    experiment: Experiment,
    output: Path,
    data: Data,
    timed: bool = False,
    work: Work = WORK,
) -> None:
    """Trains and evaluates all rows and seeds that the file lacks, or times a step of the rows."""

    @lru_cache(maxsize=1)
    def prepared(size: int | None, seed: int | None) -> tuple[Images, dict[str, np.ndarray], Any]:
        train, test = data(size, seed or 0)
        scale = train.images.mean(), train.images.std()
        tests = {"accuracy": standardized(test.images, scale)}
        if "moved" in experiment.metrics and not timed:
            tests = work.test_sets(test, scale)
        return Images(standardized(train.images, scale), train.labels), tests, test.labels

    for name, seed in dict.fromkeys(experiment.order()):
        settings = experiment.settings(name)
        done = matching(read(output), "times" if timed else "runs", settings)
        if (timed and done) or any(entry.get("seed") == seed for entry in done):
            continue
        steps = TIMED_STEPS if timed else experiment.images // experiment.batch_size
        row = settings["image_size"], seed if experiment.data == ELPV else None
        train, tests, labels = prepared(*row)
        model, fit = work.prepare(settings, seed, train, steps)
        result: dict[str, Any] = {"row": name, "settings": settings}
        rounds = []
        for _ in range(1 + TIMED_ROUNDS * timed):  # the first one compiles
            start = work.clock()
            fit()
            rounds.append(work.clock() - start)
        result["parameters"] = sum(
            int(np.prod(variable.shape)) for variable in model.trainable_variables
        )
        if timed:
            result["ms"] = 1000 * min(rounds) / TIMED_STEPS
        else:
            result |= {"seed": seed, "seconds": rounds[0], **work.evaluate(model, tests, labels)}
        report = read(output)  # read again: another process may have written
        report |= {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": find_hardware(),
            "versions": installed(("keras", "tensorflow", "tensorflow-datasets", "numpy"), "pip"),
        }
        report["times" if timed else "runs"].append(result)
        write(experiment, output, report)
        numbers = {key: value for key, value in result.items() if isinstance(value, float | int)}
        print(name, *(f"{key} {value:.5g}" for key, value in numbers.items()), flush=True)


class Comparison(NamedTuple):
    """A two-sided paired t-test of the difference A - B over seeds."""

    seeds: int
    difference: float  # mean
    low: float  # of the confidence interval
    high: float
    p: float
    detectable: float  # least true difference that the test finds in 80 % of such experiments

    def verdict(self, sign: str, less_is_better: bool = False) -> str:
        """Returns the verdict on a claim: `A > B`, A is better, or `A = B`."""
        if self.low <= 0 <= self.high:
            return "no difference found"
        better = self.high < 0 if less_is_better else self.low > 0
        return "supported" if sign == ">" and better else "contradicted"


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Tests whether paired values differ."""
    from scipy.stats import t

    differences = np.subtract(first, second)
    count = len(differences)
    mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(count)
    reach = t.ppf(1 - LEVEL / 2, count - 1)
    p = 2 * t.sf(abs(mean) / error, count - 1) if error else float(mean == 0)
    detectable = (reach + t.ppf(POWER, count - 1)) * error
    numbers = (mean, mean - reach * error, mean + reach * error, p, detectable)
    return Comparison(count, *map(float, numbers))


def by_seed(experiment: Experiment, report: Mapping[str, Any], name: str) -> dict[int, Any]:
    """Returns the runs of a row by seed."""
    return {entry["seed"]: entry for entry in matching(report, "runs", experiment.settings(name))}


def rows(experiment: Experiment, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lists mean and deviation of every row of every table, over seeds."""
    lines = []
    for title, table in experiment.tables.items():
        for name in dict.fromkeys(name for claim in table.pairs() for name in (claim[0], claim[2])):
            runs = list(by_seed(experiment, report, name).values())
            times = matching(report, "times", experiment.settings(name))
            line: dict[str, Any] = {"kind": "row", "table": title, "row": name}
            line["train_images"] = experiment.rows[name].train_images
            line["seeds"] = len(runs)
            line |= {key: timed[key] for timed in times for key in ("parameters", "ms")}
            for metric in experiment.metrics:
                values = [run[metric] for run in runs]
                line[metric] = float(np.mean(values)) if values else None
                line[f"{metric}_sd"] = float(np.std(values, ddof=1)) if values[1:] else None
            lines.append(line)
    return lines


def claims(experiment: Experiment, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lists the verdicts on the claims of all tables, by every metric."""
    lines = []
    for title, table in experiment.tables.items():
        for first, sign, second in table.pairs():
            runs = [by_seed(experiment, report, name) for name in (first, second)]
            seeds = sorted(runs[0].keys() & runs[1].keys())
            for metric in table.metrics if len(seeds) >= FEWEST else ():
                result = compare(
                    *([runs_by_seed[seed][metric] for seed in seeds] for runs_by_seed in runs)
                )
                verdict = result.verdict(sign, metric == "calibration_error")
                line = {"kind": "claim", "table": title, "claim": f"{first} {sign} {second}"}
                line["metric"] = metric
                lines.append({**line, **result._asdict(), "verdict": verdict})
    return lines


def show(experiment: Experiment, report: Mapping[str, Any]) -> None:
    """Prints the rows and the verdicts of every table."""
    measured = [Column(name.replace("_", " "), name) for name in ("parameters", "ms", "seeds")]
    for metric in experiment.metrics:
        measured += [Column(metric.replace("_", " "), metric), Column("sd", f"{metric}_sd")]
    tested = [Column(name, name) for name in ("metric", *Comparison._fields, "verdict")]
    lines, verdicts = rows(experiment, report), claims(experiment, report)
    for title, table in experiment.tables.items():
        parts = ([line for line in part if line["table"] == title] for part in (lines, verdicts))
        print_table(f"{title}. {table.about}", "row", measured, next(parts))
        print_table("Claims", "claim", tested, next(parts))


if __name__ == "__main__":
    run_command(main)
