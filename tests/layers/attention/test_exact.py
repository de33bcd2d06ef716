"""Every attention layer equals its equations in NumPy float64: outputs and gradients."""

import functools

import pytest
from support import attention_reference as reference
from support.arrays import normal
from support.reference import assert_equals_equations

from lambda_keras.layers import attention

SIZES = {"filters": 8, "num_heads": 2}
# Layer, equations, arguments of both.
KINDS = {
    "global": (attention.GlobalAttention, reference.global_attention, SIZES),
    "local": (attention.LocalAttention, reference.local_attention, {**SIZES, "scope": 3}),
    "halo": (
        attention.HaloAttention,
        reference.halo_attention,
        {**SIZES, "block_size": 2, "halo_size": 1},
    ),
    "axial": (attention.AxialAttention, reference.axial_attention, SIZES),
    "augmented": (
        attention.AugmentedConvolution,
        reference.augmented_convolution,
        {**SIZES, "value_filters": 4},
    ),
    "double": (attention.DoubleAttention, reference.double_attention, {}),
    **{
        name: (
            attention.LinearAttention,
            reference.linear_attention,
            {**SIZES, "feature_map": name, "num_features": 6},
        )
        for name in ("softmax", "elu", "favor", "relu")
    },
}
# Not of the equations: what weights are and how many.
LAYER_ONLY = ("filters", "key_dim", "output_projection", "num_features", "value_filters", "ratio")


def case(kind, *grid, **arguments):
    return kind, grid, arguments


STRIDED = {"strides": 2, "strided_queries": True}
PROJECTED = {"strides": 2, "output_projection": True}
COMMON = {
    "": {},
    "_key_dim": {"key_dim": 2},
    "_multi_query": {"multi_query": True},
    "_strides_and_projection": PROJECTED,
}
# Inputs of depth 5.
CASES = {
    **{
        f"{kind}{name}": case(kind, 4, 6 if kind == "halo" else 3, **arguments)
        for kind in ("global", "local", "halo", "softmax", "elu", "favor", "relu")
        for name, arguments in COMMON.items()
    },
    "global_unscaled_positions": case("global", 4, 3, scale_positions=False),
    "global_one_pixel": case("global", 1, 1),
    "local_zeros": case("local", 4, 3, mask_padding=False),
    "local_several_blocks": case("local", 9, 5, scope=5),
    "local_wider_than_the_map": case("local", 2, 3, scope=11),
    "halo_zeros": case("halo", 4, 6, mask_padding=False),
    "halo_unscaled_positions": case("halo", 4, 6, scale_positions=False),
    "halo_of_no_divisor": case("halo", 5, 7, block_size=3, halo_size=2),
    "halo_of_no_divisor_zeros": case("halo", 5, 7, block_size=3, halo_size=2, mask_padding=False),
    "halo_wider_than_a_block": case("halo", 4, 6, halo_size=5),
    "halo_none": case("halo", 4, 6, halo_size=0),
    "halo_block_larger_than_the_map": case("halo", 2, 3, block_size=4),
    "halo_strided_queries": case("halo", 8, 4, block_size=4, mask_padding=False, **STRIDED),
    "halo_strided_queries_of_no_divisor": case("halo", 7, 5, block_size=4, **STRIDED),
    "axial": case("axial", 4, 3),
    "axial_key_dim": case("axial", 4, 3, key_dim=3),
    "axial_strides_and_projection": case("axial", 4, 3, **PROJECTED),
    "axial_training": case("axial", 4, 3, training=True),
    "augmented": case("augmented", 4, 3, key_dim=3),
    "augmented_strides": case("augmented", 5, 6, strides=2, key_dim=3),
    "augmented_pool": case("augmented", 4, 6, attention_pool=2, key_dim=3),
    "augmented_pool_and_strides": case("augmented", 9, 6, attention_pool=2, strides=2, key_dim=3),
    "double": case("double", 4, 3),
    "double_training": case("double", 4, 3, training=True),
    "double_ratio": case("double", 4, 3, ratio=0.8),
    "elu_epsilon": case("elu", 4, 3, epsilon=0.1),
    "favor_epsilon": case("favor", 4, 3, epsilon=0.01),
    "relu_epsilon": case("relu", 4, 3, epsilon=0.1),
}


def test_every_attention_layer_has_its_equations():
    assert {kind[0].__name__ for kind in KINDS.values()} == {*attention.__all__}
    assert {kind for kind, *_ in CASES.values()} == KINDS.keys()


@pytest.mark.parametrize(("kind", "grid", "arguments"), CASES.values(), ids=CASES)
def test_equals_the_equations(kind, grid, arguments):
    layer_class, equations, defaults = KINDS[kind]
    training, arguments = arguments.get("training", False), {**defaults, **arguments}
    layer = layer_class(**{name: one for name, one in arguments.items() if name != "training"})
    if layer_class is attention.LinearAttention:
        arguments["epsilon"] = layer.epsilon
    arguments = {name: value for name, value in arguments.items() if name not in LAYER_ONLY}
    equations = functools.partial(equations, **arguments)
    assert_equals_equations(layer, [normal(2, *grid, 5)], equations, training)
