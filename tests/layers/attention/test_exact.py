"""Every attention layer equals its equations in NumPy float64: outputs and gradients."""

import functools

import pytest
from support import attention_reference as reference

from lambda_keras.layers import (
    AugmentedConvolution,
    AxialAttention,
    DoubleAttention,
    GlobalAttention,
    HaloAttention,
    LinearAttention,
    LocalAttention,
)

# Layer, equations, arguments of both.
KINDS = {
    "global": (GlobalAttention, reference.global_attention, {}),
    "local": (LocalAttention, reference.local_attention, {"scope": 3}),
    "halo": (HaloAttention, reference.halo_attention, {"block_size": 2, "halo_size": 1}),
    "axial": (AxialAttention, reference.axial_attention, {}),
    "augmented": (AugmentedConvolution, reference.augmented_convolution, {"value_filters": 4}),
    "double": (DoubleAttention, reference.double_attention, {}),
    "softmax": (LinearAttention, reference.linear_attention, {"feature_map": "softmax"}),
    "elu": (LinearAttention, reference.linear_attention, {"feature_map": "elu"}),
    "favor": (LinearAttention, reference.linear_attention, {"feature_map": "favor"}),
    "relu": (LinearAttention, reference.linear_attention, {"feature_map": "relu"}),
}
# Not of the equations: what weights are and how many.
LAYER_ONLY = ("key_dim", "output_projection", "num_features", "value_filters", "ratio")
# name: (kind, map, other arguments). Depth 5, 8 filters and 2 heads.
CASES = {
    "global": ("global", (4, 3), {}),
    "global_unscaled_positions": ("global", (4, 3), {"scale_positions": False}),
    "global_key_dim": ("global", (4, 3), {"key_dim": 3}),
    "global_multi_query": ("global", (4, 3), {"multi_query": True}),
    "global_strides_and_projection": (
        "global",
        (4, 3),
        {"strides": 2, "output_projection": True},
    ),
    "global_one_pixel": ("global", (1, 1), {}),
    "local": ("local", (4, 3), {}),
    "local_zeros": ("local", (4, 3), {"mask_padding": False}),
    "local_several_blocks": ("local", (9, 5), {"scope": 5}),
    "local_wider_than_the_map": ("local", (2, 3), {"scope": 11}),
    "local_key_dim": ("local", (4, 3), {"key_dim": 2}),
    "local_multi_query": ("local", (4, 3), {"multi_query": True}),
    "local_strides_and_projection": (
        "local",
        (4, 3),
        {"strides": 2, "output_projection": True},
    ),
    "halo": ("halo", (4, 6), {}),
    "halo_zeros": ("halo", (4, 6), {"mask_padding": False}),
    "halo_unscaled_positions": ("halo", (4, 6), {"scale_positions": False}),
    "halo_of_no_divisor": ("halo", (5, 7), {"block_size": 3, "halo_size": 2}),
    "halo_of_no_divisor_zeros": (
        "halo",
        (5, 7),
        {"block_size": 3, "halo_size": 2, "mask_padding": False},
    ),
    "halo_wider_than_a_block": ("halo", (4, 6), {"halo_size": 5}),
    "halo_none": ("halo", (4, 6), {"halo_size": 0}),
    "halo_block_larger_than_the_map": ("halo", (2, 3), {"block_size": 4}),
    "halo_key_dim": ("halo", (4, 6), {"key_dim": 3}),
    "halo_multi_query": ("halo", (4, 6), {"multi_query": True}),
    "halo_strides_and_projection": (
        "halo",
        (4, 6),
        {"strides": 2, "output_projection": True},
    ),
    "halo_strided_queries": (
        "halo",
        (8, 4),
        {"block_size": 4, "strides": 2, "strided_queries": True, "mask_padding": False},
    ),
    "halo_strided_queries_of_no_divisor": (
        "halo",
        (7, 5),
        {"block_size": 4, "strides": 2, "strided_queries": True},
    ),
    "axial": ("axial", (4, 3), {}),
    "axial_key_dim": ("axial", (4, 3), {"key_dim": 3}),
    "axial_strides_and_projection": (
        "axial",
        (4, 3),
        {"strides": 2, "output_projection": True},
    ),
    "axial_training": ("axial", (4, 3), {"training": True}),
    "augmented": ("augmented", (4, 3), {"key_dim": 3}),
    "augmented_strides": ("augmented", (5, 6), {"strides": 2, "key_dim": 3}),
    "augmented_pool": ("augmented", (4, 6), {"attention_pool": 2, "key_dim": 3}),
    "augmented_pool_and_strides": (
        "augmented",
        (9, 6),
        {"attention_pool": 2, "strides": 2, "key_dim": 3},
    ),
    "double": ("double", (4, 3), {}),
    "double_training": ("double", (4, 3), {"training": True}),
    "double_ratio": ("double", (4, 3), {"ratio": 0.8}),
    **{
        f"{name}{suffix}": (name, (4, 3), arguments)
        for name in ("softmax", "elu", "favor", "relu")
        for suffix, arguments in {
            "": {},
            "_key_dim": {"key_dim": 3},
            "_multi_query": {"multi_query": True},
            "_strides_and_projection": {"strides": 2, "output_projection": True},
        }.items()
    },
    "elu_epsilon": ("elu", (4, 3), {"epsilon": 0.1}),
    "favor_epsilon": ("favor", (4, 3), {"epsilon": 1e-2}),
    "relu_epsilon": ("relu", (4, 3), {"epsilon": 0.1}),
}


@pytest.mark.parametrize(("kind", "grid", "arguments"), CASES.values(), ids=CASES)
def test_equals_the_equations(kind, grid, arguments):
    layer_class, equations, defaults = KINDS[kind]
    arguments = {"num_heads": 2, **defaults, **arguments}
    training = arguments.pop("training", False)
    if layer_class is LinearAttention:
        arguments["num_features"] = 6
    if layer_class is DoubleAttention:
        del arguments["num_heads"]
        layer = layer_class(**arguments)
    else:
        layer = layer_class(8, **arguments)
    arguments = {name: value for name, value in arguments.items() if name not in LAYER_ONLY}
    if layer_class is LinearAttention:
        arguments["epsilon"] = layer.epsilon
    if layer_class in (AxialAttention, DoubleAttention):
        arguments["training"] = training
    # Batches of few values have statistics with large derivatives.
    reference.assert_equals_equations(
        layer, (2, *grid, 5), functools.partial(equations, **arguments), training
    )
