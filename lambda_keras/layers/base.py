"""Base class of the layers, whose configuration is their arguments, and what several share."""

import inspect
import itertools
from typing import Any

import keras
from keras import initializers, ops

# Kinds of operations in the results of `count_flops`; then parts of lambda and attention layers.
CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"


class Layer(keras.layers.Layer):
    """A layer that keeps each argument as an attribute, from which `get_config` reads it."""

    @classmethod
    def arguments(cls) -> dict[str, Any]:
        """Arguments and their defaults, without those of `keras.layers.Layer`."""
        found: dict[str, Any] = {}
        for base in cls.__mro__[: cls.__mro__.index(keras.layers.Layer)]:
            if "__init__" in vars(base):
                _, *parameters = inspect.signature(base.__init__).parameters.values()
                for one in parameters:
                    if one.kind is not one.VAR_KEYWORD:
                        found.setdefault(one.name, one.default)
        return found

    def get_config(self):
        config = {name: getattr(self, name) for name in self.arguments()}
        for name, value in config.items():
            if name.endswith(("_initializer", "_regularizer")):
                config[name] = keras.saving.serialize_keras_object(value)
        return {**super().get_config(), **config}


def fan_in(scale: float = 1.0):
    """Initializer `N(0, (scale / fan_in)^1/2)` (E.1)."""
    return initializers.VarianceScaling(
        scale=scale, mode="fan_in", distribution="untruncated_normal"
    )


def inner_dense(layer, name: str, depth: int, units: int, **arguments) -> keras.layers.Dense:
    """A built dense layer within a layer, which has its dtype policy."""
    shared = {"trainable": layer.trainable, "dtype": layer.dtype_policy, "name": name}
    dense = keras.layers.Dense(units, **arguments, **shared)
    dense.build((None, depth))
    return dense


def project(inputs, kernels):
    """`(b, *grid, d)` -> `(b, n, units)` for each kernel `(d, units)`, by a single product."""
    batch, *_, depth = ops.shape(inputs)
    kernel = ops.concatenate([ops.convert_to_tensor(kernel) for kernel in kernels], axis=1)
    projected = ops.matmul(ops.reshape(inputs, (-1, depth)), kernel)
    projected = ops.reshape(projected, (batch, -1, kernel.shape[1]))
    ends = list(itertools.accumulate(kernel.shape[1] for kernel in kernels))
    return ops.split(projected, ends[:-1], axis=-1) if len(kernels) > 1 else [projected]
