"""The commands as functions: `from zoo.api import evaluate, load_classifier, train`.

Settings are those of the commands. TensorFlow trains and evaluates, or JAX with KERAS_BACKEND=jax
set before Keras is imported.
"""

from zoo.api.functions import evaluate, load_classifier, train

__all__ = ["evaluate", "load_classifier", "train"]
