"""Timing of several computations in turn, so that disturbances affect all of them alike."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean, median
from typing import Any

from zoo.benchmark.report import Case, CaseReport, Results, progress, threads
from zoo.benchmark.settings import BackendSettings

SLOW = 10.0  # s; a computation that takes longer is timed once
MEASURED = ("ms", "rounds_ms", "calls", "temporary_bytes", "memory_method", "reason")

Run = Callable[[int], list[float]]  # from a number of calls to times, to be averaged


@dataclass(frozen=True)
class Timing:
    """Time of one computation."""

    seconds: float  # median over the rounds
    rounds: list[float]  # seconds per call in each round
    calls: int  # per round
    samples: list[float]  # all times that the computation returned


def together(compute: Callable[[int], Any]) -> Run:
    """Times all calls together; `compute` runs a number of calls and waits for the end."""

    def run(calls: int) -> list[float]:
        start = time.perf_counter()
        compute(calls)
        return [(time.perf_counter() - start) / calls]

    return run


def singly(compute: Callable[[], Any]) -> Run:
    """Times each call separately, after an untimed one that warms up the caches."""
    once = together(lambda _: compute())
    return lambda calls: [once(1)[0] for _ in range(calls + 1)][1:]


def time_in_turn(
    computations: Mapping[str, Callable[[], Run]],
    rounds: int,
    shortest: float,
    head: str = "",
    failures: dict[str, str] | None = None,
) -> dict[str, Timing]:
    """Times every computation once per round, after two calls for compilation and warm-up.

    Computations below `shortest` seconds are called repeatedly in a round. `failures` receives the
    reasons of those that fail; without it, the first one raises a `RuntimeError`.
    """
    runs, calls, samples = {}, {}, {}
    for name, prepare in computations.items():
        progress(f"{head}warming up {name}")
        try:
            run = prepare()
            run(1)
            warm = run(1)
        except Exception as error:  # backends raise many kinds
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
        shuffle(order)  # caches hold data of the previous computation
        for name in order:
            progress(f"{head}round {i + 1} of {rounds}: {name}")
            samples[name].append(runs[name](calls[name]))
    progress("")
    means = {name: [fmean(turn) for turn in turns] for name, turns in samples.items()}
    return {
        name: Timing(median(means[name]), means[name], calls[name], list(chain(*turns)))
        for name, turns in samples.items()
    }


def reason(error: Exception) -> str:
    """Formats the kind and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


class Bench(CaseReport):
    """Report of cases that are timed on a Keras backend, in turn in this process."""

    def __init__(self, config: BackendSettings, packages: Sequence[str] = ()):
        self.config, self.backend = config, config.start_backend()
        name, accelerator = self.backend.package, self.backend.accelerator
        every, machine = (name, *packages), {"accelerator": accelerator, "threads": threads()}
        super().__init__(config, every, backend=name, **machine)

    def results(self, cases, mode, head):
        steps: dict[str, Any] = {}

        def prepare(case: Case) -> Run:
            steps[case.name] = case.step(mode, self.backend)
            return together(steps[case.name].run)

        computations = {case.name: partial(prepare, case) for case in cases}
        failures: dict[str, str] = {}
        rounds, shortest = self.config.repeats, self.config.min_ms / 1e3
        timings = time_in_turn(computations, rounds, shortest, f"{head}: ", failures)
        results: Results = {case.name: dict.fromkeys(MEASURED) for case in cases}
        for name, why in failures.items():
            results[name]["reason"] = why
        for name, timing in timings.items():
            result, step = results[name], steps[name]
            result["ms"] = 1e3 * timing.seconds
            result["rounds_ms"] = [1e3 * seconds for seconds in timing.rounds]
            result["calls"] = timing.calls
            if self.config.memory:
                progress(f"{head}: memory of {name}")
                result["temporary_bytes"] = step.backend.temporary_bytes(step)
                result["memory_method"] = step.backend.memory_method
        return results
