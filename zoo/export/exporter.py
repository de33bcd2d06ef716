"""Exports: the next version is written beside, checked, and only then put in its place."""

import fcntl
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from zoo import model_card
from zoo.errors import printable
from zoo.export import verify
from zoo.export.__main__ import ExportConfig
from zoo.export.servable import Servable
from zoo.export.verify import Photographs, Report
from zoo.files import atomic_write, remove, remove_partial
from zoo.inference.photos import find_photos

Writer = Callable[[Servable, Path], None]


def export(config: ExportConfig) -> Path:
    """Exports a model and prints how far its answers are from Keras'.

    Args:
        config: All settings.

    Returns:
        The new folder: `output/NAME/VERSION` of a SavedModel, `output/NAME/FORMAT/VERSION` of
        other formats.

    Raises:
        ValueError: If there is no such model, or weights, labels, output or calibration do not
            fit, or the export answers otherwise than Keras.
    """
    writers, limit = _writers(config)
    servable = _servable(config)
    photographs = (
        Photographs.held_out(config.run, servable)
        if config.run is not None
        else Photographs.samples(servable)
    )
    parent = config.output / servable.name
    if config.format != "saved_model":
        parent /= config.format
    with _next_version(parent) as (folder, beside):
        report = _write(servable, config.format, beside, writers, limit, photographs)
        model_card.write(servable, beside, config.format, config.quantization, report)
    print(f"exported to {printable(folder)}, {model_card.megabytes(folder):.1f} MB")
    if report.accuracy is not None:
        print(
            f"test accuracy {report.accuracy:.4f} ({report.photographs} held-out images, "
            f"exported {model_card.TITLES[config.format]})",
            flush=True,
        )
    return folder


def _writers(config: ExportConfig) -> tuple[dict[str, Writer], float | None]:
    """Returns what writes the format, the fastest first, and the allowed difference, if any."""
    title = model_card.TITLES[config.format]
    if config.format == "litert":
        from zoo.export import litert

        photographs = find_photos([str(config.calibration)]) if config.calibration else ()
        write = partial(litert.write, quantize=config.quantization, photographs=photographs)
        return {title: write}, litert.MAX_DIFFERENCE[config.quantization]
    write = importlib.import_module(f"zoo.export.{config.format}").write
    writers: dict[str, Writer] = {title: write}
    if config.format == "saved_model":
        writers[f"{title} with variables"] = partial(write, fold=False)
    return writers, verify.MAX_DIFFERENCE


def _servable(config: ExportConfig) -> Servable:
    if config.run is not None:
        return Servable.from_run(config.run)
    return Servable.from_weights(
        str(config.model), str(config.weights), config.class_names, config.image_size
    )


def _write(
    servable: Servable,
    format_name: str,
    folder: Path,
    writers: Mapping[str, Writer],
    limit: float | None,
    photographs: Photographs,
) -> Report:
    """Writes an export that answers like Keras, and tells how nearly it does."""
    count, different = len(photographs.images), ""
    bound = np.finfo(float).max if limit is None else limit
    for title, write in writers.items():
        remove(folder)
        folder.mkdir()
        print(f"writing {servable.name} as {title}", flush=True)
        write(servable, folder)
        print(f"asking it and Keras about {count} photographs", flush=True)
        report = verify.check(servable, format_name, folder, photographs)
        for signature, difference in report.differences.items():
            print(f"  {signature}: largest difference from Keras {difference:.1e}")
        print(f"  the same most probable class for {report.agreement:.1%}", flush=True)
        signature, difference = max(report.differences.items(), key=lambda item: item[1])
        if difference <= bound:
            return report
        different = f"{difference:.1e} in {signature}, more than {bound:.0e}"
        print(f"  differs by {different}", flush=True)
    raise ValueError(f"the export differs from Keras by {different}; it was removed")


@contextmanager
def _next_version(parent: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the folder of a version that no other process writes, and where to write it first."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_partial(parent)
    with ExitStack() as writing:
        lock = os.open(parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            # What others are writing ends with the number of its version, too.
            versions = [path.name.rpartition("-")[2] for path in parent.iterdir()]
            last = max((int(name) for name in versions if name.isdecimal()), default=0)
            folder = parent / str(last + 1)
            beside = writing.enter_context(atomic_write(folder))
        finally:
            os.close(lock)
        yield folder, beside
