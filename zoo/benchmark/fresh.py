"""Work in a fresh process, which may be killed without harm."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo.benchmark.timing import reason


def call(
    function: Callable[..., dict[str, Any]],
    *arguments: Any,
    environment: Mapping[str, str],
    seconds: int | None = None,
) -> dict[str, Any]:
    """Returns what a function does in a process of its own; `{"reason": ...}` if it fails.

    Args:
        function: Returns what fits JSON.
        *arguments: Its arguments, fit for `pickle`, as the function itself.
        environment: Variables to set beside the ones of this process.
        seconds: Time limit; None: none.
    """
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    try:
        result = subprocess.run(
            [sys.executable, "-m", "zoo.benchmark.fresh"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **environment},
            input=pickle.dumps((function, arguments)),
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"did not end in {seconds} s"}
    if result.returncode < 0:
        return {"reason": f"killed by {signal.Signals(-result.returncode).name}"}
    if result.returncode:
        errors = result.stderr.decode(errors="replace").strip().splitlines()
        return {"reason": errors[-1][:200] if errors else f"exit code {result.returncode}"}
    return json.loads(result.stdout.splitlines()[-1])  # libraries may print before


def main() -> None:
    """Prints what the function that stands on the standard input returns."""
    try:
        function, arguments = pickle.load(sys.stdin.buffer)
        result = function(*arguments)
    except Exception as error:  # of any library; the process that asked goes on
        result = {"reason": reason(error)}
    print(json.dumps(result), flush=True)
    # libtpu never ends by itself, and nothing is left to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
