"""Timing in turn; the clock itself is replaced, so nothing here depends on the machine."""

import pytest

from zoo.benchmark import timing
from zoo.benchmark.layer import Config, Implementation
from zoo.benchmark.timing import Bench, Timing, singly, time_in_turn, together
from zoo.measurements import FORWARD, columns

CASE = Implementation("auto", size=4, depth=8, batch=1, scope=3)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_computations_take_turns(clock):
    order = []

    def computation(name, seconds):
        def compute(calls):
            order.append(name)
            clock[0] += calls * seconds

        return lambda: together(compute)

    timings = time_in_turn(
        {"fast": computation("fast", 0.25), "long": computation("long", 2.0)}, 3, 1.0
    )
    assert order[:4] == ["fast", "fast", "long", "long"]
    rounds = [order[i : i + 2] for i in range(4, 10, 2)]
    assert all(sorted(names) == ["fast", "long"] for names in rounds)
    assert rounds[0] != rounds[1] or rounds[1] != rounds[2]
    assert timings["fast"] == Timing(0.25, [0.25] * 3, 4, [0.25] * 3)
    assert timings["long"] == Timing(2.0, [2.0] * 3, 1, [2.0] * 3)


def test_very_slow_computation_is_timed_once(clock):
    calls = []

    def compute(count):
        calls.append(count)
        clock[0] += 60 * count

    timings = time_in_turn({"slow": lambda: together(compute)}, 5, 1.0)
    assert timings["slow"] == Timing(60, [60], 1, [60])
    assert calls == [1, 1]


def test_first_of_single_calls_is_not_counted(clock):
    durations = iter([9.0, 0.5, 0.75, 9.0, 0.25])

    def compute():
        clock[0] += next(durations)

    run = singly(compute)
    assert run(2) == [0.5, 0.75]
    assert run(1) == [0.25]


def test_failures_are_told_and_the_others_go_on(clock):
    def fails():
        raise MemoryError("too large\nand more")

    def compute(calls):
        clock[0] += calls

    computations = {"fails": fails, "works": lambda: together(compute)}
    failures = {}
    timings = time_in_turn(computations, 1, 1.0, failures=failures)
    assert failures == {"fails": "MemoryError: too large"}
    assert list(timings) == ["works"]
    assert timings["works"].seconds == 1
    with pytest.raises(RuntimeError, match="fails fails: MemoryError: too large"):
        time_in_turn(computations, 1, 1.0)


def test_rows_have_the_times_and_no_memory_unless_asked_for(capsys):
    """The tests of the commands measure memory."""
    bench = Bench(Config(repeats=3, min_ms=0.1), [])
    shown = columns("ms", "temporary_bytes")
    bench.measure([CASE], [FORWARD], shown, lambda figures: None, "title, ")
    (row,) = bench.rows
    figures = row[FORWARD]
    assert min(figures["rounds_ms"]) <= figures["ms"] <= max(figures["rounds_ms"])
    assert len(figures["rounds_ms"]) == 3
    assert figures["calls"] >= 1
    assert figures["temporary_bytes"] is figures["memory_method"] is None
    printed = capsys.readouterr().out
    assert "title, forward\n\n| name | ms | temporary MB |\n" in printed
