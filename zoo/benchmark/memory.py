"""Peak resident memory of one call, for backends on the CPU that do not tell.

Linux only. A fresh process per call: what an allocator or a library keeps from one computation
would be missing in the figure of the next.
"""

import ctypes
import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

METHOD = (
    "peak resident memory of a call above the memory before it, outputs included, "
    "after two calls to warm up, in a fresh process"
)


def check_platform() -> None:
    """Raises ValueError where resident memory cannot be measured."""
    if sys.platform != "linux":
        raise ValueError(
            f"--memory: expected Linux, where /proc tells the peak. Received: {sys.platform}"
        )


def peak_growth(function: Callable[[], Any]) -> int:
    """Returns by how many bytes the resident memory grows, at its peak, while a function runs."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that is free already would hide what is taken anew
    Path("/proc/self/clear_refs").write_text("5")  # makes the peak the present size
    before = _peak()
    function()
    return _peak() - before


def _peak() -> int:
    found = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if not found:
        raise ValueError("expected VmHWM in /proc/self/status")
    return int(found[1]) * 1024
