"""Reading ahead in threads, and the time that a loop waits."""

import threading
import time

import pytest

from zoo.data.ahead import Waiting, read_ahead


def test_items_are_read_ahead_in_order_and_no_more_than_asked_for():
    begun, all_begun = [], threading.Event()

    def read(number: int) -> int:
        begun.append(number)
        if len(begun) == 4:
            all_begun.set()
        time.sleep(0.01 * (number % 2))
        return 10 * number

    reading = read_ahead(read, iter(range(20)), 3)
    assert next(reading) == 0
    assert all_begun.wait(10)  # while the loop computes
    assert sorted(begun) == [0, 1, 2, 3]
    assert list(reading) == [10 * number for number in range(1, 20)]


def test_an_error_comes_at_its_place():
    reading = read_ahead(lambda number: 1 // number, [2, 1, 0, 3], 2)
    assert [next(reading), next(reading)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(reading)


def test_share_of_waiting_after_the_first_items():
    """Each item takes 2 s to come, and 6 s to use."""
    asked = [0, 8, 16, 24]
    clock = iter([*(second for one in asked for second in (one, one + 2)), 32])
    items = Waiting("abcd", 2, clock.__next__)
    assert "".join(items) == "abcd"
    assert items.share == 4 / 16  # from the second item's coming to the last one's
    assert items.report(100) == "12.5 images/s; 25% of the time was spent waiting for images"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_share_of_the_first_items_alone_is_unknown(count):
    items = Waiting(range(count), 2)
    assert list(items) == list(range(count))
    assert items.share is None
