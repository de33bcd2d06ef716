"""Versioned exports: a new version is written, checked, and only then renamed into place."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.errors import printable
from zoo.export import card, verify
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.export.signatures import Examples
from zoo.export.verify import Comparison
from zoo.files import next_version, remove
from zoo.inference.classifier import Classifier
from zoo.model_card import megabytes


def export(
    classifier: Classifier,
    origin: Mapping[str, str],
    examples: Examples,
    output: Path,
    format_name: str,
    quantize: str | None = None,
    calibration: Sequence[Path] = (),
) -> Path:
    """Exports a classifier, and prints the largest differences of its outputs from Keras.

    Args:
        classifier: Classifier to export.
        origin: Card fields about weights and training.
        examples: Images on which the export is compared with Keras.
        output: Folder of all exports.
        format_name: One of `FORMATS`.
        quantize: One of the format's `QUANTIZATIONS`. Defaults to None: weights are not quantized.
        calibration: Image files for "int8".

    Returns:
        The new folder: `output/NAME/VERSION` of a SavedModel, `output/NAME/FORMAT/VERSION` of
        other formats.

    Raises:
        ValueError: If the export differs from Keras.
    """
    parent = output / classifier.name
    if format_name != SAVED_MODEL:
        parent /= format_name
    options = {"quantize": quantize, "calibration": calibration} if quantize else {}
    with next_version(parent) as (folder, beside):
        comparison = _write(classifier, format_name, beside, options, examples)
        card.write(classifier, origin, beside, format_name, quantize, comparison)
    print(f"exported to {printable(folder)}, {megabytes(folder):.1f} MB")
    if comparison.accuracy is not None:
        print(
            f"test accuracy {comparison.accuracy:.4f} ({comparison.images} held-out images, "
            f"exported {FORMATS[format_name].TITLE})",
            flush=True,
        )
    return folder


def _write(
    classifier: Classifier,
    format_name: str,
    folder: Path,
    options: Mapping,
    examples: Examples,
) -> Comparison:
    """Writes an export in the first of the format's `WAYS` whose outputs equal Keras'."""
    form, different = FORMATS[format_name], ""
    bound = verify.MAX_DIFFERENCE[options.get("quantize")]
    for title, way in form.WAYS.items():
        remove(folder)
        folder.mkdir()
        print(f"writing {classifier.name} as {title}", flush=True)
        form.write(classifier, folder, **way, **options)
        print(f"comparing it with Keras on {len(examples.images)} images", flush=True)
        comparison = verify.compare(classifier, format_name, folder, examples)
        for signature, difference in comparison.differences.items():
            print(f"  {signature}: largest difference from Keras {difference:.1e}")
        print(f"  the same most probable class for {comparison.agreement:.1%}", flush=True)
        signature, difference = max(comparison.differences.items(), key=lambda item: item[1])
        if difference <= bound:
            return comparison
        different = f"{difference:.1e} in {signature}, more than {bound:.0e}"
        print(f"  differs by {different}", flush=True)
    raise ValueError(f"the export differs from Keras by {different}; it was removed")
