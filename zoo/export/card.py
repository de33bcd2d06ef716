"""What stands beside an export for those who use it: a model card and the names of the classes."""

from collections.abc import Mapping
from pathlib import Path

from lambda_keras.models.specs import STAGES
from zoo import model_card
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.export.saved_model import MAX_MEGAPIXELS, TOP
from zoo.export.verify import Report
from zoo.inference.classifier import Classifier
from zoo.inference.facts import facts_of
from zoo.model_card import megabytes, table, write_labels

CARD = "model_card.md"


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
    space = megabytes(folder)
    write_labels(folder, classifier.class_names)
    facts = {
        "Format": f"{FORMATS[format_name].title}, {quantize or 'float32'}, {space:.1f} MB",
        **origin,
        **facts_of(classifier, "the model itself"),
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
