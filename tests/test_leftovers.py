"""Runs of pytest that are interrupted leave no process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import leftovers

TESTS = Path(__file__).parent
pytestmark = [pytest.mark.one_backend, pytest.mark.needs("/proc")]
# A process that ignores signals, in a session of its own, and its child.
INNER = """
import subprocess, sys, time
CHILD = '''
import signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if sys.argv[1:]:
    subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]])
time.sleep(600)
'''

def test_that_is_interrupted():
    subprocess.Popen([sys.executable, "-S", "-c", CHILD, CHILD], start_new_session=True)
    time.sleep(600)
"""
# A shell makes what it runs in the background ignore SIGINT.
CONFTEST = """
import signal
from support.leftovers import watch

signal.signal(signal.SIGINT, signal.default_int_handler)
watch()
"""
WORKERS = ["-p", "xdist", "-n", "2"]
TIMEOUT = ["-p", "pytest_timeout", "--timeout", "3", "--timeout-method", "thread"]


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGINT, []),
        pytest.param(signal.SIGTERM, [], marks=pytest.mark.slow),
        pytest.param(None, TIMEOUT, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, WORKERS, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, WORKERS, marks=pytest.mark.slow),
        pytest.param(None, [*WORKERS, *TIMEOUT], marks=pytest.mark.slow),
    ],
)
def test_interrupted_pytest_leaves_no_process(number, options, tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_inner.py").write_text(INNER)
    mark = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": str(tmp_path)}  # starts faster, too
    mark["PYTEST_ADDOPTS"] = ""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, tmp_path]
    environment = {**os.environ, **mark, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        # pytest and its workers, the child and its child
        count = 5 if "xdist" in options else 3
        leftovers.wait(lambda: len(leftovers.running(str(tmp_path))) == count)
        if number:
            process.send_signal(number)
    leftovers.wait(lambda: not leftovers.running(str(tmp_path)))


def test_this_pytest_is_watched():
    assert leftovers.MARKER in os.environ
