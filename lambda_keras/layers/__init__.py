"""Keras layers: the lambda layer and the other building blocks of LambdaResNets."""

from lambda_keras.layers.lambda_layer import LambdaLayer
from lambda_keras.layers.position_embeddings import RelativePositionEmbedding
from lambda_keras.layers.squeeze_excitation import SqueezeExcitation
from lambda_keras.layers.stochastic_depth import StochasticDepth

__all__ = ["LambdaLayer", "RelativePositionEmbedding", "SqueezeExcitation", "StochasticDepth"]
