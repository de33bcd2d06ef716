"""Layers that mix positions in a bottleneck block, in place of its 3x3 convolution.

A mixer is a row of `MIXERS`: the lambda layer, and the layers that LambdaNetworks compares with it
(Tables 2 to 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lambda_keras.layers import (
    AugmentedConvolution,
    AxialAttention,
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    LinearAttention,
    LocalAttention,
    RelativePositionEmbedding,
)
from lambda_keras.layers.arguments import check, check_choices
from lambda_keras.layers.base import Layer
from lambda_keras.layers.position_embeddings import standardize_scope
from lambda_keras.models.specs import STAGES, LambdaSpec, MobileNetSpec, ResNetSpec


@dataclass(frozen=True)
class Mixer:
    """A kind of layer in the place of 3x3 convolutions."""

    layer: type[Layer]
    hyper_parameters: tuple[str, ...]  # arguments of the layer that a network may set
    # Arguments of the layer in a network that differ from its defaults.
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_lambda_layer(self) -> bool:
        """Whether its hyper-parameters are those of `LambdaSpec`."""
        return self.layer is LambdaLayer

    @property
    def defaults(self) -> dict[str, Any]:
        """Defaults of the hyper-parameters in a network."""
        arguments = {**self.layer.arguments(), **self.arguments}
        return {name: arguments[name] for name in self.hyper_parameters}


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
    # Blocks of 7 divide the maps of images of 224 pixels.
    "halo": Mixer(HaloAttention, (*_ATTENTION, *_HALO), {"block_size": 7}),
    "axial": Mixer(AxialAttention, ("num_heads", "key_dim", "output_projection")),
    # In c3 on maps of half the size (Bello et al., 2019, section 4).
    "augmented": Mixer(
        AugmentedConvolution,
        ("num_heads", "key_dim", "value_filters", "attention_pool"),
        {"attention_pool": (1, 2, 1, 1)},
    ),
    "efficient": Mixer(LinearAttention, _ATTENTION, {"feature_map": "softmax"}),
    "linear": Mixer(LinearAttention, _ATTENTION, {"feature_map": "elu"}),
    "favor": Mixer(LinearAttention, _RANDOM, {"feature_map": "favor"}),
    "relu": Mixer(LinearAttention, _RANDOM, {"feature_map": "relu"}),
}


def check_mixer(name: str, arguments: Mapping[str, Any]) -> None:
    """Checks that there is a mixer of this name, and that it has these hyper-parameters."""
    check_choices(MIXERS, mixer=name)
    known = MIXERS[name].hyper_parameters
    unknown = {key: value for key, value in arguments.items() if key not in known}
    expected = f"arguments that mixer={name!r} has: {', '.join(known)}"
    check(not unknown, expected, **unknown)


def of_stage(value: Any, stage: int) -> Any:
    """The value of a stage of a hyper-parameter, which is one value or four by stage."""
    return value[stage] if isinstance(value, (tuple, list)) else value


class MixerFactory:
    """Makes the mixers of a network, and the table that lambda layers share if they do (Table 4).

    A place is the stage, the depth of the outputs and the strides of a mixer. Nothing is built if
    the hyper-parameters, each one value or four for the stages c2 to c5, do not fit the network.
    """

    def __init__(
        self,
        spec: ResNetSpec | MobileNetSpec,
        layer: type[Layer],
        arguments: Mapping[str, Any],
        places: Sequence[tuple[int, int, int]],
        inputs,
    ):
        known = layer.arguments()
        self.layer, self.table = layer, None
        norms = {"momentum": spec.batch_norm_momentum, "epsilon": spec.batch_norm_epsilon}
        # In other layers, epsilon belongs to no batch normalization.
        self.arguments: dict[str, Any] = {**(norms if "momentum" in known else {}), **arguments}
        for name, value in self.arguments.items():
            fits = not isinstance(value, (tuple, list)) or len(value) == len(STAGES)
            expected = f"{name} to be one value, or one for each of the stages {STAGES}"
            check(fits, expected, **{name: value})
        embedding = self.arguments.get("position_embedding")
        fits = all(of_stage(embedding, stage) != "relation" for stage in range(len(STAGES)))
        expected = "another position_embedding than 'relation': images have no relations"
        check(fits, expected, position_embedding=embedding)
        self.is_shared = embedding == "shared"
        scope = self.arguments.get("scope")
        expected = "scope to be one odd integer for position_embedding='shared'"
        fits = not self.is_shared or isinstance(scope, int)
        check(fits, f"{expected}, which is one table for all stages", scope=scope)
        # Hyper-parameters that no layer uses have to be valid, too.
        for stage in range(len(STAGES)):
            standardize_scope(of_stage(scope, stage))
        # Initializers that draw no seeds, so that the check changes no random numbers.
        unseeded = dict.fromkeys((name for name in known if name.endswith("_initializer")), "zeros")
        for stage, filters, strides in dict.fromkeys(places) or [(0, 1024, 1)]:
            checked: Any = self._layer(filters, stage, strides=strides, **unseeded)
            if not places:
                continue
            of_size = not getattr(checked, "fixed_grid", False) or None not in inputs.shape[1:3]
            expected = f"input_shape of known height and width for {layer.__name__}"
            why = "which has embeddings for every offset of a map"
            check(of_size, f"{expected}, {why}", input_shape=tuple(inputs.shape[1:]))
            checked.check_shapes((*inputs.shape[:-1], filters))

    def __call__(self, x, filters: int, stage: int, **arguments):
        """Applies a new layer of a stage, with further arguments of its class, to a feature map."""
        layer = self._layer(filters, stage, **arguments)
        if not self.is_shared:
            return layer(x)
        if self.table is None:
            sizes = {name: self.arguments[name] for name in ("scope", "key_dim", "intra_depth")}
            self.table = RelativePositionEmbedding(**sizes, name="position_embeddings")(x)
        return layer(x, position_embeddings=self.table)

    def _layer(self, filters, stage, **arguments) -> Layer:
        own = {name: of_stage(value, stage) for name, value in self.arguments.items()}
        return self.layer(filters, **own, **arguments)
