"""Fresh processes: their answers, and what is told if there is none."""

import sys

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
    if kind == "memory":
        return {"bytes": len(bytearray(2_000_000_000))}
    print("last words", file=sys.stderr, flush=True)
    if kind == "abort":
        os.abort()
    if kind == "long":
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A function of a module that fresh processes find."""
    (tmp_path / "some_worker.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    from some_worker import answer

    return answer


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("environment", {"variable": "here"}),
        ("error", {"reason": "ValueError: what is wrong"}),
        ("exit", {"reason": "last words"}),
        ("long", {"reason": "did not end in 1 s"}),
        ("kill", {"reason": "killed by SIGKILL"}),
        ("abort", {"reason": "killed by SIGABRT: last words"}),
    ],
)
def test_answer(worker, kind, expected):
    limits = fresh.Limits(seconds=1 if kind == "long" else None)
    assert fresh.call(worker, kind, environment={"VARIABLE": "here"}, limits=limits) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_memory_beyond_the_limit_is_an_error_there(worker):
    limits = fresh.Limits(gigabytes=1)
    answer = fresh.call(worker, "memory", environment={"VARIABLE": "here"}, limits=limits)
    assert answer == {"reason": "MemoryError"}
