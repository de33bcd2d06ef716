"""A network that compiles in no time, and drawn shapes."""

from support.detectors import drawn, sharded
from support.tiny_networks import tiny_networks

__all__ = ["drawn", "sharded", "tiny_networks"]
