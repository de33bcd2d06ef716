"""Damage that only checksums show."""

from pathlib import Path


def flip(path: Path, position: int | None = None) -> None:
    """Changes one bit of a file, in place; by default in its middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 1
    path.write_bytes(content)
