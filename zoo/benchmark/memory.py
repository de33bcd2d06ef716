"""Peak resident memory of one call, for backends on the CPU that do not tell.

Linux only. A process of its own per layer: what an allocator or a library keeps from one
implementation would be missing in the figure of the next.
"""

import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.benchmark import fresh
from zoo.benchmark.cases import MODES, Case

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

METHOD = (
    "peak resident memory of a call above the memory before it, outputs included, "
    "after two calls to warm up, in a fresh process"
)


def measure(case: Case, implementation: str, dtype: str, backend: str, xla: bool) -> dict[str, Any]:
    """Returns bytes by mode; or `{"reason": ...}`."""
    return fresh.call(
        "zoo.benchmark.memory",
        {
            "case": vars(case),
            "implementation": implementation,
            "dtype": dtype,
            "xla": xla,
        },
        {"KERAS_BACKEND": backend},
    )


def check_platform() -> None:
    """Raises ValueError where resident memory cannot be measured."""
    if sys.platform != "linux":
        raise ValueError(
            f"--memory: expected Linux, where /proc tells the peak. Received: {sys.platform}"
        )


def peak_growth(function) -> int:
    """Returns by how many bytes the resident memory grows, at its peak, while a function runs."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that is free already would hide what is taken anew
    Path("/proc/self/clear_refs").write_text("5")  # makes the peak the present size
    before = _status("VmHWM")
    function()
    return _status("VmHWM") - before


def peak_of_step(backend: "Backend", step: "Step") -> int:
    """Returns the growth of the resident memory during a step, after two of them to warm up."""
    run = backend.runner(step)
    run(2)
    return peak_growth(lambda: run(1))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"expected {name} in /proc/self/status")


def _answer(case: dict[str, Any], implementation: str, dtype: str, xla: bool) -> dict[str, int]:
    from zoo.benchmark.backends import current_backend

    backend = current_backend(xla)
    return {
        mode: peak_of_step(backend, backend.step(Case(**case), implementation, dtype, mode))
        for mode in MODES
    }


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fresh.serve(_answer)
