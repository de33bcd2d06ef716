"""Networks of the zoo (Keras 3) as backbones of the Model Garden's detectors (tf_keras).

tf_keras sees the variables and the outputs of the network only.
"""

import dataclasses
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from lambda_keras.applications import feature_extractor
from lambda_keras.models.specs import STAGES
from zoo.devices import precision
from zoo.errors import needs_extra
from zoo.registry import create_model, kernels, set_batch_norm

with needs_extra("detection"):
    import tf_keras
    from official.modeling import hyperparams
    from official.vision.configs import backbones
    from official.vision.modeling.backbones import factory

NAME = "lambda_keras"  # type of these backbones in the Model Garden
# The Model Garden's names of feature maps: logarithms of their strides.
LEVELS = dict(zip(("2", "3", "4", "5"), STAGES, strict=True))


@dataclasses.dataclass
class ZooNetwork(hyperparams.Config):
    """Arguments of `zoo.registry.create_model`."""

    name: str = ""
    weights: str | None = None
    overrides: hyperparams.Config = dataclasses.field(default_factory=hyperparams.Config)


@dataclasses.dataclass
class Backbone(backbones.Backbone):
    """Backbones of the Model Garden and of the zoo."""

    type: str | None = NAME
    lambda_keras: ZooNetwork = dataclasses.field(default_factory=ZooNetwork)


class KerasBackbone(tf_keras.Model):
    """A Keras 3 network as a model of tf_keras, from images to a dict of feature maps.

    Images passed `lambda_keras.applications.preprocess_input`; the Model Garden's own normalization
    is the same. Batch statistics are used in training, but never if `trainable` is False. The
    regularizer is a function from a kernel to a term of the loss.
    """

    def __init__(self, network: keras.Model, regularizer: Any = None) -> None:
        super().__init__(name=network.name)
        features: Any = feature_extractor(network)
        self.output_specs = {
            level: tf.TensorShape(features.output[stage].shape) for level, stage in LEVELS.items()
        }
        size = network.input_shape[1]
        found = [size // features.output[stage].shape[1] for stage in STAGES]
        expected = [2 ** int(level) for level in LEVELS]
        if found != expected:
            raise ValueError(
                f"model.name: expected a network with feature maps at strides {expected}. "
                f"Received: {network.name} with strides {found} "
                "(--model.overrides stem=rs gives lambda_resnet14 others)"
            )
        # tf_keras would track the Keras 3 layers of the network as its own, and fail.
        object.__setattr__(self, "features", features)
        # Keys are positions: checkpoints depend on them, and names of layers have counters.
        # `value` is the tf.Variable, which a call would cast to the compute dtype.
        self.network_variables = {
            str(place): variable.value for place, variable in enumerate(features.weights)
        }
        if regularizer is not None:
            for kernel in kernels(features):
                self.add_loss(partial(regularizer, kernel.value))

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        maps = self.features(inputs, training=bool(training) and self.trainable)  # pyright: ignore[reportAttributeAccessIssue]
        return {level: maps[stage] for level, stage in LEVELS.items()}


@factory.register_backbone_builder(NAME)
def build(
    input_specs: Any, backbone_config: Any, norm_activation_config: Any, l2_regularizer: Any = None
) -> KerasBackbone:
    """Builds a backbone for the Model Garden.

    Batch normalization has the momentum and the synchronization of the rest of the detector, layers
    the dtype policy of tf_keras, and kernels the weight decay.
    """
    config = backbone_config.get()
    with precision(tf_keras.mixed_precision.global_policy().name):
        network = create_model(
            config.name,
            include_top=False,
            input_shape=tuple(input_specs.shape[1:]),
            weights=config.weights,
            **config.overrides.as_dict(),
        )
    norm = norm_activation_config
    set_batch_norm(network, norm.norm_momentum, norm.use_sync_bn)
    return KerasBackbone(network, l2_regularizer)
