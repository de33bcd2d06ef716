"""Start, errors and exit codes of all commands."""

import logging
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

from zoo.errors import install, printable, shorten

BACKENDS = ("tensorflow", "jax", "torch")
_process: int | None = None  # process that runs networks; its forks cannot


def run_command(
    command: Callable[[Sequence[str]], Any], backends: Sequence[str] = BACKENDS
) -> None:
    """Runs a command, which supports some backends of Keras, with the arguments of this process.

    Bad input (`ValueError`), files that cannot be read or written (`OSError`) and missing packages
    end the process with one line and exit code 2, Ctrl-C with one line and 130. Any other error is
    a bug and keeps its traceback.
    """
    # TensorFlow reads the level once, at its import. Its log has errors about CUDA on machines
    # without a GPU; errors of a command are Python exceptions.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
        # The libraries' loggers in Python; without a handler they would make ones for warnings.
        errors = logging.StreamHandler()
        errors.setLevel(logging.ERROR)
        logging.basicConfig(handlers=[errors])
    try:
        use_default_backend(backends)
        command(sys.argv[1:])
    except (ValueError, OSError, ImportError) as error:
        message = str(error)
        if isinstance(error, ModuleNotFoundError):  # other errors name their extra
            extra = error.name if error.name in BACKENDS[1:] else "train"
            message = f"{error.name} is not installed: {install(extra)}"
        line = printable(" ".join(message.split()))
        print(f"error: {shorten(line)}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def use_backend(name: str) -> None:
    """Sets the backend in place of KERAS_BACKEND; Keras must not be imported yet."""
    keras = sys.modules.get("keras")
    if keras is not None and keras.config.backend() != name:
        raise RuntimeError(f"Keras already runs on {keras.config.backend()}, not on {name}")
    os.environ["KERAS_BACKEND"] = name


def use_default_backend(allowed: Sequence[str]) -> None:
    """Uses TensorFlow, unless KERAS_BACKEND or an imported Keras has another allowed backend."""
    check_process()
    use_onednn()
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if keras := sys.modules.get("keras"):
        backend = keras.config.backend()
    if backend not in allowed:
        raise ValueError(
            f"expected Keras on {' or '.join(allowed)} (KERAS_BACKEND, before its import). "
            f"Received: {backend!r}"
        )


def check_process() -> None:
    """Raises RuntimeError in a fork of a process that has called this, where TensorFlow hangs."""
    global _process
    if _process not in (None, os.getpid()):
        raise RuntimeError(
            "load in the worker, after the fork (gunicorn without --preload), or start workers by "
            "'spawn': TensorFlow hangs in forks of a process that uses it. Received: a fork of "
            f"process {_process}, which has loaded a network or images"
        )
    _process = os.getpid()


def use_onednn() -> None:
    """Turns oneDNN on before TensorFlow's import, unless TF_ENABLE_ONEDNN_OPTS is set.

    TensorFlow's default is on with AVX-512 alone, but AVX2 gains, too: see docs/performance.md.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
