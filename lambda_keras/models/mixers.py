"""Layers that mix positions in a bottleneck block, in place of its 3x3 convolution.

A mixer is a row of `MIXERS`. The lambda layer is one of them; the others are those that
LambdaNetworks compares it with (Tables 2 to 4).
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import keras

from lambda_keras.layers import (
    AxialAttention,
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    LinearAttention,
    LocalAttention,
)
from lambda_keras.layers.arguments import received
from lambda_keras.models.specs import STAGES, LambdaSpec, ResNetSpec


@dataclass(frozen=True)
class Mixer:
    """A kind of layer in the place of 3x3 convolutions.

    Attributes:
        layer: its class.
        hyper_parameters: arguments of the layer that a network may have values of its own for.
        arguments: those of the layer in a ResNet, as far as they are not the layer's defaults.
    """

    layer: type[keras.layers.Layer]
    hyper_parameters: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_lambda_layer(self) -> bool:
        """Whether its hyper-parameters are those of `LambdaSpec`."""
        return self.layer is LambdaLayer

    @property
    def has_batch_norm(self) -> bool:
        """Whether the layer takes the momentum of batch normalizations."""
        return "momentum" in inspect.signature(self.layer).parameters


_LAMBDA = tuple(one.name for one in fields(LambdaSpec))
_OF_POSITIONS = ("scope", "use_content", "position_embedding", "use_bias", "implementation")
_CONTENT = tuple(name for name in _LAMBDA if name not in _OF_POSITIONS)
_ATTENTION = ("num_heads", "key_dim", "multi_query", "output_projection")
_HALO = ("block_size", "halo_size", "mask_padding", "scale_positions", "strided_queries")
_RANDOM = (*_ATTENTION, "num_features", "seed")

MIXERS = {
    "lambda": Mixer(LambdaLayer, _LAMBDA),
    "content": Mixer(LambdaLayer, _CONTENT, {"position_embedding": None, "use_bias": False}),
    "global": Mixer(GlobalAttention, (*_ATTENTION, "scale_positions")),
    "local": Mixer(LocalAttention, (*_ATTENTION, "scope", "mask_padding")),
    # Blocks that divide the maps of images of 224 pixels.
    "halo": Mixer(HaloAttention, (*_ATTENTION, *_HALO), {"block_size": 7}),
    "axial": Mixer(AxialAttention, ("num_heads", "key_dim", "output_projection")),
    "efficient": Mixer(LinearAttention, _ATTENTION, {"feature_map": "softmax"}),
    "linear": Mixer(LinearAttention, _ATTENTION, {"feature_map": "elu"}),
    "favor": Mixer(LinearAttention, _RANDOM, {"feature_map": "favor"}),
    "relu": Mixer(LinearAttention, _RANDOM, {"feature_map": "relu"}),
}
HYPER_PARAMETERS = {name for mixer in MIXERS.values() for name in mixer.hyper_parameters}


def check_mixer(name: str, arguments: Mapping[str, Any]) -> None:
    """Checks that there is a mixer of this name, and that it has these hyper-parameters.

    Raises:
        ValueError: if not.
    """
    if not isinstance(name, str) or name not in MIXERS:
        raise ValueError(f"expected mixer to be one of {', '.join(MIXERS)}. {received(mixer=name)}")
    known = MIXERS[name].hyper_parameters
    unknown = {key: value for key, value in arguments.items() if key not in known}
    if unknown:
        raise ValueError(
            f"expected arguments that mixer={name!r} has: {', '.join(known)}. {received(**unknown)}"
        )


def of_stage(value: Any, stage: int) -> Any:
    """An argument of attention layers, which is one value, or four by stage."""
    return value[stage] if isinstance(value, (tuple, list)) else value


class AttentionLayers:
    """Makes the attention layers of a network, as `LambdaLayers` makes lambda layers.

    Args:
        spec: the network, whose mixer is no lambda layer.
        places: for each attention layer, the number of its stage and the depth of its outputs.
        inputs: images of the network.

    Raises:
        ValueError: if the hyper-parameters do not fit the network; nothing is built then.
    """

    def __init__(self, spec: ResNetSpec, places: Sequence[tuple[int, int]], inputs):
        mixer = MIXERS[spec.mixer]
        self.layer = mixer.layer
        self.arguments = {**mixer.arguments, **spec.mixer_arguments}
        if mixer.has_batch_norm:
            self.arguments["momentum"] = spec.batch_norm_momentum
        for name, value in self.arguments.items():
            if isinstance(value, (tuple, list)) and len(value) != len(STAGES):
                raise ValueError(
                    f"expected {name} to be one value, or one for each of the stages {STAGES}. "
                    f"{received(**{name: value})}"
                )
        # Hyper-parameters that nothing uses may not be wrong either.
        for stage, filters in dict.fromkeys(places) or [(0, 1024)]:
            strided = stage > 0 and 1 in spec.mixer_blocks[stage]
            layer: Any = self._layer(filters, stage, strides=2 if strided else 1)
            if places and layer.fixed_grid and None in inputs.shape[1:3]:
                raise ValueError(
                    f"expected input_shape of known height and width for mixer={spec.mixer!r}, "
                    "which has embeddings for every offset of a map. Received: input_shape="
                    f"{tuple(inputs.shape[1:])}"
                )

    def __call__(self, x, filters: int, stage: int, **arguments):
        """A new layer of a stage, with other arguments of its class, on a feature map."""
        return self._layer(filters, stage, **arguments)(x)

    def _layer(self, filters, stage, **arguments) -> keras.layers.Layer:
        own = {name: of_stage(value, stage) for name, value in self.arguments.items()}
        return self.layer(filters, **own, **arguments)
