"""Attention layers that LambdaNetworks compares with, called like `LambdaLayer`."""

from lambda_keras.layers.attention.augmented_convolution import AugmentedConvolution
from lambda_keras.layers.attention.axial_attention import AxialAttention
from lambda_keras.layers.attention.double_attention import DoubleAttention
from lambda_keras.layers.attention.linear_attention import LinearAttention
from lambda_keras.layers.attention.relative_attention import (
    GlobalAttention,
    HaloAttention,
    LocalAttention,
)

__all__ = [
    "AugmentedConvolution",
    "AxialAttention",
    "DoubleAttention",
    "GlobalAttention",
    "HaloAttention",
    "LinearAttention",
    "LocalAttention",
]
