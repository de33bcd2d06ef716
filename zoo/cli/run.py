"""Start, errors and exit codes of every command."""

import os
import platform
import sys
from collections.abc import Callable, Sequence

from zoo.errors import install, printable, shortened

BACKENDS = ("tensorflow", "jax", "torch")


def run_command(
    command: Callable[[Sequence[str]], None], backends: Sequence[str] = BACKENDS[:1]
) -> None:
    """Runs a command with the arguments of this process.

    Bad input (`ValueError`), files that cannot be read or written (`OSError`) and missing packages
    end it with one line and exit code 2, Ctrl-C with one line and 130; any other error is a fault
    of the program and keeps its traceback.

    Args:
        command: Takes the command line arguments without the program's name.
        backends: Keras backends that the command runs on. Defaults to TensorFlow alone.
    """
    # TensorFlow reads it once, at its import. Level E has errors of CUDA on machines without a GPU;
    # what goes wrong in a command comes as a Python exception.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    use_onednn()
    try:
        _check_backend(backends)
        command(sys.argv[1:])
    except (ValueError, OSError, ImportError) as error:
        message = str(error)
        if isinstance(error, ModuleNotFoundError):  # the others name their extra where they miss it
            extra = error.name if error.name in BACKENDS[1:] else "train"
            message = f"{error.name} is not installed: {install(extra)}"
        print(f"error: {shortened(printable(' '.join(message.split())))}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def use_backend(name: str) -> None:
    """Makes Keras, which nothing may have imported yet, use a backend in place of KERAS_BACKEND."""
    keras = sys.modules.get("keras")
    if keras is not None and keras.config.backend() != name:
        raise RuntimeError(f"Keras already runs on {keras.config.backend()}, not on {name}")
    os.environ["KERAS_BACKEND"] = name


def use_default_backend(allowed: Sequence[str]) -> None:
    """Makes Keras use TensorFlow, unless KERAS_BACKEND says another, or Keras is imported already.

    Raises:
        ValueError: If it is none of those allowed.
    """
    keras = sys.modules.get("keras")
    if keras is None:
        _check_backend(allowed)
        use_onednn()
    elif keras.config.backend() not in allowed:
        raise ValueError(
            f"expected Keras on {' or '.join(allowed)} (KERAS_BACKEND, before its import). "
            f"Received: {keras.config.backend()!r}"
        )


def use_onednn() -> None:
    """Makes TensorFlow, which nothing may have imported yet, compute with oneDNN.

    On its own it does so on processors with AVX-512 alone. Those with AVX2 gain, too: see
    docs/performance.md. What TF_ENABLE_ONEDNN_OPTS says stays.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def _check_backend(allowed: Sequence[str]) -> None:
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend not in allowed:
        raise ValueError(
            f"expected KERAS_BACKEND to be {' or '.join(allowed)}. Received: {backend!r}"
        )
