"""Keras layers: the lambda layer, attention layers, and other building blocks of LambdaResNets."""

from lambda_keras.layers import attention
from lambda_keras.layers.attention import *  # noqa: F403
from lambda_keras.layers.batch_normalization import BatchNormalization
from lambda_keras.layers.lambda_cell import LambdaCell
from lambda_keras.layers.lambda_layer import LambdaLayer
from lambda_keras.layers.position_embeddings import RelativePositionEmbedding
from lambda_keras.layers.squeeze_excitation import SqueezeExcitation
from lambda_keras.layers.stochastic_depth import StochasticDepth

__all__ = [
    "BatchNormalization",
    "LambdaCell",
    "LambdaLayer",
    "RelativePositionEmbedding",
    "SqueezeExcitation",
    "StochasticDepth",
]
__all__ += attention.__all__
