"""Damage that only checksums show."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def later(change):
    """A function of the further arguments of a change, which gives the change of its first one."""
    return lambda *arguments, **options: lambda place: change(place, *arguments, **options)


def flip(path: Path, position: int | None = None, bit: int = 0) -> None:
    """Changes one bit of a file, in place; by default in its middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 1 << bit
    path.write_bytes(content)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Lets files of this process grow to some bytes only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
