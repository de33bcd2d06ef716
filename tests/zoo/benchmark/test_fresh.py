"""Fresh processes: their answers, and what is told if there is none."""

import pytest

from zoo.benchmark import fresh

MODULE = """
import os, signal, sys, time

def answer(kind):
    if kind == "environment":
        print("noise")
        return {"variable": os.environ["VARIABLE"]}
    if kind == "error":
        raise ValueError("what is wrong")
    if kind == "exit":
        sys.exit("last words")
    if kind == "long":
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("environment", {"variable": "here"}),
        ("error", {"reason": "ValueError: what is wrong"}),
        ("exit", {"reason": "last words"}),
        ("long", {"reason": "did not end in 1 s"}),
        ("kill", {"reason": "killed by SIGKILL"}),
    ],
)
def test_answer(tmp_path, monkeypatch, kind, expected):
    (tmp_path / "some_worker.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    from some_worker import answer

    limits = fresh.Limits(seconds=1 if kind == "long" else None)
    assert fresh.call(answer, kind, environment={"VARIABLE": "here"}, limits=limits) == expected
