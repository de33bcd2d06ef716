"""Draws attention maps and lambdas: `python -m zoo.maps photo.jpg --run RUN`."""

from zoo.cli.main import Verb

main = Verb("maps", __name__)
