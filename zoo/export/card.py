"""What stands beside an export for those who use it: a model card and the names of the classes."""

import platform
from importlib.metadata import version
from pathlib import Path

from lambda_keras.applications.preprocessing import MEAN, STD
from lambda_keras.models.specs import STAGES
from zoo import model_card
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.export.saved_model import MAX_MEGAPIXELS, TOP
from zoo.export.servable import Servable
from zoo.export.verify import Report
from zoo.model_card import megabytes, table

CARD, LABELS = "model_card.md", "labels.txt"


def write(
    servable: Servable, folder: Path, format_name: str, quantize: str | None, report: Report
) -> None:
    """Writes `model_card.md` and `labels.txt` beside an export.

    Args:
        servable: What was exported.
        folder: The export.
        format_name: One of `FORMATS`.
        quantize: How weights are rounded, or None.
        report: How it answers.
    """
    size = megabytes(folder)
    labels = "".join(f"{name}\n" for name in servable.class_names)
    (folder / LABELS).write_text(labels, encoding="utf-8")
    facts = {
        "Format": f"{FORMATS[format_name].title}, {quantize or 'float32'}, {size:.1f} MB",
        **servable.origin,
        "Images": f"RGB in [0, 255], {servable.image_size} x {servable.image_size} pixels; the "
        f"model itself normalises them, by the means {MEAN} and deviations {STD} of [0, 1]",
        "Classes": f"{len(servable.class_names):,}, in the order of {LABELS}",
        "Parameters": f"{servable.model.count_params():,}",
        "Written with": ", ".join(
            [
                *(f"{name} {version(name)}" for name in ("lambda_keras", "keras", "tensorflow")),
                f"Python {platform.python_version()}",
            ]
        ),
    }
    sections = {
        "Inputs and outputs": _signatures(servable, format_name),
        "Use": FORMATS[format_name].use.format(name=servable.name),
        "Compared with Keras": _compared(report),
    }
    model_card.write(folder / CARD, servable.name, facts, sections)


def _signatures(servable: Servable, format_name: str) -> str:
    size, classes = servable.image_size, len(servable.class_names)
    images = f"`images` float32 (batch, {size}, {size}, 3)"
    probabilities = f"`probabilities` float32 (batch, {classes})"
    rows = [("serving_default", images, probabilities)]
    if format_name != SAVED_MODEL:
        return table(("input", "output"), [row[1:] for row in rows])
    top = min(TOP, classes)
    of_top = ("`classes` int32", "`labels` string", "`scores` float32")
    shapes = {name: servable.model.get_layer(name).output.shape[1:] for name in STAGES}
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
        + "\n\n`image_bytes` sees photographs as stored: an orientation in EXIF is not looked at."
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
