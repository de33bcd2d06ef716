"""Attention layers that LambdaNetworks compares with; they are called as `LambdaLayer`."""

from lambda_keras.layers.attention.axial_attention import AxialAttention
from lambda_keras.layers.attention.global_attention import GlobalAttention
from lambda_keras.layers.attention.halo_attention import HaloAttention
from lambda_keras.layers.attention.linear_attention import LinearAttention
from lambda_keras.layers.attention.local_attention import LocalAttention

__all__ = [
    "AxialAttention",
    "GlobalAttention",
    "HaloAttention",
    "LinearAttention",
    "LocalAttention",
]
