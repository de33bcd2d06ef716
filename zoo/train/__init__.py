"""Training: `python -m zoo.train`."""
