"""Exports a network for serving: `python -m zoo.export --run runs/FOLDER`."""

from zoo.cli.main import Verb

main = Verb("export", __name__)
