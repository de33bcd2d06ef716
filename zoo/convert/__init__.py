"""Weights from elsewhere as a `.weights.h5` file."""
