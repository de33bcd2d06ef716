"""Demo page for predictions and lambda maps: `python -m zoo.demo --run runs/FOLDER`."""

from zoo.cli.main import Verb

main = Verb("demo", __name__)
