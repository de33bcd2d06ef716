"""Networks in inference as one compiled function, batch normalization folded."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import fold_batch_normalization


def compiled(model: keras.Model) -> Callable[[Any], np.ndarray]:
    """Compiles a model in inference: `model.predict` without its overhead.

    It is compiled once for batches of every size, on JAX once for each size, at the first call. It
    holds a copy of the weights.

    Args:
        model: Network with one input.
    """
    if keras.config.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        infer: Any = jax.jit(with_constants(model))
        return lambda inputs: np.asarray(infer(inputs))
    spec = tf.TensorSpec(model.input_shape, tf.float32)
    infer = tf.function(with_constants(model), input_signature=[spec], autograph=False)
    return lambda inputs: infer(inputs).numpy()


def with_constants(model: keras.Model) -> Callable[[Any], Any]:
    """Returns a model, in inference, as a function of tensors with its weights as constants.

    Batch normalization is folded. In a graph of it, what is computed from weights alone becomes
    constant too: tables of position embeddings are computed once. LiteRT needs that for right
    answers: it takes quantised weights of a convolution that were computed, and so have a zero
    point, as if they had none.
    """
    folded = fold_batch_normalization(model)
    weights = [
        [keras.ops.convert_to_numpy(variable.value) for variable in variables]
        for variables in (folded.trainable_variables, folded.non_trainable_variables)
    ]
    return lambda inputs: folded.stateless_call(*weights, inputs, training=False)[0]
