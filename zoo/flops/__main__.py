"""Counts the operations of a model: `python -m zoo.flops NAME`."""

from zoo.cli.main import Verb

main = Verb("flops", __name__)
