"""Exports: `python -m zoo.export`."""
