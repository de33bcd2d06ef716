"""Counts the operations of a model: `python -m zoo.flops NAME`."""

from zoo.cli.main import Verb

main = Verb("flops")

if __name__ == "__main__":
    main.run()
