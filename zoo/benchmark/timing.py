"""Timing of several computations in turn, so that what disturbs the machine disturbs all alike."""

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median
from typing import Any

from zoo.benchmark.report import progress

SLOW = 10.0  # s; a computation that takes longer is timed once

Run = Callable[[int], list[float]]  # computes so many times; the mean of what it returns counts


@dataclass(frozen=True)
class Timing:
    """Time of one computation."""

    seconds: float  # median over the rounds
    rounds: list[float]  # seconds per call in each round
    calls: int  # per round
    samples: list[float]  # all that the computation returned


def together(compute: Callable[[int], Any]) -> Run:
    """Times so many calls as one, of what computes so many times and waits for the end."""

    def run(calls: int) -> list[float]:
        start = time.perf_counter()
        compute(calls)
        return [(time.perf_counter() - start) / calls]

    return run


def singly(compute: Callable[[], Any]) -> Run:
    """Times every call by itself, but for one more that finds the caches of what ran before."""

    def run(calls: int) -> list[float]:
        once = together(lambda _: compute())
        return [once(1)[0] for _ in range(calls + 1)][1:]

    return run


def time_in_turn(
    computations: Mapping[str, Callable[[], Run]],
    rounds: int,
    shortest: float,
    head: str = "",
    failures: dict[str, str] | None = None,
) -> dict[str, Timing]:
    """Times every computation once per round, after two calls to compile and to warm up.

    Args:
        computations: By name, what compiles a computation and returns what runs and times it.
        rounds: Number of rounds.
        shortest: Seconds; shorter computations are called several times in a round.
        head: What the lines that tell what is going on begin with.
        failures: Gets the names of computations that fail, and why; None: none may fail.

    Raises:
        RuntimeError: If one fails that may not.
    """
    runs, calls, samples = {}, {}, {}
    for name, prepare in computations.items():
        progress(f"{head}warming up {name}")
        try:
            run = prepare()
            run(1)
            warm = run(1)
        except Exception as error:  # whatever the backend raises
            if failures is None:
                raise RuntimeError(f"{name} fails: {reason(error)}") from error
            failures[name] = reason(error)
            continue
        seconds = fmean(warm)
        calls[name] = max(1, min(1000, math.ceil(shortest / seconds)))
        samples[name] = [warm]
        if seconds < SLOW:
            runs[name], samples[name] = run, []
    shuffle = random.Random(0).shuffle
    for i in range(rounds):
        order = list(runs)
        shuffle(order)  # what ran before leaves its data in the caches
        for name in order:
            progress(f"{head}round {i + 1} of {rounds}: {name}")
            samples[name].append(runs[name](calls[name]))
    progress("")
    timings = {}
    for name, turns in samples.items():
        means = [fmean(turn) for turn in turns]
        timings[name] = Timing(median(means), means, calls[name], list(chain(*turns)))
    return timings


def reason(error: Exception) -> str:
    """Returns the kind and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
