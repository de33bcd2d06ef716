"""Prefetching in threads, and the share of time that a loop waits for its items."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import TypeVar

from zoo.backend import cores

T = TypeVar("T")
Item = TypeVar("Item")

MOST_THREADS = 8  # each of which decodes one image


def read_ahead(read: Callable[[T], Item], items: Iterable[T], most: int) -> Iterator[Item]:
    """Calls a function on each item in threads, `most` items ahead; results keep the order."""
    with ThreadPoolExecutor(min(cores(), MOST_THREADS)) as pool:
        left = iter(items)
        coming = deque(pool.submit(read, item) for item in islice(left, most))
        while coming:
            result = coming.popleft().result()
            coming.extend(pool.submit(read, item) for item in islice(left, 1))
            yield result


class Waiting(Iterable[Item]):
    """Items of a loop; measures the share of its time spent waiting, after the first `start`.

    >>> from zoo.data.ahead import Waiting
    >>> batches = Waiting([1, 2, 3])
    >>> sum(batches)
    6
    >>> 0 <= batches.share <= 1
    True
    """

    def __init__(
        self,
        items: Iterable[Item],
        start: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._items, self._start, self._clock = items, start, clock
        self._count = 0  # items after the first ones
        self._waited = self._seconds = 0.0  # until the last of them came

    def __iter__(self) -> Iterator[Item]:
        items, began = iter(self._items), 0.0
        for number in count():
            asked = self._clock()
            try:
                item = next(items)
            except StopIteration:
                return
            came = self._clock()
            if number < self._start:
                began = came
            else:
                self._count += 1
                self._waited += came - asked
                self._seconds = came - began
            yield item

    @property
    def share(self) -> float | None:
        """Fraction of the time; None where there were no more than `start` items."""
        return self._waited / self._seconds if self._seconds else None

    def report(self, batch_size: int = 1) -> str:
        """Returns a line with images per second and the share; items have `batch_size` images."""
        rate = f"{self._count * batch_size / max(self._seconds, 1e-9):,.1f} images/s"
        return f"{rate}; {self.share or 0:.0%} of the time was spent waiting for images"
