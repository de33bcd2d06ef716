"""The mixer "two lambda layers" of experiments: a block that the paper advises against (A)."""

from typing import Any

import keras

from lambda_keras.layers import LambdaLayer
from lambda_keras.models.mixers import Mixer

NAME = "two lambda layers"


@keras.saving.register_keras_serializable(package="tools")
class TwoLambdaLayers(LambdaLayer):
    """Two lambda layers in sequence, with batch normalization and ReLU between them.

    Arguments are `LambdaLayer`'s. The first layer has the strides.
    """

    def __init__(self, filters: int, **kwargs: Any):
        super().__init__(filters, **kwargs)
        # An initializer instance would draw the same numbers again: the second layer uses defaults.
        same = {name: kwargs[name] for name in kwargs.keys() & LambdaLayer.arguments().keys()}
        arguments = {
            name: value for name, value in same.items() if not name.endswith("_initializer")
        }
        self.second = LambdaLayer(filters, **{**arguments, "strides": 1}, name="second")
        norms = {"momentum": self.momentum, "epsilon": self.epsilon}
        self.between = keras.layers.BatchNormalization(**norms, name="between")

    def build(self, inputs_shape: Any, context_shape: Any = None) -> None:
        super().build(inputs_shape, context_shape)
        shape = self.compute_output_shape(inputs_shape)
        self.between.build(shape)
        self.second.build(shape)

    def call(self, inputs: Any, context: Any = None, training: bool | None = None) -> Any:
        x = super().call(inputs, context, training=training)
        x = keras.ops.relu(self.between(x, training=training))
        return self.second(x, training=training)


# To be added to `MIXERS` while a network is built.
MIXER = {NAME: Mixer(TwoLambdaLayers, {"scope": 7})}
