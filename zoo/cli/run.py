"""Start, errors and exit codes of all commands."""

import logging
import os
import sys
from collections.abc import Callable, Sequence

from zoo.backend import BACKENDS, use_default_backend
from zoo.errors import install, printable, shorten
from zoo.files import BUCKETS


def run_command(command: Callable[[Sequence[str]], object]) -> None:
    """Runs a command with the arguments of this process.

    Bad input (`ValueError`), files that cannot be read or written (`OSError`, errors of a bucket)
    and missing packages end the process with one line and exit code 2, Ctrl-C with one line and
    130. Any other error is a bug and keeps its traceback.
    """
    # TensorFlow reads the level once, at its import. Its log has errors about CUDA on machines
    # without a GPU; errors of a command are Python exceptions.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
        # Without a handler, the Python loggers of libraries would add one that prints warnings.
        errors = logging.StreamHandler()
        errors.setLevel(logging.ERROR)
        logging.basicConfig(handlers=[errors])
    try:
        use_default_backend(BACKENDS)
        command(sys.argv[1:])
    except Exception as error:
        message = str(error)
        # The client of buckets has its own types; its messages end with the name of an object.
        from_bucket = "tensorflow" in type(error).__module__ and BUCKETS[0] in message
        if not from_bucket and not isinstance(error, ValueError | OSError | ImportError):
            raise
        if isinstance(error, ModuleNotFoundError):  # other errors name their extra
            extra = error.name if error.name in BACKENDS[1:] else "train"
            message = f"{error.name} is not installed: {install(extra)}"
        print(f"error: {shorten(printable(' '.join(message.split())))}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
