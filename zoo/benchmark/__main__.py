"""Runs a benchmark command: `python -m zoo.benchmark layer --help`."""

from zoo.cli.main import Verb

main = Verb("benchmark", __name__)
