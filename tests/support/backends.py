"""Gradients of a Keras layer on whichever backend the tests run."""

import keras
import numpy as np
import pytest


def elsewhere(names, chosen) -> list:
    """All names on TensorFlow; of other backends the chosen ones, and the rest as slow."""
    often = keras.backend.backend() == "tensorflow"
    return [
        name if often or name in chosen else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


def slow_elsewhere(test):
    """Marks a test as slow on other backends than TensorFlow."""
    return test if keras.backend.backend() == "tensorflow" else pytest.mark.slow(test)


def of_unknown_sizes(function, *arrays) -> np.ndarray:
    """Output for arrays whose axes but the last are of any size to a graph, where there are graphs.

    As an exported model has it.
    """
    if keras.backend.backend() != "tensorflow":
        return keras.ops.convert_to_numpy(function(*arrays))
    import tensorflow as tf

    shapes = [(*[None] * (array.ndim - 1), array.shape[-1]) for array in arrays]
    call = tf.function(function, autograph=False)
    return call.get_concrete_function(*map(tf.TensorSpec, shapes))(
        *map(tf.constant, arrays)
    ).numpy()


class Applied(keras.layers.Layer):
    """A function of tensors in the layer's dtype, as a layer; its outputs are in float32."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.built = True

    def call(self, first, *others):
        return keras.ops.cast(self.function(first, *others), "float32")


def counts_memory() -> bool:
    """Whether the backend counts memory: TensorFlow on a CPU does with oneDNN's allocator."""
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    try:
        tf.config.experimental.get_memory_info("CPU:0")
    except ValueError:
        return False
    return True


def output_and_gradients(layer, inputs, cotangent, **call):
    """Output of `layer(*inputs, **call)`, and gradients of `sum(cotangent * output)`.

    Args:
        layer: built layer.
        inputs: list of NumPy arrays, the tensors to differentiate by besides the weights.
        cotangent: NumPy array of the shape of the output.
        **call: further call arguments.

    Returns:
        `(output, gradients of the inputs, gradients of layer.trainable_variables)`.
    """
    gradients = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    return gradients[keras.backend.backend()](layer, inputs, cotangent, call)


def _tensorflow(layer, inputs, cotangent, call):
    import tensorflow as tf

    inputs = [tf.Variable(array) for array in inputs]
    with tf.GradientTape() as tape:
        output = layer(*[tf.convert_to_tensor(variable) for variable in inputs], **call)
        scalar = tf.reduce_sum(output * cotangent)
    weights = [variable.value for variable in layer.trainable_variables]
    gradients = tape.gradient(scalar, inputs + weights)
    arrays = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
    return output.numpy(), arrays[: len(inputs)], arrays[len(inputs) :]


def _jax(layer, inputs, cotangent, call):
    import jax

    from zoo.backend import stateless_call

    weights = [variable.value for variable in layer.trainable_variables]
    state = [variable.value for variable in layer.non_trainable_variables]

    def scalar(inputs, weights):
        output, _ = stateless_call(layer, weights, state, *inputs, **call)
        return (output * cotangent).sum(), output

    inputs = [jax.numpy.asarray(array) for array in inputs]
    # One program: hundreds of operations, compiled one by one, take a minute.
    grad = jax.jit(jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True))
    (_, output), (by_inputs, by_weights) = grad(inputs, weights)
    return np.array(output), list(map(np.array, by_inputs)), list(map(np.array, by_weights))


def _torch(layer, inputs, cotangent, call):
    import torch

    inputs = [torch.tensor(array, requires_grad=True) for array in inputs]
    weights = [variable.value for variable in layer.trainable_variables]
    output = layer(*inputs, **call)
    gradients = torch.autograd.grad((output * torch.tensor(cotangent)).sum(), inputs + weights)
    arrays = [gradient.numpy() for gradient in gradients]
    output = keras.ops.convert_to_numpy(output)  # NumPy has no bfloat16
    return output, arrays[: len(inputs)], arrays[len(inputs) :]
