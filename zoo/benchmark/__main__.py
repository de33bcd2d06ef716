"""Runs a benchmark command: `python -m zoo.benchmark layer --help`."""

from zoo.cli.main import Verb

main = Verb("benchmark")

if __name__ == "__main__":
    main.run()
