"""Evaluation: `python -m zoo.evaluate`."""
