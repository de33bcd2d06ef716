"""The backend of Keras, chosen before its import."""

import os
import platform
import sys
from collections.abc import Sequence

BACKENDS = ("tensorflow", "jax", "torch")
_process: int | None = None  # process that runs networks; its forks cannot


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
