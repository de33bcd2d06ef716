"""How every command of the zoo starts and fails."""

import os
import sys
from collections.abc import Callable, Sequence


def run(command: Callable[[Sequence[str]], None]) -> None:
    """Runs a command with the arguments of this process.

    Bad input (`ValueError`), missing files and missing packages end it with one line and exit
    code 2; any other error is a fault of the program and keeps its traceback.

    Args:
        command: Takes the command line arguments without the program's name.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no notes on CPU features
    try:
        _choose_backend()
        command(sys.argv[1:])
    except (ValueError, FileNotFoundError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _choose_backend() -> None:
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise ValueError(f"expected KERAS_BACKEND to be tensorflow. Received: {backend!r}")
