"""Compiled inference with batch normalization folded."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import fold_batch_normalization


def compiled(model: keras.Model) -> Callable[[Any], np.ndarray]:
    """Compiles a model for inference: `model.predict` without its overhead.

    Compilation takes place at the first call, once for all batch sizes, on JAX once for each. The
    function holds a copy of the weights.

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
    """Returns a model in inference as a function of tensors, with its weights as constants.

    Batch normalization is folded. In its graph, values computed from weights alone, such as tables
    of position embeddings, become constants, too. LiteRT needs that for correct outputs: it ignores
    the zero point of quantized convolution weights that are computed.
    """
    folded = fold_batch_normalization(model)
    weights = [
        [keras.ops.convert_to_numpy(variable.value) for variable in variables]
        for variables in (folded.trainable_variables, folded.non_trainable_variables)
    ]
    return lambda inputs: folded.stateless_call(*weights, inputs, training=False)[0]
