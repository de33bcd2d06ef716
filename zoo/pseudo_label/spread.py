"""Functions of one shard for all shards, in this process or by Apache Beam."""

from collections.abc import Callable
from functools import reduce
from io import BytesIO
from operator import add
from typing import Any

import numpy as np

from zoo.files import atomic_write
from zoo.pseudo_label.runners import finish

TOTAL = "total.npy"  # of a pipeline, whose results come back as files


class Spread:
    """Calls functions with the numbers of all shards; `runner` and `options` are Beam's, or None.

    `folder` is for results of pipelines.
    """

    def __init__(self, count: int, folder: Any, beam: tuple[Any, Any] | None) -> None:
        self.count, self.folder, self.beam = count, folder, beam

    def each(self, function: Callable[[int], Any]) -> None:
        """Calls a function with every number."""
        if self.beam is None:
            for number in range(self.count):
                function(number)
        else:
            self._run(function, lambda results: results)

    def total(self, function: Callable[[int], np.ndarray]) -> np.ndarray:
        """Returns the sum of the arrays that a function returns; no worker holds all of them."""
        if self.beam is None:
            return reduce(add, map(function, range(self.count)))
        import apache_beam as beam  # pyright: ignore[reportMissingImports]

        path = self.folder / TOTAL

        def save(array: np.ndarray) -> None:
            with atomic_write(path) as beside:
                np.save(beside, array)

        def combined(results: Any) -> Any:
            return (
                results
                | beam.CombineGlobally(lambda arrays: reduce(add, arrays, 0))
                | beam.Map(save)
            )

        self._run(function, combined)
        return np.load(BytesIO(path.read_bytes()), allow_pickle=False)

    def _run(self, function: Callable[[int], Any], then: Callable[[Any], Any]) -> None:
        import apache_beam as beam  # pyright: ignore[reportMissingImports]

        runner, options = self.beam or (None, None)
        pipeline = beam.Pipeline(runner, options)
        numbers = pipeline | beam.Create(range(self.count)) | beam.Reshuffle()
        then(numbers | beam.Map(function))
        finish(pipeline)
