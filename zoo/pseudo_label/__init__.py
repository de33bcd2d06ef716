"""Pseudo-labels: a teacher labels images, and the most confident are selected for training."""
