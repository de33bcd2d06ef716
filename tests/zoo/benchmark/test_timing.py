"""Timing in turn; the clock itself is replaced, so nothing here depends on the machine."""

import pytest

from zoo.benchmark import timing


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_computations_take_turns(clock):
    order = []

    def computation(name, seconds):
        def run(calls):
            order.append(name)
            clock[0] += calls * seconds

        return lambda: run

    timings = timing.time_in_turn(
        {"fast": computation("fast", 0.25), "long": computation("long", 2.0)}, 3, 1.0
    )
    assert order[:4] == ["fast", "fast", "long", "long"]
    rounds = [order[i : i + 2] for i in range(4, 10, 2)]
    assert all(sorted(names) == ["fast", "long"] for names in rounds)
    assert rounds[0] != rounds[1] or rounds[1] != rounds[2]
    assert timings["fast"] == timing.Timing(0.25, [0.25] * 3, calls=4)
    assert timings["long"] == timing.Timing(2.0, [2.0] * 3, calls=1)


def test_very_slow_computation_is_timed_once(clock):
    calls = []

    def run(count):
        calls.append(count)
        clock[0] += 60 * count

    timings = timing.time_in_turn({"slow": lambda: run}, 5, 1.0)
    assert timings["slow"] == timing.Timing(60, [60], 1)
    assert calls == [1, 1]


def test_failures_are_told_and_the_others_go_on(clock):
    def fails():
        raise MemoryError("too large\nand more")

    def run(calls):
        clock[0] += calls

    timings = timing.time_in_turn({"fails": fails, "works": lambda: run}, 1, 1.0)
    assert list(timings) == ["fails", "works"]
    assert timings["fails"] == "MemoryError: too large"
    assert timings["works"].seconds == 1
