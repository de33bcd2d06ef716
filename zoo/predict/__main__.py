"""Runs a network on images: `python -m zoo.predict --run runs/FOLDER photo.jpg`."""

from zoo.cli.main import Verb

main = Verb("predict", __name__)
