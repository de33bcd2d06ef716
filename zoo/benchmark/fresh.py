"""Work in a fresh process, which may be killed without harm."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.benchmark import memory
from zoo.benchmark.timing import reason


@dataclass(frozen=True)
class Limits:
    """Limits of a process.

    Args:
        seconds: Time; None: any.
        gigabytes: Main memory, in 10^9 bytes; None: any. Linux only.
    """

    seconds: int | None = None
    gigabytes: float | None = None


def call(
    function: Callable[..., dict[str, Any]],
    *arguments: Any,
    environment: Mapping[str, str],
    limits: Limits = Limits(),
) -> dict[str, Any]:
    """Runs a function in a new process and returns its result; `{"reason": ...}` if it fails.

    Args:
        function: Returns what fits JSON.
        *arguments: Its arguments, fit for `pickle`, as the function itself.
        environment: Variables to set beside the ones of this process.
        limits: What it may need.
    """
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    try:
        result = subprocess.run(
            [sys.executable, "-m", "zoo.benchmark.fresh"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **environment},
            input=pickle.dumps((function, arguments, limits.gigabytes)),
            capture_output=True,
            timeout=limits.seconds,
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"did not end in {limits.seconds} s"}
    errors = result.stderr.decode(errors="replace").strip().splitlines()
    last = errors[-1][:200] if errors else ""
    if result.returncode < 0:
        name = signal.Signals(-result.returncode).name
        why = f": {last}" if name == "SIGABRT" else ""  # what aborts says why
        return {"reason": f"killed by {name}{why}"}
    if result.returncode:
        return {"reason": last or f"exit code {result.returncode}"}
    return json.loads(result.stdout.splitlines()[-1])  # libraries may print before


def main() -> None:
    """Prints what the function that stands on the standard input returns."""
    try:
        function, arguments, gigabytes = pickle.load(sys.stdin.buffer)
        if gigabytes is not None:
            memory.limit(gigabytes)
        result = function(*arguments)
    except Exception as error:  # of any library; the process that asked goes on
        result = {"reason": reason(error)}
    print(json.dumps(result), flush=True)
    # libtpu never ends by itself, and nothing is left to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
