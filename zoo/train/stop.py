"""Interruption of a run by signals."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from zoo.devices import Devices


@contextmanager
def stop_signals(devices: Devices) -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether a host was interrupted, by its user or a preemption.

    SIGINT (Ctrl-C) and SIGTERM do so; the second one ends the process at once.
    """
    received = []
    # A shell makes what it runs in the background ignore the Ctrl-C that is for another command.
    heeded = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]

    def receive(number: int, _: Any) -> None:
        received.append(number)
        for each in heeded:
            signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, receive) for number in heeded}
    try:
        yield lambda: any(devices.gather(bool(received)))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stopped(step: int) -> SystemExit:
    """Returns the exception that ends an interrupted run, with code 1 and one line."""
    return SystemExit(f"stopped at step {step}; the same command resumes from there")
