"""The backend of Keras, chosen before its import, and the CPU cores for it."""

import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoo.errors import require

BACKENDS = ("tensorflow", "jax", "torch")
_process: int | None = None  # process that runs networks; its forks cannot


def use_backend(name: str, modules: Mapping[str, Any] = sys.modules) -> None:
    """Sets the backend in place of KERAS_BACKEND; Keras must not be among the imported modules."""
    keras = modules.get("keras")
    if keras is not None and keras.config.backend() != name:
        raise RuntimeError(f"Keras already runs on {keras.config.backend()}, not on {name}")
    os.environ["KERAS_BACKEND"] = name


def use_default_backend(allowed: Sequence[str], modules: Mapping[str, Any] = sys.modules) -> None:
    """Uses TensorFlow, unless KERAS_BACKEND or an imported Keras has another allowed backend."""
    check_process()
    use_onednn()
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if keras := modules.get("keras"):
        backend = keras.config.backend()
    expected = f"expected Keras on {' or '.join(allowed)} (KERAS_BACKEND, before its import)"
    require(backend in allowed, expected, repr(backend))


def check_process() -> None:
    """Raises RuntimeError in forks of a process that has called this: TensorFlow hangs there."""
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


def schedulable_cores() -> int:
    """Returns the number of CPU cores that this process may run on, by its affinity."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def cores(
    groups: Path = Path("/sys/fs/cgroup"),
    membership: Path = Path("/proc/self/cgroup"),
    schedulable: Callable[[], int] = schedulable_cores,
) -> int:
    """Returns the number of CPU cores that this process can keep busy.

    A container may use the cores of its affinity, for the share of time that the
    quotas of its control group and of all groups around it leave (cgroup v2 and v1).
    """
    count: float = schedulable()
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)  # v2 names no controllers
            if controllers and "cpu" not in controllers.split(","):
                continue
            group = groups / controllers / path.lstrip("/")
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
            for folder in (group, *group.parents):
                with suppress(OSError, ValueError):  # no such file, or "max": no quota
                    texts = " ".join((folder / name).read_text() for name in names)
                    quota, period = map(float, texts.split())
                    count = min(count, quota / period) if quota > 0 else count  # -1: no quota
    return math.ceil(count)


def cores_if_fewer() -> int:
    """Returns `cores`, or 0, the default of runtimes, if they are all cores of the machine."""
    return cores() if cores() < (os.cpu_count() or 1) else 0


def stateless_call(layer: Any, trainable: Any, state: Any, *inputs: Any, **call: Any) -> Any:
    """Calls a layer with other weights; returns its outputs and its state after the call.

    Keras' own `stateless_call` casts neither inputs nor weights to the layer's compute dtype.
    """
    import keras

    variables = [*layer.trainable_variables, *layer.non_trainable_variables]
    mapping = [*zip(variables, [*trainable, *state], strict=True)]
    with keras.StatelessScope(state_mapping=mapping) as scope:
        outputs = layer(*inputs, **call)
    return outputs, [
        scope.get_current_value(variable) for variable in layer.non_trainable_variables
    ]


def memory_bytes() -> int:
    """Returns the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
