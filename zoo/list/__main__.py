"""Lists models or published results: `python -m zoo.list`."""

from zoo.cli.main import Verb

main = Verb("list", __name__)
