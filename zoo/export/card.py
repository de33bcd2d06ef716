"""What stands beside an export for those who use it: a model card and the names of the classes."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from lambda_keras.models.specs import STAGES
from lambda_keras.weights.hub import sha256
from lambda_keras.weights.published import find_published, is_published_name
from zoo import model_card, run_folder
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.export.saved_model import MAX_MEGAPIXELS, TOP
from zoo.export.verify import Report
from zoo.inference.classifier import Classifier
from zoo.model_card import megabytes, table

CARD, LABELS = "model_card.md", "labels.txt"
LICENSE = "code Apache-2.0; weights as their author says, who may be bound by the training images'"


def write(
    classifier: Classifier,
    origin: Mapping[str, str],
    folder: Path,
    format_name: str,
    quantize: str | None,
    report: Report,
) -> None:
    """Writes `model_card.md` and `labels.txt` beside an export.

    `origin` is what is known about weights and training, `report` how the export answers.
    """
    seen, size, space = classifier.preprocessing, classifier.image_size, megabytes(folder)
    labels = "".join(f"{name}\n" for name in classifier.class_names)
    (folder / LABELS).write_text(labels, encoding="utf-8")
    facts = {
        "Format": f"{FORMATS[format_name].title}, {quantize or 'float32'}, {space:.1f} MB",
        **origin,
        "Preprocessing": f"shorter side resized to {seen.shorter_side} pixels, "
        f"{seen.interpolation}, antialiased; central square of {size} x {size} pixels",
        "Images": f"RGB in [0, 255], {size} x {size} pixels; the model "
        f"itself normalises them, by the means {seen.mean} and deviations {seen.std} of [0, 1]",
        "Classes": f"{len(classifier.class_names):,}, in the order of {LABELS}",
        "Parameters": f"{classifier.model.count_params():,}",
        "Written with": ", ".join(
            [
                *(f"{name} {version(name)}" for name in ("lambda_keras", "keras", "tensorflow")),
                f"Python {platform.python_version()}",
            ]
        ),
    }
    sections = {
        "Inputs and outputs": _signatures(classifier, format_name),
        "Use": FORMATS[format_name].use.format(name=classifier.name),
        "Compared with Keras": _compared(report),
    }
    model_card.write(folder / CARD, classifier.name, facts, sections)


def _signatures(classifier: Classifier, format_name: str) -> str:
    size, classes = classifier.image_size, len(classifier.class_names)
    images = f"`images` float32 (batch, {size}, {size}, 3)"
    probabilities = f"`probabilities` float32 (batch, {classes})"
    rows = [("serving_default", images, probabilities)]
    if format_name != SAVED_MODEL:
        return table(("input", "output"), [row[1:] for row in rows])
    top = min(TOP, classes)
    of_top = ("`classes` int32", "`labels` string", "`scores` float32")
    shapes = {name: classifier.model.get_layer(name).output.shape[1:] for name in STAGES}
    maps = (f"`{name}` float32 (batch, {h}, {w}, {c})" for name, (h, w, c) in shapes.items())
    rows += [
        ("images_uint8", images.replace("float32", "uint8"), probabilities),
        (
            "image_bytes",
            f"`image_bytes` string (batch,), JPEG or PNG files of at most {MAX_MEGAPIXELS} "
            "megapixels",
            ", ".join(f"{output} (batch, {top})" for output in of_top),
        ),
        ("features", images, ", ".join(maps)),
    ]
    return (
        table(("signature", "inputs", "outputs"), rows)
        + "\n\n`image_bytes` turns photographs upright by EXIF, and lays transparent ones on white."
    )


def _compared(report: Report) -> str:
    rows = ((name, f"{value:.1e}") for name, value in report.differences.items())
    text = (
        f"A process without Keras answered about {report.photographs} photographs; the most "
        f"probable class was Keras' for {report.agreement:.1%} of them."
    )
    if report.accuracy is not None:
        text += f" Of these held-out images {report.accuracy:.4f} were classified rightly."
    return f"{text}\n\n{table(('signature', 'largest difference'), rows)}"


def origin_of_run(folder: Path) -> dict[str, str]:
    """Returns what a card says about the weights of a finished run, averages if it made them."""
    config = run_folder.load_config(folder)
    metrics = run_folder.load_metrics(folder)
    decay = config.training.ema
    kind = "not averaged" if decay is None else f"moving averages, decay {decay}"
    data = " ".join(filter(None, (config.data.source, config.data.name)))
    return {
        "Weights": f"run {folder.resolve().name}, {kind}",
        "Keras model": f"{run_folder.MODEL} of the run; `import lambda_keras` comes before "
        "`keras.models.load_model`",
        "Trained on": f"{data}, {metrics.training_images:,} images, "
        f"{config.training.epochs} epochs",
        "Test accuracy": f"{metrics.test.accuracy:.4f} ({metrics.test_images:,} images)",
        "License": LICENSE,
    }


def origin_of_weights(name: str, weights: str) -> dict[str, str]:
    """Returns what a card says about weights: "imagenet", a file, or a place on the hub."""
    if is_published_name(weights):
        published = find_published(name, weights)
        return {
            "Weights": f"{published.page}, {published.revision}",
            "Published accuracy": f"{published.top1} % on ImageNet, "
            f"{published.image_size} x {published.image_size} pixels",
            "License": published.license,
        }
    if weights.startswith("hf://"):
        return {"Weights": weights, "License": LICENSE}
    path = Path(weights)
    return {"Weights": f"{path.name}, SHA-256 {sha256(path)}", "License": LICENSE}
