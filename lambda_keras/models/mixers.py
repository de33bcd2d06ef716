"""Layers that mix positions in a bottleneck block, in place of its 3x3 convolution.

A mixer is a row of `MIXERS`: the lambda layer, and the layers that LambdaNetworks compares with it
(Tables 2 to 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

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
from lambda_keras.models.specs import STAGES, MobileNetSpec, ResNetSpec

_ByStage = int | Sequence[int]


class LambdaArguments(TypedDict, total=False):
    """Hyper-parameters of lambda layers: each is one value, or four for the stages c2 to c5."""

    num_heads: _ByStage
    key_dim: int | Sequence[int | None] | None
    intra_depth: _ByStage
    scope: int | Sequence[int | None] | None
    multi_query: bool | Sequence[bool]
    use_content: bool | Sequence[bool]
    position_embedding: str | Sequence[str | None] | None
    query_normalization: str | Sequence[str | None] | None
    key_normalization: str | Sequence[str | None] | None
    value_normalization: str | Sequence[str | None] | None
    use_bias: bool | Sequence[bool]
    implementation: str | Sequence[str]
    strided_queries: bool | Sequence[bool]


class MixerArguments(LambdaArguments, total=False):
    """Hyper-parameters of all mixers: arguments of their layers that a network may set."""

    output_projection: bool | Sequence[bool]
    scale_positions: bool | Sequence[bool]
    mask_padding: bool | Sequence[bool]
    block_size: _ByStage
    halo_size: _ByStage
    value_filters: int | Sequence[int | None] | None
    attention_pool: _ByStage
    num_features: _ByStage
    seed: _ByStage


@dataclass(frozen=True)
class Mixer:
    """A kind of layer in the place of 3x3 convolutions."""

    layer: type[Layer]
    # Arguments of the layer in a network that differ from its defaults.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # hyper-parameters of the layer that make no difference

    @property
    def defaults(self) -> dict[str, Any]:
        """The hyper-parameters that a network may set, with their defaults in a network."""
        names = MixerArguments.__annotations__.keys() - {*self.unused}
        arguments = {**self.layer.arguments(), **self.arguments}
        return {name: value for name, value in arguments.items() if name in names}


_POSITIONS = ("scope", "use_content", "position_embedding", "use_bias", "implementation")
_RANDOM = ("num_features", "seed")

MIXERS = {
    "lambda": Mixer(LambdaLayer),
    "content": Mixer(LambdaLayer, {"position_embedding": None}, _POSITIONS),
    "global": Mixer(GlobalAttention),
    "local": Mixer(LocalAttention),
    "halo": Mixer(HaloAttention, {"block_size": 7}),  # divides the maps of images of 224 pixels
    "axial": Mixer(AxialAttention),
    # In c3, attention is on maps of half the size (Bello et al., 2019, section 4).
    "augmented": Mixer(AugmentedConvolution, {"attention_pool": (1, 2, 1, 1)}),
    "efficient": Mixer(LinearAttention, {"feature_map": "softmax"}, _RANDOM),
    "linear": Mixer(LinearAttention, {"feature_map": "elu"}, _RANDOM),
    "favor": Mixer(LinearAttention, {"feature_map": "favor"}),
    "relu": Mixer(LinearAttention, {"feature_map": "relu"}),
}


def check_mixer(name: str, arguments: Mapping[str, Any]) -> None:
    """Checks that there is a mixer of this name, and that it has these hyper-parameters."""
    check_choices(MIXERS, mixer=name)
    known = MIXERS[name].defaults
    unknown = {key: value for key, value in arguments.items() if key not in known}
    expected = f"arguments that mixer={name!r} has: {', '.join(known)}"
    check(not unknown, expected, **unknown)


def select_stage(value: Any, stage: int) -> Any:
    """Value of a hyper-parameter at a stage: one value for all, or four by stage."""
    return value[stage] if isinstance(value, (tuple, list)) else value


class MixerFactory:
    """Makes the mixers of a network, and the table that lambda layers may share (Table 4).

    A place is the stage, the depth of the outputs and the strides of a mixer. Hyper-parameters,
    each one value or four for the stages c2 to c5, are checked before anything is built.
    """

    def __init__(
        self, spec: ResNetSpec | MobileNetSpec, places: Sequence[tuple[int, int, int]], inputs
    ):
        mixer = MIXERS[str(spec.mixer)]
        known = mixer.layer.arguments()
        self.layer, self.table = mixer.layer, None
        norms = {"momentum": spec.batch_norm_momentum, "epsilon": spec.batch_norm_epsilon}
        # In other layers, epsilon belongs to no batch normalization.
        arguments = {**(norms if "momentum" in known else {}), **mixer.defaults, **mixer.arguments}
        arguments |= spec.arguments.get(str(spec.mixer), {})
        for name, value in arguments.items():
            fits = not isinstance(value, (tuple, list)) or len(value) == len(STAGES)
            expected = f"{name} to be one value, or one for each of the stages {STAGES}"
            check(fits, expected, **{name: value})
        embedding, scope = (arguments.get(name) for name in ("position_embedding", "scope"))
        self.arguments = [
            {name: select_stage(value, stage) for name, value in arguments.items()}
            for stage in range(len(STAGES))
        ]
        fits = all(
            stage_arguments.get("position_embedding") != "relation"
            for stage_arguments in self.arguments
        )
        expected = "another position_embedding than 'relation': images have no relations"
        check(fits, expected, position_embedding=embedding)
        self.is_shared = embedding == "shared"
        expected = "scope to be one odd integer for position_embedding='shared'"
        fits = not self.is_shared or isinstance(scope, int)
        check(fits, f"{expected}, which is one table for all stages", scope=scope)
        # Hyper-parameters that no layer uses have to be valid, too.
        for stage_arguments in self.arguments:
            standardize_scope(stage_arguments.get("scope"))
        # These initializers draw no seeds, so the check changes no random numbers.
        unseeded = dict.fromkeys((name for name in known if name.endswith("_initializer")), "zeros")
        for stage, filters, strides in dict.fromkeys(places) or [(0, 1024, 1)]:
            layer_arguments = {**self.arguments[stage], **unseeded, "strides": strides}
            checked: Any = self.layer(filters, **layer_arguments)
            if not places:
                continue
            is_sized = not getattr(checked, "fixed_grid", False) or None not in inputs.shape[1:3]
            expected = f"input_shape of known height and width for {self.layer.__name__}"
            why = "which has embeddings for every offset of a map"
            check(is_sized, f"{expected}, {why}", input_shape=tuple(inputs.shape[1:]))
            checked.check_shapes((*inputs.shape[:-1], filters))

    def __call__(self, x, filters: int, stage: int, **arguments):
        """Applies a new layer of a stage, with further arguments of its class, to a feature map."""
        stage_arguments = self.arguments[stage]
        layer = self.layer(filters, **stage_arguments, **arguments)
        if not self.is_shared:
            return layer(x)
        if self.table is None:
            sizes = {name: stage_arguments[name] for name in ("scope", "key_dim", "intra_depth")}
            self.table = RelativePositionEmbedding(**sizes, name="position_embeddings")(x)
        return layer(x, position_embeddings=self.table)
