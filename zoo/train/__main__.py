"""Trains a network: `python -m zoo.train --config NAME`."""

from zoo.cli.main import Verb

main = Verb("train")

if __name__ == "__main__":
    main.run()
