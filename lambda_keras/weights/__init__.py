"""Where the weights of models come from."""

from lambda_keras.weights.files import load_weights

__all__ = ["load_weights"]
