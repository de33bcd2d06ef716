"""Pseudo-labels by a teacher: `python -m zoo.pseudo_label label --help`."""

from zoo.cli.main import Verb

main = Verb("pseudo_label", __name__)
