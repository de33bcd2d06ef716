"""Asks an export, in a new process that has nothing of this project."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from zoo.inference import runtimes

Arrays = Mapping[str, np.ndarray]


def ask(
    format_name: str, folder: Path, questions: Mapping[str, Arrays]
) -> dict[str, dict[str, np.ndarray]]:
    """Asks an export in a new process, which has its runtime and NumPy only.

    Questions are named inputs, and answers named outputs, by signature.

    Raises:
        ValueError: If it does not work there.
    """
    with tempfile.TemporaryDirectory() as scratch:
        asked, answered = Path(scratch, "questions"), Path(scratch, "answers")
        asked.mkdir()
        answered.mkdir()
        for signature, arrays in questions.items():
            np.savez(asked / f"{signature}.npz", **arrays)  # pyright: ignore[reportArgumentType]
        script = [str(runtimes.__file__), format_name, str(folder), str(asked), str(answered)]
        # -P: the script's folder is not searched for modules, so none of ours can slip in.
        process = subprocess.run([sys.executable, "-P", *script], capture_output=True, text=True)
        if process.returncode:
            raise ValueError(
                "the export does not work with the runtime of its format alone: "
                f"{process.stderr.strip()}"
            )
        answers = {}
        for signature in questions:
            with np.load(answered / f"{signature}.npz", allow_pickle=False) as file:
                answers[signature] = dict(file)
        return answers
