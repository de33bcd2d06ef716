"""Sources of pretrained weights: published ones, files, the Hugging Face Hub."""

from lambda_keras.models.specs import PublishedWeights, find_published, is_published_name
from lambda_keras.weights.files import load_weights, save_safetensors

__all__ = [
    "PublishedWeights",
    "find_published",
    "is_published_name",
    "load_weights",
    "save_safetensors",
]
