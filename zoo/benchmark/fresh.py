"""Work in a fresh process, which may be killed without harm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo.benchmark.timing import reason


def call(module: str, request: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Asks the `answer` function of a module, in a process of its own.

    Args:
        module: Runs `serve` as its main program.
        request: What to ask, fit for JSON.
        environment: Variables to set beside the ones of this process.

    Returns:
        The answer; or `{"reason": ...}` if there is none.
    """
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, "-m", module, json.dumps(request)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **environment},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if result.returncode == -signal.SIGALRM:
        return {"reason": f"did not compile in {request['seconds']} s"}
    if result.returncode < 0:
        return {"reason": f"killed by {signal.Signals(-result.returncode).name}"}
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        return {"reason": lines[-1][:200]}
    return json.loads(result.stdout.splitlines()[-1])


def serve(answer: Callable[..., dict[str, Any]]) -> None:
    """Prints what `answer` returns for the request, as the main program of a fresh process."""
    try:
        result = answer(**json.loads(sys.argv[1]))
    except Exception as error:  # of any library; the process that asked goes on
        result = {"reason": reason(error)}
    print(json.dumps(result), flush=True)
    # libtpu never ends by itself, and nothing is left to clean up.
    os._exit(0)
