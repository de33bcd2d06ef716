"""Converts weights of other libraries: `python -m zoo.convert --help`."""

from zoo.cli.main import Verb

main = Verb("convert", __name__)
