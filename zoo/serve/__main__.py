"""Serves an export over HTTP: `python -m zoo.serve exports/NAME`."""

from zoo.cli.main import Verb

main = Verb("serve", __name__)
