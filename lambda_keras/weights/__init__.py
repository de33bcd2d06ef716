"""Sources of pretrained weights: published ones, files, the hub."""

from lambda_keras.weights.files import load_weights
from lambda_keras.weights.named import save_safetensors
from lambda_keras.weights.published import PUBLISHED, PublishedWeights, find_published

__all__ = ["PUBLISHED", "PublishedWeights", "find_published", "load_weights", "save_safetensors"]
