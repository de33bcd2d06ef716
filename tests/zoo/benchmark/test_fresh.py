"""Fresh processes: their answers, and what is told if there is none."""

import pytest

from zoo.benchmark import fresh

MODULE = """
import os, signal, sys
from zoo.benchmark import fresh

def answer(kind, seconds=7):
    if kind == "environment":
        print("noise")
        return {"variable": os.environ["VARIABLE"]}
    if kind == "error":
        raise ValueError("what is wrong")
    if kind == "exit":
        sys.exit("last words")
    os.kill(os.getpid(), getattr(signal, kind))

fresh.serve(answer)
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    (tmp_path / "some_worker.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda **request: fresh.call("some_worker", request, {"VARIABLE": "here"})


def test_answer(ask):
    assert ask(kind="environment") == {"variable": "here"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("error", "ValueError: what is wrong"),
        ("exit", "last words"),
        ("SIGKILL", "killed by SIGKILL"),
        ("SIGALRM", "did not compile in 7 s"),
    ],
)
def test_reason(ask, kind, reason):
    assert ask(kind=kind, seconds=7) == {"reason": reason}
