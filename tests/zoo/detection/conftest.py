"""A small data set of drawn shapes, in COCO's format and as shards."""

from support.detectors import drawn, sharded, truth

__all__ = ["drawn", "sharded", "truth"]
