"""Batches of several requests."""

import threading

import numpy as np
import pytest

from zoo.serve.batches import Batches


class Doubles:
    """Doubles numbers, once it may; refuses negative ones."""

    def __init__(self):
        self.batches, self.may = [], threading.Event()

    def run(self, signature, inputs):
        self.may.wait(10)
        self.batches.append((signature, len(inputs["x"])))
        if (inputs["x"] < 0).any():
            raise ValueError(f"negative: {inputs['x'].ravel().tolist()}")
        return {"y": 2 * inputs["x"]}


def submitted(runtimes, size, *jobs):
    batches = Batches(runtimes, size)
    futures = [batches.submit("first", {"x": np.zeros(1)})]  # keeps the runtime busy
    while len(batches):  # until it has begun
        pass
    futures += [batches.submit(name, {"x": np.array(x)}) for name, x in jobs]
    for runtime in runtimes:
        runtime.may.set()
    for future in futures:
        future.exception(10)
    batches.close()
    return futures[1:]


@pytest.mark.parametrize(
    ("jobs", "batches"),
    [
        ([("a", [1]), ("a", [2, 3]), ("a", [4])], [("a", 4)]),
        ([("a", [1, 2, 3]), ("a", [4, 5]), ("a", [6])], [("a", 4), ("a", 2)]),
        ([("a", [1]), ("b", [2]), ("a", [3])], [("a", 2), ("b", 1)]),
        ([("a", [[1]]), ("a", [[2, 2]]), ("a", [[3]])], [("a", 2), ("a", 1)]),
    ],
)
def test_what_waits_runs_together(jobs, batches):
    runtime = Doubles()
    futures = submitted([runtime], 4, *jobs)
    for (_, x), future in zip(jobs, futures, strict=True):
        np.testing.assert_array_equal(future.result()["y"], 2 * np.array(x))
    assert runtime.batches[1:] == batches


def test_one_bad_among_ten_fails_alone():
    numbers = [*range(1, 7), -7, *range(8, 11)]
    futures = submitted([Doubles()], 32, *[("a", [x]) for x in numbers])
    with pytest.raises(ValueError, match=r"negative: \[-7\]"):
        futures[6].result()
    results = [future.result()["y"].tolist() for future in futures if future is not futures[6]]
    assert results == [[2 * x] for x in numbers if x > 0]


def test_a_request_that_was_given_up_spoils_no_other():
    runtime = Doubles()
    batches = Batches([runtime], 8)
    first, given_up, last = (batches.submit("a", {"x": np.array([x])}) for x in (1, 2, 3))
    while len(batches) > 2:
        pass
    assert given_up.cancel()
    runtime.may.set()
    assert [future.result(10)["y"].tolist() for future in (first, last)] == [[2], [6]]
    batches.close()


def test_runtimes_run_side_by_side():
    meeting = threading.Barrier(2, timeout=5)

    class Meets:
        def run(self, signature, inputs):
            meeting.wait()
            return inputs

    batches = Batches([Meets(), Meets()], 1)
    futures = [batches.submit("a", {"x": np.array([x])}) for x in (1, 2)]
    assert [future.result(10)["x"].tolist() for future in futures] == [[1], [2]]
    batches.close()
