"""Timing of several computations in turn, so that what disturbs the machine disturbs all alike."""

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

SLOW = 10.0  # s; a computation that takes longer is timed once


@dataclass(frozen=True)
class Timing:
    """Time of one computation.

    Args:
        seconds: Median over the rounds.
        rounds: Seconds per call in each round.
        calls: Calls per round.
    """

    seconds: float
    rounds: list[float]
    calls: int


def time_in_turn(
    computations: Mapping[str, Callable[[], Callable[[int], None]]],
    rounds: int,
    shortest: float,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Timing | str]:
    """Times every computation once per round, after two calls to compile and to warm up.

    Args:
        computations: By name, what compiles a computation and returns what runs it so many times
            and waits for its end.
        rounds: Number of rounds.
        shortest: Seconds; shorter computations are called several times in a round.
        progress: Is told what is going on.

    Returns:
        By name, the timing, or why there is none.
    """
    runs, calls, samples, failures = {}, {}, {}, {}
    for name, prepare in computations.items():
        progress(f"warming up {name}")
        try:
            run = prepare()
            run(1)
            seconds = _time(run, 1)
        except Exception as error:  # whatever the backend raises: the others go on
            failures[name] = reason(error)
            continue
        if seconds < SLOW:
            runs[name] = run
        calls[name] = max(1, min(1000, math.ceil(shortest / seconds)))
        samples[name] = [] if name in runs else [seconds]
    shuffle = random.Random(0).shuffle
    for i in range(rounds):
        order = list(runs)
        shuffle(order)  # what ran before leaves its data in the caches
        for name in order:
            progress(f"round {i + 1} of {rounds}: {name}")
            samples[name].append(_time(runs[name], calls[name]) / calls[name])
    timings = {name: Timing(median(samples[name]), samples[name], calls[name]) for name in calls}
    return {name: timings.get(name) or failures[name] for name in computations}


def reason(error: Exception) -> str:
    """Returns the kind and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _time(run: Callable[[int], None], calls: int) -> float:
    start = time.perf_counter()
    run(calls)
    return time.perf_counter() - start
