"""Processes that tests leave end with pytest, however it ends: Ctrl-C, a kill, a timeout."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

MARKER = "LAMBDA_KERAS_TESTS"  # in the environment of all descendants
# Nothing is written to its input, which ends with the process that has the other end.
WATCHER = "import sys, leftovers; sys.stdin.read(); leftovers.end(sys.argv[1])"


def watch() -> None:
    """Starts the process that ends what this one will have left, however this one ends."""
    token = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-c", WATCHER, token],
        cwd=Path(__file__).parent,
        env={},  # not marked itself, if a test started this pytest
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches all processes of a terminal
    )
    assert watcher.stdin
    watcher.returncode = 0  # it outlives this process, which Popen would warn of
    os.register_at_fork(after_in_child=watcher.stdin.close)
    os.environ[MARKER] = os.environ.get(MARKER, "") + token


def marks() -> dict[str, str]:
    """Returns what an environment needs that does not have the variables of `os.environ`."""
    return {MARKER: os.environ[MARKER]}


def end(token: str) -> None:
    """Kills the processes of a token, and what they start meanwhile."""
    while found := running(token):
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def running(token: str) -> list[int]:
    """Returns the processes that have a token in their environment; none without /proc."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if token.encode() in file.read_bytes():
                found.append(int(file.parent.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def wait(condition: Callable[[], bool], seconds: float = 100) -> None:
    """Waits for what processes do."""
    last = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.1)
