"""Exports: the next version is written beside, checked, and only then put in its place."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from zoo.errors import printable
from zoo.export import card, verify
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.export.verify import Photographs, Report
from zoo.files import next_version, remove
from zoo.inference.classifier import Classifier
from zoo.model_card import megabytes

Writer = Callable[[Classifier, Path], None]


def export(
    classifier: Classifier,
    origin: Mapping[str, str],
    photographs: Photographs,
    output: Path,
    format_name: str,
    writers: Mapping[str, Writer],
    quantize: str | None = None,
) -> Path:
    """Exports a model and prints how far its answers are from Keras'.

    Args:
        classifier: What to export.
        origin: What the model card says about weights and training.
        photographs: What to compare about.
        output: Folder of all exports.
        format_name: One of `FORMATS`.
        writers: What `find_writers` returns for it.
        quantize: How weights are rounded, "float16" or "int8". Defaults to None: they are not.

    Returns:
        The new folder: `output/NAME/VERSION` of a SavedModel, `output/NAME/FORMAT/VERSION` of
        other formats.

    Raises:
        ValueError: If the export answers otherwise than Keras.
    """
    parent = output / classifier.name
    if format_name != SAVED_MODEL:
        parent /= format_name
    with next_version(parent) as (folder, beside):
        report = _write(classifier, format_name, beside, writers, quantize, photographs)
        card.write(classifier, origin, beside, format_name, quantize, report)
    print(f"exported to {printable(folder)}, {megabytes(folder):.1f} MB")
    if report.accuracy is not None:
        print(
            f"test accuracy {report.accuracy:.4f} ({report.photographs} held-out images, "
            f"exported {FORMATS[format_name].title})",
            flush=True,
        )
    return folder


def find_writers(
    format_name: str, quantize: str | None = None, calibration: Sequence[Path] = ()
) -> dict[str, Writer]:
    """Returns what writes a format, by title, the fastest first.

    Args:
        format_name: One of `FORMATS`.
        quantize: "float16" or "int8", for LiteRT. Defaults to None.
        calibration: Photographs, for "int8".

    Raises:
        ImportError: If a package of the format is not installed.
    """
    title = FORMATS[format_name].title
    write = importlib.import_module(f"zoo.export.{format_name}").write
    if format_name == "litert":
        write = partial(write, quantize=quantize, photographs=calibration)
    writers: dict[str, Writer] = {title: write}
    if format_name == SAVED_MODEL:
        writers[f"{title} with variables"] = partial(write, fold=False)
    return writers


def _write(
    classifier: Classifier,
    format_name: str,
    folder: Path,
    writers: Mapping[str, Writer],
    quantize: str | None,
    photographs: Photographs,
) -> Report:
    """Writes an export that answers like Keras, and tells how nearly it does."""
    count, different = len(photographs.images), ""
    bound = verify.MAX_DIFFERENCE[quantize]
    for title, write in writers.items():
        remove(folder)
        folder.mkdir()
        print(f"writing {classifier.name} as {title}", flush=True)
        write(classifier, folder)
        print(f"asking it and Keras about {count} photographs", flush=True)
        report = verify.check(classifier, format_name, folder, photographs)
        for signature, difference in report.differences.items():
            print(f"  {signature}: largest difference from Keras {difference:.1e}")
        print(f"  the same most probable class for {report.agreement:.1%}", flush=True)
        signature, difference = max(report.differences.items(), key=lambda item: item[1])
        if difference <= bound:
            return report
        different = f"{difference:.1e} in {signature}, more than {bound:.0e}"
        print(f"  differs by {different}", flush=True)
    raise ValueError(f"the export differs from Keras by {different}; it was removed")
