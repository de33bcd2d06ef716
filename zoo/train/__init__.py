"""Training of models: `python -m zoo.train`."""
