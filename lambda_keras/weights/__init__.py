"""Where the weights of models come from."""

from lambda_keras.weights.files import load_weights
from lambda_keras.weights.published import PUBLISHED, PublishedWeights

__all__ = ["PUBLISHED", "PublishedWeights", "load_weights"]
