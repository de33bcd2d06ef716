"""The commands as functions: `from zoo.api import evaluate, export, load, predict, train`.

Settings are those of the commands. TensorFlow trains and evaluates, or JAX with KERAS_BACKEND=jax
set before Keras is imported; detectors need TensorFlow.
"""

from zoo.api.functions import evaluate, export, load, load_classifier, predict, train

__all__ = ["evaluate", "export", "load", "load_classifier", "predict", "train"]
