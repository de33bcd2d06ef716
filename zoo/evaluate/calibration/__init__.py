"""Calibration of classifiers: a fitted temperature, and diagrams of reliability."""
