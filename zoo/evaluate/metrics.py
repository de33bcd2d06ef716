"""How well a model classifies test images: figures, tables and a picture."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import keras
import numpy as np

from lambda_keras.applications.preprocessing import (
    Preprocessing,
    imagenet_classes,
    preprocessing_of,
)
from lambda_keras.weights import load_weights
from zoo import run_folder
from zoo.config import DataConfig
from zoo.data import EvalImages, ImageData, load_data, naming_errors
from zoo.errors import needs_extra, printable
from zoo.evaluate.__main__ import EvaluateConfig
from zoo.files import atomic_write, local_copy
from zoo.inference.classifier import Classifier
from zoo.plots.style import confusions, plot_confusion
from zoo.registry import find_model

with needs_extra("train"):
    from rich.console import Console
    from rich.progress import track
    from rich.table import Column, Table
    from rich.text import Text

RESULTS, PICTURE = "evaluation.json", "confusion.png"
TOP = 5  # classes that top-5 accuracy looks at
WORST = 20  # rows of the printed table of classes


@dataclass(frozen=True)
class Evaluation:
    """What a model said about test images.

    Attributes:
        labels: True class of each image.
        predicted: Its most probable class by the model.
        classes: Number of classes.
        top5: Part of the images with the true class among the five most probable ones; None if
            there are no more than five classes.
        loss: Mean cross-entropy in nats, without label smoothing.
        images_per_second: Speed after the first batch, for which the model is compiled; None if
            there is no other.
    """

    labels: np.ndarray
    predicted: np.ndarray
    classes: int
    top5: float | None
    loss: float
    images_per_second: float | None

    @property
    def top1(self) -> float:
        """Part of the images whose most probable class is the true one."""
        from sklearn import metrics

        return float(metrics.accuracy_score(self.labels, self.predicted))

    @cached_property
    def confusion(self) -> np.ndarray:
        """Number of images by true class (row) and predicted class (column)."""
        from sklearn import metrics

        return metrics.confusion_matrix(self.labels, self.predicted, labels=range(self.classes))

    @cached_property
    def by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and number of images, of each class; NaN is undefined."""
        from sklearn import metrics

        return metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=range(self.classes), zero_division=np.nan
        )


def run(config: EvaluateConfig) -> Evaluation:
    """Evaluates, prints the figures, and writes them where that is asked for.

    Args:
        config: All settings.

    Raises:
        ValueError: If there is no such run, or its weights, the images and their classes do not
            fit each other, or the model gives no probabilities.
    """
    classifier, data = _of_weights(config) if config.run is None else _of_run(config, config.run)
    _check_classes(classifier, data)
    with naming_errors():
        result = evaluate(classifier, data.test, config.data.batch_size)
    place = " ".join(filter(None, (config.data.source, config.data.name)))
    title = f"{classifier.name}{'' if config.averaged else ', raw weights,'} on {place}"
    print_tables(result, readable(classifier.class_names), title)
    if config.output is not None:
        write(result, classifier.class_names, title, config, config.output)
        print(f"wrote {config.output / RESULTS} and {PICTURE}")
    return result


def evaluate(classifier: Classifier, test: EvalImages, batch_size: int) -> Evaluation:
    """Asks a model about every test image.

    Args:
        classifier: The model.
        test: Images of its classes.
        batch_size: Images per batch.

    Raises:
        ValueError: If it gives no probabilities, an image cannot be read and is not to be
            skipped, or not one image can be read.
    """
    with needs_extra("train"):
        from sklearn import metrics
    classes = range(len(classifier.class_names))
    labels, predicted, clock = [], [], []
    in_top, loss = 0.0, 0.0
    if keras.config.backend() == "jax":
        classifier.model.jit_compile = True  # Keras does so only where a model trains
    batches = test.batches(batch_size, len(classes)).as_numpy_iterator()
    shown = track(batches, "Evaluating", total=test.steps(batch_size))
    for images, one_hot, weights in shown:
        real = weights > 0  # the others fill the last batch up, or could not be read
        truth = one_hot.argmax(-1)[real]
        probabilities = _probabilities(classifier, images)[real]
        if len(truth):
            loss += metrics.log_loss(truth, probabilities, normalize=False, labels=classes)
            if len(classes) > TOP:
                in_top += metrics.top_k_accuracy_score(
                    truth, probabilities, k=TOP, normalize=False, labels=classes
                )
        labels.append(truth)
        predicted.append(probabilities.argmax(-1))
        clock.append(time.monotonic())
    count = sum(map(len, labels))
    if not count:
        raise ValueError("expected test images. Received: not one that can be read")
    return Evaluation(
        np.concatenate(labels),
        np.concatenate(predicted),
        len(classes),
        in_top / count if len(classes) > TOP else None,
        loss / count,
        sum(map(len, labels[1:])) / (clock[-1] - clock[0]) if len(clock) > 1 else None,
    )


def _probabilities(classifier: Classifier, images: np.ndarray) -> np.ndarray:
    outputs = np.asarray(classifier.model.predict_on_batch(images), "float64")
    total = outputs.sum(-1, keepdims=True)
    if not np.allclose(total, 1, atol=1e-2):  # nor is NaN
        raise ValueError(
            f"expected probabilities, which sum up to 1. Received: {classifier.name} returns "
            f"outputs with the sum {total.flat[np.argmax(np.abs(total - 1))]:.4g}"
        )
    return outputs / total


def _of_run(config: EvaluateConfig, folder: Path) -> tuple[Classifier, ImageData]:
    raw = folder / run_folder.RAW_WEIGHTS
    if not config.averaged and not raw.is_file():
        raise ValueError(
            f"averaged: expected true, for {folder} has no other weights ({raw.name}), as it was "
            "trained without training.ema. Received: false"
        )
    size = run_folder.load_config(folder).model.size
    classifier = Classifier.from_run(folder)
    if not config.averaged:
        with local_copy(raw) as here:
            load_weights(classifier.model, here, classifier.name)
    return classifier, _load(config.data, size)


def _of_weights(config: EvaluateConfig) -> tuple[Classifier, ImageData]:
    name = str(config.model)
    size = config.image_size or find_model(name).image_size
    data = _load(config.data, size, preprocessing_of(name, size))
    try:
        return (
            Classifier.from_weights(name, str(config.weights), data.class_names, config.image_size),
            data,
        )
    except ValueError as error:
        raise ValueError(f"for the {len(data.class_names)} classes of the data: {error}") from None


def _load(
    config: DataConfig, image_size: int, preprocessing: Preprocessing | None = None
) -> ImageData:
    # Sets like imagenet_v2 have no images to train on; so those of the test stand in for them.
    changes = {"train_split": config.test_split, "batch_size": 1, "augment": False}
    config = config.model_copy(update=changes)
    return load_data(config, image_size, preprocessing=preprocessing)


def _check_classes(classifier: Classifier, data: ImageData) -> None:
    expected, received = list(classifier.class_names), list(data.class_names)
    if len(expected) != len(received):
        raise ValueError(
            f"data: expected images of {len(expected)} classes, as {classifier.name} knows. "
            f"Received: {len(received)} classes ({', '.join(received[:3])}, ...)"
        )
    for number, (own, other) in enumerate(zip(expected, received, strict=True)):
        if own != other:
            raise ValueError(
                f"data: expected the classes of {classifier.name}, of which number {number} is "
                f"{own!r}. Received: {other!r}"
            )
    outputs = classifier.model.output_shape
    if outputs != (None, len(expected)):
        raise ValueError(
            f"expected a model with a classifier of {len(expected)} classes. Received: "
            f"{classifier.name} with outputs of shape {outputs}"
        )


def readable(class_names: Sequence[str]) -> list[str]:
    """Returns the names of classes; words, where they are numbers of ImageNet's."""
    words = dict(imagenet_classes())
    often = Counter(words.values())  # such as crane, the bird and the machine

    def name(number: str) -> str:
        word = words.get(number, number)
        return (f"{word} {number}" if often[word] > 1 else word).replace("_", " ")

    return [name(number) if number in words else number for number in class_names]


def print_tables(result: Evaluation, names: Sequence[str], title: str) -> None:
    """Prints the figures as a whole, and those of each class, or of the worst."""
    table = Table("", Column("", justify="right"), show_header=False)
    table.add_row("top-1 accuracy", f"{result.top1:.4f}")
    if result.top5 is not None:
        table.add_row("top-5 accuracy", f"{result.top5:.4f}")
    table.add_row("cross-entropy loss", f"{result.loss:.4f}")
    table.add_row("images", f"{len(result.labels):,}")
    if result.images_per_second is not None:
        table.add_row("images/s", f"{result.images_per_second:,.0f}")
    console = Console()
    console.print(f"\n{title}", table, *_class_table(result, names), sep="\n", highlight=False)


def _class_table(result: Evaluation, names: Sequence[str]) -> tuple[str, Table]:
    shown = np.arange(len(names))
    title = "Classes"
    if len(names) > WORST:
        f1 = result.by_class[2]
        shown = np.argsort(f1, kind="stable")[:WORST]  # NaN, classes without images, comes last
        title = f"The {WORST} of {len(names)} classes with the lowest F1"
    figures = ("precision", "recall", "F1", "images")
    table = Table("class", *(Column(name, justify="right") for name in figures))
    for number in shown.tolist():
        *parts, count = (column[number] for column in result.by_class)
        cells = ("-" if np.isnan(part) else f"{part:.4f}" for part in parts)
        table.add_row(Text(printable(names[number])), *cells, f"{count:,}")
    return title, table


def write(
    result: Evaluation, names: Sequence[str], title: str, config: EvaluateConfig, folder: Path
) -> None:
    """Writes all figures as JSON, and the picture of what is taken for what.

    Args:
        result: The figures.
        names: Names of the classes.
        title: Head line of the picture.
        config: The settings, for the JSON.
        folder: Folder of both files, made if need be.
    """
    figures = {
        "settings": config.model_dump(mode="json", exclude={"output"}),
        "backend": keras.config.backend(),
        "top1": result.top1,
        "top5": result.top5,
        "loss": result.loss,
        "images": len(result.labels),
        "images_per_second": result.images_per_second,
        "classes": [
            {
                "name": name,
                "precision": _or_none(precision),
                "recall": _or_none(recall),
                "f1": _or_none(f1),
                "images": int(count),
            }
            for name, precision, recall, f1, count in zip(names, *result.by_class, strict=True)
        ],
        "confusions": [
            {"true": names[true], "predicted": names[predicted], "images": count}
            for true, predicted, count in confusions(result.confusion)
        ],
    }
    with atomic_write(folder / RESULTS) as path:
        path.write_text(
            json.dumps(figures, indent=1, allow_nan=False, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    heading = f"{title}: top-1 accuracy {result.top1:.4f} ({len(result.labels):,} images)"
    plot_confusion(result.confusion, readable(names), heading, folder / PICTURE)


def _or_none(figure: float) -> float | None:
    return None if np.isnan(figure) else float(figure)
