"""Benchmarks, one file per command: `python -m zoo.benchmark COMMAND --help`."""
