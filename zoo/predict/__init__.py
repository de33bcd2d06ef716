"""Predictions: `python -m zoo.predict`."""
