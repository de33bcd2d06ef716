"""Progress of a job."""

import time
from collections.abc import Sequence
from typing import Any, Self

from zoo.errors import needs_extra

MEMORY_S = 3600  # from which the time left is estimated: workers finish ranges now and then


class Meter:
    """A progress bar with images per second and the time left, in a `with` block.

    `takes` are the numbers of images of the ranges, -1 where it is unknown.
    """

    def __init__(self, takes: Sequence[int]) -> None:
        with needs_extra("train"):
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )
        self.images, self._begin, self._end = 0, time.monotonic(), None
        columns = (
            TextColumn("Labeling"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("images, {task.fields[rate]} images/s, left:"),
            TimeRemainingColumn(),
        )
        self._progress: Any = Progress(*columns, speed_estimate_period=MEMORY_S)
        total = None if -1 in takes else sum(takes)
        self._task = self._progress.add_task("", total=total, rate="-")

    @property
    def seconds(self) -> float:
        """Time since the `with` block began, or that it took."""
        return (self._end or time.monotonic()) - self._begin

    def advance(self, count: int) -> None:
        """Counts images."""
        self.images += count
        rate = f"{self.images / self.seconds:,.1f}"
        self._progress.update(self._task, advance=count, rate=rate)

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = time.monotonic()
        self._progress.stop()
