"""LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602) for Keras 3."""

from lambda_keras import applications, layers

__version__ = "0.1.0"

__all__ = ["applications", "layers"]
