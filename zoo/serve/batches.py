"""Batching of images from several requests."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoo.export.base import Arrays, Runtime


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
        """Signature and shapes; jobs of the same kind fit into one batch."""
        return self.signature, *(array.shape[1:] for array in self.inputs.values())


class Batches:
    """Runs jobs in batches: each runtime takes what is waiting when it becomes free.

    So a single client waits for nobody, and many clients share a batch. If a batch fails, its
    halves run separately: one bad image spoils no other request.
    """

    def __init__(self, runtimes: Sequence[Runtime], size: int) -> None:
        self.size = size
        self._waiting: deque[_Job] = deque()
        self._lock = threading.Lock()
        free, self._thread = list(runtimes), threading.local()
        self.threads = ThreadPoolExecutor(
            len(free), initializer=lambda: setattr(self._thread, "runtime", free.pop())
        )

    def __len__(self) -> int:
        """Number of images that wait."""
        with self._lock:
            return sum(map(len, self._waiting))

    def submit(self, signature: str, inputs: Arrays) -> Future:
        """Queues images, at most `size`; their outputs are named arrays."""
        job = _Job(signature, inputs)
        with self._lock:
            self._waiting.append(job)
        self.threads.submit(self._run_next)
        return job.outputs

    def close(self) -> None:
        """Waits for running batches; cancels waiting jobs."""
        self.threads.shutdown(cancel_futures=True)

    def _run_next(self) -> None:
        """Runs the job that has waited longest, and others of its kind while they fit."""
        with self._lock:
            jobs, others, count = [], deque(), 0
            for job in self._waiting:
                fits = not jobs or (job.kind == jobs[0].kind and count + len(job) <= self.size)
                if not fits:
                    others.append(job)
                elif job.outputs.set_running_or_notify_cancel():
                    jobs.append(job)
                    count += len(job)
            self._waiting = others
        if jobs:
            _run(self._thread.runtime, jobs)


def _run(runtime: Runtime, jobs: Sequence[_Job]) -> None:
    first, half, begin = jobs[0], len(jobs) // 2, 0
    try:
        inputs = {n: np.concatenate([job.inputs[n] for job in jobs]) for n in first.inputs}
        outputs = runtime.run(first.signature, inputs)
    except Exception as error:  # runtimes raise many kinds
        if not half:
            first.outputs.set_exception(error)
            return
        _run(runtime, jobs[:half])
        _run(runtime, jobs[half:])
        return
    for job in jobs:
        part = slice(begin, begin := begin + len(job))
        job.outputs.set_result({name: array[part] for name, array in outputs.items()})
