"""Publishes the model of a run: `python -m zoo.publish --run runs/FOLDER hf://OWNER/NAME`."""

from zoo.cli.main import Verb

main = Verb("publish", __name__)
