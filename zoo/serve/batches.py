"""Batches of the images of several requests."""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]  # of the same length


@dataclass(frozen=True, eq=False)
class _Job:
    """Images of one request that run in one batch."""

    signature: str
    inputs: Arrays
    outputs: Future = field(default_factory=Future)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def kind(self) -> tuple[Any, ...]:
        """Jobs of one kind fit into one batch."""
        return self.signature, *(array.shape[1:] for array in self.inputs.values())


class Batches:
    """Runs jobs in batches: each runtime takes what is waiting when it becomes free.

    So a single client waits for nobody, and many clients share a batch. If a batch fails, its
    halves run by themselves: one bad image spoils no other request.
    """

    def __init__(self, runtimes: Sequence[Any], size: int) -> None:
        self.size = size
        self._free: SimpleQueue = SimpleQueue()
        for runtime in runtimes:
            self._free.put(runtime)
        self._waiting: deque[_Job] = deque()
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(len(runtimes), "batches")

    def __len__(self) -> int:
        """Number of images that wait."""
        with self._lock:
            return sum(map(len, self._waiting))

    def submit(self, signature: str, inputs: Arrays) -> Future:
        """Queues images, at most `size`; their outputs are named arrays."""
        job = _Job(signature, inputs)
        with self._lock:
            self._waiting.append(job)
        self._threads.submit(self._run_next)
        return job.outputs

    def close(self) -> None:
        """Waits for the batches that run; others are canceled."""
        self._threads.shutdown(cancel_futures=True)

    def _run_next(self) -> None:
        jobs = self._take()
        if jobs:
            with self._runtime() as runtime:
                _run(runtime, jobs)

    def _take(self) -> list[_Job]:
        """Takes the job that has waited longest, and others of its kind while they fit."""
        with self._lock:
            jobs, others, count = [], deque(), 0
            for job in self._waiting:
                fits = not jobs or (job.kind == jobs[0].kind and count + len(job) <= self.size)
                (jobs if fits else others).append(job)
                count += len(job) * fits
            self._waiting = others
        return jobs

    @contextmanager
    def _runtime(self):
        runtime = self._free.get()
        try:
            yield runtime
        finally:
            self._free.put(runtime)


def _run(runtime: Any, jobs: Sequence[_Job]) -> None:
    first = jobs[0]
    try:
        inputs = {n: np.concatenate([job.inputs[n] for job in jobs]) for n in first.inputs}
        outputs = runtime.run(first.signature, inputs)
    except Exception as error:  # runtimes raise many kinds
        if len(jobs) == 1:
            first.outputs.set_exception(error)
            return
        _run(runtime, jobs[: len(jobs) // 2])
        _run(runtime, jobs[len(jobs) // 2 :])
        return
    begin = 0
    for job in jobs:
        end = begin + len(job)
        job.outputs.set_result({name: array[begin:end] for name, array in outputs.items()})
        begin = end
