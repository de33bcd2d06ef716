"""Floating-point operations and attention maps of a model."""
