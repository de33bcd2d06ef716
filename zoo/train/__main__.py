"""Trains a network: `python -m zoo.train --config NAME`."""

from zoo.cli.main import Verb

main = Verb("train", __name__)
