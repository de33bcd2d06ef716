"""Pseudo-labels: a teacher labels images, of which the best are selected for training."""
