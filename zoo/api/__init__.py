"""The commands as functions: `from zoo.api import evaluate, export, load, predict, train`.

Settings are the same as for the commands. Training and evaluation run on TensorFlow, or on JAX with
KERAS_BACKEND=jax set before Keras is imported; detectors need TensorFlow.
"""

from zoo.api.functions import evaluate, export, load, load_classifier, predict, train

__all__ = ["evaluate", "export", "load", "load_classifier", "predict", "train"]
