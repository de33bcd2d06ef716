"""Evaluates a network on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from zoo.cli.main import Verb

main = Verb("evaluate", __name__)
