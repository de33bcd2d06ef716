"""The model card and the class names of an export."""

from collections.abc import Mapping
from pathlib import Path

from zoo import model_card
from zoo.export.formats import FORMATS
from zoo.export.signatures import SIGNATURES
from zoo.export.verify import Comparison
from zoo.inference.card import classifier_fields
from zoo.inference.classifier import Classifier
from zoo.model_card import megabytes, table, write_labels

CARD = "model_card.md"


def write(
    classifier: Classifier,
    origin: Mapping[str, str],
    folder: Path,
    format_name: str,
    quantize: str | None,
    comparison: Comparison,
) -> None:
    """Writes `model_card.md` and `labels.txt` to the folder of an export.

    `origin` has the card fields about weights and training.
    """
    form, space = FORMATS[format_name], megabytes(folder)
    write_labels(folder, classifier.class_names)
    fields = {
        "Format": f"{form.TITLE}, {quantize or 'float32'}, {space:.1f} MB",
        **origin,
        **classifier_fields(classifier, "the model itself"),
    }
    rows = [(name, *SIGNATURES[name].card(classifier)) for name in form.SIGNATURES]
    sections = {
        "Inputs and outputs": table(("signature", "inputs", "outputs"), rows),
        "Use": form.USE.format(name=classifier.name),
        "Compared with Keras": _compared(comparison),
    }
    model_card.write(folder / CARD, classifier.name, fields, sections)


def _compared(comparison: Comparison) -> str:
    rows = ((name, f"{value:.1e}") for name, value in comparison.differences.items())
    text = (
        f"Run on {comparison.images} images in a process without Keras; the most probable class "
        f"was Keras' for {comparison.agreement:.1%} of them."
    )
    if comparison.accuracy is not None:
        text += f" Its accuracy on these held-out images is {comparison.accuracy:.4f}."
    return f"{text}\n\n{table(('signature', 'largest difference'), rows)}"
