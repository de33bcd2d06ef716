"""Runs an export in a process that has only the runtime of its format and NumPy.

`python -P runtimes.py FORMAT.py FOLDER INPUTS OUTPUTS`: FORMAT.py is the file of a format, INPUTS a
folder with named inputs in `SIGNATURE.npz` for each signature to run, and OUTPUTS the folder for
named outputs in the same form. Nothing of this project is imported there.
"""

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH_SIZE = 32
# Modules that cannot be imported; nor can TensorFlow, except for a SavedModel. TensorFlow imports
# Keras wherever it is installed.
FORBIDDEN = ("keras", "tf_keras", "lambda_keras", "zoo")
Arrays = Mapping[str, np.ndarray]


def run(
    format_name: str, folder: Path, inputs: Mapping[str, Arrays]
) -> dict[str, dict[str, np.ndarray]]:
    """Runs an export in a new process, with its runtime and NumPy only.

    Args:
        format_name: One of `zoo.export.formats.FORMATS`.
        folder: Folder of the export.
        inputs: Named inputs, by signature.

    Returns:
        Named outputs, by signature.

    Raises:
        ValueError: If the export fails there.
    """
    with tempfile.TemporaryDirectory() as scratch:
        given, written = Path(scratch, "inputs"), Path(scratch, "outputs")
        given.mkdir()
        written.mkdir()
        for signature, arrays in inputs.items():
            np.savez(given / f"{signature}.npz", **arrays)  # pyright: ignore[reportArgumentType]
        form = Path(__file__).with_name(f"{format_name}.py")
        # -P keeps the script's folder, and so this project, off the module path.
        script = [__file__, *map(str, (form, folder, given, written))]
        process = subprocess.run([sys.executable, "-P", *script], capture_output=True, text=True)
        if process.returncode:
            raise ValueError(
                "the export does not work with the runtime of its format alone: "
                f"{process.stderr.strip()}"
            )
        outputs = {}
        for signature in inputs:
            with np.load(written / f"{signature}.npz", allow_pickle=False) as file:
                outputs[signature] = dict(file)
        return outputs


def main(form: str, folder: str, given: str, written: str) -> None:
    """Runs every signature that has inputs, in batches."""
    path = Path(form)
    forbidden = FORBIDDEN if path.stem == "saved_model" else (*FORBIDDEN, "tensorflow")
    for name in forbidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    spec: Any = importlib.util.spec_from_file_location("format", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    runtime = module.Runtime(Path(folder))
    for inputs in sorted(Path(given).glob("*.npz")):
        with np.load(inputs, allow_pickle=False) as file:
            outputs = _in_batches(runtime, inputs.stem, dict(file))
        np.savez(Path(written) / inputs.name, **outputs)
    imported = [name for name in forbidden if sys.modules.get(name) is not None]
    if imported:
        sys.exit(f"expected a process without {', '.join(forbidden)}. Received: {imported}")


def _in_batches(runtime: Any, signature: str, inputs: Arrays) -> dict[str, Any]:
    count = len(next(iter(inputs.values())))
    batches = [
        runtime.run(signature, {name: array[i : i + BATCH_SIZE] for name, array in inputs.items()})
        for i in range(0, count, BATCH_SIZE)
    ]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
