"""Exports on disk: location, name, version and runtimes."""

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.errors import needs_extra, printable, refusal, require, shorten
from zoo.export.base import Runtime
from zoo.export.formats import FORMATS
from zoo.files import find_pointer
from zoo.inference.predictions import check_outputs

# An image of one pixel, for warm-up.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Export:
    """An export of `python -m zoo.export`: a folder `NAME/VERSION` or `NAME/FORMAT/VERSION`."""

    folder: Path
    format_name: str

    @property
    def version(self) -> str:
        """Number of the version; 1 if the folder's name is not a number."""
        return self.folder.name if self.folder.name.isdecimal() else "1"

    @property
    def name(self) -> str:
        """Name of the model."""
        folder = self.folder.parent if self.folder.name.isdecimal() else self.folder
        return folder.parent.name if folder.name in FORMATS else folder.name

    def load(self, count: int = 1, threads: int = 0) -> list[Runtime]:
        """Loads runtimes, and runs every signature once, because first calls are slow.

        `count` batches can run at once. All share one SavedModel, with TensorFlow's number of
        threads; runtimes of other formats have `threads` each, 0: one per core.
        """
        form = FORMATS[self.format_name]
        loaded = 1 if form.shared else count
        try:
            with needs_extra(form.extra):
                runtimes = [form.runtime(self.folder, threads) for _ in range(loaded)]
            for runtime in runtimes:
                for signature, (inputs, _) in runtime.signatures().items():
                    examples = {name: _example(*spec) for name, spec in inputs.items()}
                    check_outputs(signature, runtime.run(signature, examples))
        except ImportError:
            raise
        except Exception as error:  # runtimes raise many kinds
            reason = find_pointer(self.folder) or shorten(" ".join(str(error).split()), 300)
            expected = f"export: expected an undamaged {form.title}"
            raise refusal(expected, f"{str(self.folder)!r} ({reason})") from None
        return runtimes * (count // loaded)


def find(path: Path) -> Export:
    """Finds an export in its folder, or the newest version in a folder of versions."""
    folder = Path(os.path.abspath(path))
    require(folder.is_dir(), "export: expected a folder", f"{str(path)!r}, not found")
    below = [child for child in sorted(folder.iterdir()) if child.is_dir()]
    parents = [folder, *below] if not _versions(folder) else [folder]
    exports = [child for child in (folder, *map(_newest, parents)) if child and format_of(child)]
    if len(exports) != 1:
        names = ", ".join(printable(child.relative_to(folder)) for child in exports)
        expected = "export: expected a folder of python -m zoo.export, such as exports/NAME"
        raise refusal(expected, f"{str(path)!r}, with {names or 'no export'}")
    return Export(exports[0], format_of(exports[0]))


def format_of(folder: Path) -> str:
    """Returns the name of the format of an export, or "" for another folder."""
    return next((name for name, form in FORMATS.items() if (folder / form.file).is_file()), "")


def _versions(folder: Path) -> list[Path]:
    return [child for child in folder.iterdir() if child.name.isdecimal() and child.is_dir()]


def _newest(folder: Path) -> Path | None:
    return max(_versions(folder), key=lambda version: int(version.name), default=None)


def _example(dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Returns an input of one image, or of a static batch; sides of any size have 64 pixels."""
    sizes = [abs(shape[0]), *(64 if size < 0 else size for size in shape[1:])]
    return np.full(sizes, PNG, object) if dtype == "string" else np.zeros(sizes, dtype)
