"""A network that compiles in no time."""

from support.tiny_networks import tiny_networks

__all__ = ["tiny_networks"]
