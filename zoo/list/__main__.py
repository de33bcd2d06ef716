"""Lists models, published results or the paper's statements: `python -m zoo.list`."""

from zoo.cli.main import Verb

main = Verb("list", __name__)
