"""Converts weights to a `.weights.h5` file: `python -m zoo.convert --help`."""

from zoo.cli.main import Verb

main = Verb("convert", __name__)
