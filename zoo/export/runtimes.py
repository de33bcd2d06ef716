"""Runs an export in a process that has only the runtime of its format and NumPy.

`python -P runtimes.py FORMAT.py FOLDER ARRAYS BATCH [FRAMEWORK]...`: FORMAT.py is the file of a
format, FOLDER the export, and BATCH the number of images of every call, or 0 for any. The folder
ARRAYS has a file `SIGNATURE.npz` of named inputs for each signature to run; named outputs replace
them. A framework that is not named cannot be imported. Of this project, the process imports only
`base.py`, which formats need.
"""

import ctypes
import importlib.util
import inspect
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH_SIZE = 32
# TensorFlow would import Keras wherever it is installed.
FORBIDDEN = ("keras", "tf_keras", "lambda_keras", "zoo", "tensorflow")
Arrays = Mapping[str, np.ndarray]


def run(
    format_name: str, folder: Path, inputs: Mapping[str, Arrays], batch_size: int | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """Runs an export in a new process, with its runtime and NumPy only.

    Inputs and outputs are named arrays by signature. Every call has `batch_size` images; None: any
    number. Raises `ValueError` if the export fails.
    """
    from zoo.export.formats import FORMATS  # the process has no formats but its own

    with tempfile.TemporaryDirectory() as scratch:
        files = {signature: Path(scratch, f"{signature}.npz") for signature in inputs}
        for signature, arrays in inputs.items():
            np.savez(files[signature], **arrays)  # pyright: ignore[reportArgumentType]
        form = FORMATS[format_name]
        # -P keeps the script's folder, and so this project, off the module path.
        script = [sys.executable, "-P", __file__, inspect.getfile(type(form)), str(folder), scratch]
        script += [str(batch_size or 0), *form.frameworks]
        process = subprocess.run(script, capture_output=True, text=True)
        if process.returncode:
            where = "with the runtime of its format alone"
            raise ValueError(f"the export does not work {where}: {process.stderr.strip()}")
        return {signature: _read(file) for signature, file in files.items()}


def _read(file: Path) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def end_with_parent() -> None:
    """Ends this process when the thread that started it ends, even if killed (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main(form: str, folder: str, arrays: str, batch_size: str, *allowed: str) -> None:
    """Runs every signature that has inputs, in batches."""
    end_with_parent()
    forbidden = [name for name in FORBIDDEN if name not in allowed]
    for name in forbidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    _load("zoo.export.base", Path(__file__).with_name("base.py"))
    runtime = _load("format", Path(form)).Runtime(Path(folder))
    for file in sorted(Path(arrays).glob("*.npz")):
        np.savez(file, **in_batches(runtime, file.stem, _read(file), int(batch_size)))
    imported = [name for name in forbidden if sys.modules.get(name) is not None]
    if imported:
        sys.exit(f"expected a process without {', '.join(forbidden)}. Received: {imported}")


def _load(name: str, path: Path) -> Any:  # a module
    spec: Any = importlib.util.spec_from_file_location(name, path)
    # Imports find the module by its full name, and do not import its parent packages.
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_batches(runtime: Any, signature: str, inputs: Arrays, fixed: int) -> dict[str, Any]:
    """Runs a signature on images of any number, in batches of `fixed` images if it is not 0."""
    count, size = len(next(iter(inputs.values()))), fixed or BATCH_SIZE
    if fixed:  # the first images fill the last batch
        inputs = {
            n: np.resize(a, (-(-count // size) * size, *a.shape[1:])) for n, a in inputs.items()
        }
    batches = [
        runtime.run(signature, {name: array[i : i + size] for name, array in inputs.items()})
        for i in range(0, count, size)
    ]
    return {name: np.concatenate([batch[name] for batch in batches])[:count] for name in batches[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
