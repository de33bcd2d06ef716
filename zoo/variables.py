"""Batch normalizations, kernels and number of parameters of a built network."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras


def set_batch_norm(model: "keras.Model", momentum: float | None, synchronized: bool) -> None:
    """Configures batch normalization before a network's first call; momentum None keeps its own."""
    import keras

    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = synchronized
            if momentum is not None:
                layer.momentum = momentum


def kernels(model: "keras.Model") -> list[Any]:
    """Returns the trainable kernels, to which weight decay applies."""
    return [variable for variable in model.trainable_variables if variable.name.endswith("kernel")]


def trainable_parameters(model: "keras.Model") -> int:
    """Returns the number of trainable parameters."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
