"""Conversion of weights to a `.weights.h5` file: `python -m zoo.convert`."""
