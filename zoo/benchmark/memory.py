"""Main memory on Linux: the peak of one call, for backends that do not tell, and a limit.

The peak is that of a fresh process per call: what an allocator or a library keeps from one
computation would be missing in the figure of the next.
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


def check_platform(setting: str) -> None:
    """Raises ValueError, about a setting, where memory cannot be measured and limited."""
    if sys.platform != "linux":
        raise ValueError(
            f"--{setting}: expected Linux, which tells and limits the memory of a process. "
            f"Received: {sys.platform}"
        )


def limit(gigabytes: float) -> None:
    """Makes allocations of this process fail beyond so many 10^9 bytes."""
    import resource  # there is none on Windows

    # Not of the address space, of which libraries reserve more than they use.
    size = int(gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


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
