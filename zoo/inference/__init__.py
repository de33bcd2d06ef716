"""Inference: a trained network with labels and preprocessing, and its predictions for images."""
