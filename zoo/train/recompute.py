"""Recomputation on JAX: the backward pass keeps only the outputs of residual blocks."""

from collections.abc import Callable
from typing import Any

import keras

from lambda_keras.models.specs import STAGES
from zoo.train.network import replace_layers

BLOCK_OUTPUT = "block"  # name of the activations that recomputation keeps


class Marked(keras.layers.Layer):
    """An activation whose output recomputation keeps."""

    def __init__(self, activation: Any) -> None:
        super().__init__(name=f"{activation.name}_marked", dtype=activation.dtype_policy)
        self.activation = activation

    def call(self, x: Any) -> Any:
        from jax.ad_checkpoint import checkpoint_name  # pyright: ignore[reportMissingImports]

        return checkpoint_name(self.activation(x), BLOCK_OUTPUT)


def mark_blocks(network: keras.Model) -> keras.Model:
    """Returns a network of the same layers in which the outputs of residual blocks are marked."""
    ends = [
        layer.name
        for layer in network.layers
        if isinstance(layer, keras.layers.Activation)
        and (layer.name in STAGES or layer.name.endswith("_out"))
    ]
    if not ends:
        raise ValueError(f"training.recompute: expected a ResNet. Received: {network.name}")
    return replace_layers(network, dict.fromkeys(ends, Marked))


def recomputed(compute: Callable) -> Callable:
    """Returns the function with a backward pass that keeps the outputs marked by `mark_blocks`."""
    import jax  # pyright: ignore[reportMissingImports]

    policy = jax.checkpoint_policies.save_only_these_names(BLOCK_OUTPUT)
    return jax.checkpoint(compute, policy=policy)
