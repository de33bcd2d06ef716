"""Bad arguments, inputs and masks of all layers: one ValueError that says what came."""

import re

import numpy as np
import pytest

from lambda_keras.layers import (
    AxialAttention,
    DoubleAttention,
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    LinearAttention,
    LocalAttention,
    RelativePositionEmbedding,
    SqueezeExcitation,
    StochasticDepth,
)

NAN, INFINITY = float("nan"), float("inf")
INTEGER, BOOL, SCOPE = "expected a positive integer", "expected True or False", "odd integers"

RELATION = {"position_embedding": "relation", "num_relations": 2}


def layer(**arguments):
    return LambdaLayer(**{"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 3, **arguments})


def attention(layer):
    """A layer of 8 filters and 2 heads, unless told."""

    def small(**arguments):
        return layer(**{"filters": 8, "num_heads": 2, **arguments})

    small.__name__ = layer.__name__
    return small


global_attention, local_attention, halo_attention, axial_attention, linear_attention = map(
    attention, (GlobalAttention, LocalAttention, HaloAttention, AxialAttention, LinearAttention)
)


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def called(*shapes, layer=layer, arguments=None, **call):
    """Calls a layer on zeros of some shapes."""
    return lambda: layer(**(arguments or {}))(*[zeros(*shape) for shape in shapes], **call)


def built_for(first, then, layer=layer):
    """Calls one layer on zeros of two shapes."""

    def call(**arguments):
        one = layer(**arguments)
        one(zeros(*first))
        one(zeros(*then))

    return call


# Layer, arguments, what was expected, what came.
CONSTRUCTORS = [
    (layer, {"filters": 0}, INTEGER, "filters=0"),
    (layer, {"filters": "64"}, INTEGER, "filters='64'"),
    (layer, {"filters": True}, INTEGER, "filters=True"),
    (layer, {"filters": 9}, "divisible by num_heads", "filters=9, num_heads=2"),
    (layer, {"num_heads": -1}, INTEGER, "num_heads=-1"),
    (layer, {"num_heads": None}, INTEGER, "num_heads=None"),
    (layer, {"key_dim": 0}, INTEGER, "key_dim=0"),
    (layer, {"key_dim": "4"}, INTEGER, "key_dim='4'"),
    (layer, {"key_dim": 2.0}, INTEGER, "key_dim=2.0"),
    (layer, {"intra_depth": 0}, INTEGER, "intra_depth=0"),
    (layer, {"intra_depth": [1]}, INTEGER, "intra_depth=[1]"),
    (layer, {"strides": 0}, INTEGER, "strides=0"),
    (layer, {"strides": (2, 2)}, INTEGER, "strides=(2, 2)"),
    (layer, {"dilation_rate": 0}, INTEGER, "dilation_rate=0"),
    (layer, {"scope": 2.5}, SCOPE, "scope=2.5"),
    (layer, {"scope": 3.0}, SCOPE, "scope=3.0"),
    (layer, {"scope": 4}, SCOPE, "scope=4"),
    (layer, {"scope": -3}, SCOPE, "scope=-3"),
    (layer, {"scope": True}, SCOPE, "scope=True"),
    (layer, {"scope": ()}, SCOPE, "scope=()"),
    (layer, {"scope": (3, 2)}, SCOPE, "scope=(3, 2)"),
    (layer, {"scope": "7"}, SCOPE, "scope='7'"),
    (layer, {"scope": {3: 5}}, SCOPE, "scope={3: 5}"),
    (layer, {"scope": np.ones((2, 2))}, SCOPE, "scope=array([[1., 1.], [1., 1.]])"),
    (layer, {"multi_query": None}, BOOL, "multi_query=None"),
    (layer, {"use_content": 1}, BOOL, "use_content=1"),
    (layer, {"use_bias": "zeros"}, BOOL, "use_bias='zeros'"),
    (layer, {"use_projection_bias": 1}, BOOL, "use_projection_bias=1"),
    (layer, {"causal": "no"}, BOOL, "causal='no'"),
    (layer, {"causal": True, "strides": 2}, "strides=1 for causal=True", "strides=2"),
    (layer, {"strided_queries": 1}, BOOL, "strided_queries=1"),
    (layer, {"strided_queries": None}, BOOL, "strided_queries=None"),
    (layer, {"causal": True, "implementation": "fourier"}, "for causal=True", "='fourier'"),
    (layer, {"query_normalization": "l2"}, "query_normalization to be one of", "'l2'"),
    (layer, {"key_normalization": "batch"}, "key_normalization to be one of", "'batch'"),
    (layer, {"value_normalization": "softmax"}, "value_normalization to be one of", "'softmax'"),
    (layer, {"position_embedding": "rotary"}, "position_embedding to be one of", "'rotary'"),
    (layer, {"position_embedding": ["relative"]}, "position_embedding to be", "['relative']"),
    (layer, {"implementation": "fast"}, "implementation to be one of", "'fast'"),
    (layer, {"implementation": None}, "implementation to be one of", "None"),
    (
        layer,
        {"position_embedding": "absolute", "implementation": "conv"},
        "for absolute embeddings",
        "implementation='conv'",
    ),
    (
        layer,
        {"use_content": False, "position_embedding": None},
        "a content lambda or position lambdas",
        "use_content=False, position_embedding=None",
    ),
    (layer, {"use_bias": True, "position_embedding": None}, "use_bias=True", "=None"),
    (
        layer,
        {"position_embedding": "shared", "multi_query": False},
        "multi_query=True",
        "multi_query=False",
    ),
    (
        layer,
        {"intra_depth": 2, "implementation": "depthwise_conv"},
        "'conv', 'toeplitz_conv', 'fourier') for intra_depth=2",
        "implementation='depthwise_conv'",
    ),
    *(
        (
            layer,
            {"position_embedding": "relation", "num_relations": number},
            "num_relations, a positive integer",
            f"num_relations={number!r}, position_embedding='relation'",
        )
        for number in (None, 0, -1, 2.0, "2", True)
    ),
    (
        layer,
        {"num_relations": 2},
        "for position_embedding='relation' only",
        "num_relations=2, position_embedding='relative'",
    ),
    (layer, {**RELATION, "implementation": "conv"}, "for relation embeddings", "='conv'"),
    (layer, {"momentum": 2}, "number from 0 to 1", "momentum=2"),
    (layer, {"momentum": -0.1}, "number from 0 to 1", "momentum=-0.1"),
    (layer, {"momentum": NAN}, "number from 0 to 1", "momentum=nan"),
    (layer, {"momentum": "0.9"}, "number from 0 to 1", "momentum='0.9'"),
    (layer, {"epsilon": -1}, "positive number", "epsilon=-1"),
    (layer, {"epsilon": 0}, "positive number", "epsilon=0"),
    (layer, {"epsilon": NAN}, "positive number", "epsilon=nan"),
    (layer, {"epsilon": INFINITY}, "positive number", "epsilon=inf"),
    (layer, {"epsilon": None}, "positive number", "epsilon=None"),
    (RelativePositionEmbedding, {"scope": 6}, SCOPE, "scope=6"),
    (RelativePositionEmbedding, {"scope": 2.5}, SCOPE, "scope=2.5"),
    (RelativePositionEmbedding, {"key_dim": 0}, INTEGER, "key_dim=0"),
    (RelativePositionEmbedding, {"key_dim": "16"}, INTEGER, "key_dim='16'"),
    (RelativePositionEmbedding, {"intra_depth": -1}, INTEGER, "intra_depth=-1"),
    (SqueezeExcitation, {"ratio": 0}, "squeeze ratio in (0, 1]", "ratio=0"),
    (SqueezeExcitation, {"ratio": 1.5}, "squeeze ratio in (0, 1]", "ratio=1.5"),
    (SqueezeExcitation, {"ratio": NAN}, "squeeze ratio in (0, 1]", "ratio=nan"),
    (SqueezeExcitation, {"ratio": "1/4"}, "squeeze ratio in (0, 1]", "ratio='1/4'"),
    (SqueezeExcitation, {"ratio": None}, "squeeze ratio in (0, 1]", "ratio=None"),
    (StochasticDepth, {"rate": 1}, "rate from 0 to 1", "rate=1"),
    (StochasticDepth, {"rate": -0.1}, "rate from 0 to 1", "rate=-0.1"),
    (StochasticDepth, {"rate": NAN}, "rate from 0 to 1", "rate=nan"),
    (StochasticDepth, {"rate": "half"}, "rate from 0 to 1", "rate='half'"),
    (StochasticDepth, {"rate": 0.5, "seed": "a"}, "an integer", "seed='a'"),
    (StochasticDepth, {"rate": 0.5, "seed": 1.5}, "an integer", "seed=1.5"),
    (global_attention, {"filters": 0}, INTEGER, "filters=0"),
    (global_attention, {"filters": 9}, "divisible by num_heads", "filters=9, num_heads=2"),
    (global_attention, {"num_heads": 2.0}, INTEGER, "num_heads=2.0"),
    (global_attention, {"key_dim": 0}, INTEGER, "key_dim=0"),
    (global_attention, {"strides": (2, 2)}, INTEGER, "strides=(2, 2)"),
    (global_attention, {"multi_query": None}, BOOL, "multi_query=None"),
    (global_attention, {"output_projection": 8}, BOOL, "output_projection=8"),
    (global_attention, {"scale_positions": 1}, BOOL, "scale_positions=1"),
    (local_attention, {"scope": 4}, SCOPE, "scope=4"),
    (local_attention, {"scope": None}, "positive odd integer", "scope=None"),
    (local_attention, {"scope": (3, 3)}, "positive odd integer", "scope=(3, 3)"),
    (local_attention, {"key_dim": 3}, "even key_dim", "key_dim=3"),
    (local_attention, {"filters": 6}, "even key_dim", "key_dim=3"),
    (local_attention, {"mask_padding": "zeros"}, BOOL, "mask_padding='zeros'"),
    (halo_attention, {"block_size": 0}, INTEGER, "block_size=0"),
    (halo_attention, {"halo_size": -1}, "integer of at least 0", "halo_size=-1"),
    (halo_attention, {"halo_size": 1.5}, "integer of at least 0", "halo_size=1.5"),
    (halo_attention, {"mask_padding": 0}, BOOL, "mask_padding=0"),
    (halo_attention, {"scale_positions": None}, BOOL, "scale_positions=None"),
    (halo_attention, {"strided_queries": 2}, BOOL, "strided_queries=2"),
    (
        halo_attention,
        {"block_size": 7, "strides": 2, "strided_queries": True},
        "divisible by strides",
        "block_size=7, strides=2",
    ),
    (axial_attention, {"filters": 9}, "divisible by num_heads", "filters=9, num_heads=2"),
    (axial_attention, {"filters": 2}, INTEGER, "key_dim=0"),
    (axial_attention, {"momentum": 2}, "number from 0 to 1", "momentum=2"),
    (axial_attention, {"epsilon": 0}, "positive number", "epsilon=0"),
    *((DoubleAttention, {"ratio": ratio}, "a ratio in (0, 1]", f"={ratio}") for ratio in (0, 2)),
    (DoubleAttention, {"momentum": 2}, "number from 0 to 1", "momentum=2"),
    (DoubleAttention, {"epsilon": 0}, "positive number", "epsilon=0"),
    (linear_attention, {"feature_map": "exp"}, "feature_map to be one of", "'exp'"),
    (linear_attention, {"feature_map": None}, "feature_map to be one of", "None"),
    (linear_attention, {"feature_map": ["elu"]}, "feature_map to be one of", "['elu']"),
    (linear_attention, {"num_features": 0}, INTEGER, "num_features=0"),
    (linear_attention, {"epsilon": -1}, "number of at least 0", "epsilon=-1"),
    (linear_attention, {"epsilon": NAN}, "number of at least 0", "epsilon=nan"),
    (linear_attention, {"seed": None}, "integer of at least 0", "seed=None"),
    (linear_attention, {"seed": -1}, "integer of at least 0", "seed=-1"),
]
MASK = "expected attention_mask"
# Call, what was expected, what came.
CALLS = {
    "no_grid": (called((2, 6)), "grid of 1 to 3 axes", "(2, 6)"),
    "four_axes": (called((1, 2, 2, 2, 2, 6)), "grid of 1 to 3 axes", "(1, 2, 2, 2, 2, 6)"),
    "empty_grid": (called((2, 0, 4, 6)), "at least 1", "(2, 0, 4, 6)"),
    "no_channels": (called((2, 4, 4, 0)), "at least 1", "(2, 4, 4, 0)"),
    "unknown_depth": (lambda: layer().build((None, 4, None)), "known depth", "(None, 4, None)"),
    "unknown_grid_global_scope": (
        lambda: layer(scope=None).build((None, None, 6)),
        "because scope=None",
        "(None,)",
    ),
    "unknown_grid_fourier": (
        lambda: layer(implementation="fourier").build((None, None, 6)),
        "a grid of unknown size",
        "implementation='fourier'",
    ),
    "unknown_grid_absolute": (
        lambda: layer(position_embedding="absolute").build((None, None, 6)),
        "because absolute embeddings",
        "(None,)",
    ),
    "another_depth": (lambda: built_for((2, 4, 6), (2, 4, 5))(), "depths", "(5, 5)"),
    "another_grid": (
        lambda: built_for((2, 4, 6), (2, 5, 6))(scope=None),
        "grids of inputs and context that the position embeddings were built for",
        "((5,), (5,))",
    ),
    "another_rank": (
        lambda: built_for((2, 4, 6), (2, 4, 4, 6))(),
        "a grid of 1 axes",
        "grid=(4, 4)",
    ),
    "scope_of_another_rank": (
        called((2, 5, 6), arguments={"scope": (3, 3)}),
        "one scope for each of the 1 axes",
        "scope=(3, 3)",
    ),
    "video_depthwise": (
        called((1, 2, 2, 2, 6), arguments={"implementation": "depthwise_conv"}),
        "for a grid of 3 axes",
        "implementation='depthwise_conv'",
    ),
    "context_of_another_rank": (
        called((2, 4, 6), (2, 4, 4, 6)),
        "context of the rank",
        "(2, 4, 4, 6)",
    ),
    "context_of_another_batch": (
        called((2, 4, 6), (3, 4, 6)),
        "as many examples as the inputs",
        "(2, 3)",
    ),
    "empty_context": (called((2, 4, 6), (2, 0, 6)), "at least 1", "(2, 0, 6)"),
    "causal_context": (
        called((2, 4, 6), (2, 5, 6), arguments={"causal": True}),
        "on the grid of the inputs",
        "grids=((4,), (5,))",
    ),
    "mask_of_another_batch": (
        called((2, 4, 6), mask=zeros(3, 4, dtype=bool)),
        "mask of shape (2, 4)",
        "(3, 4)",
    ),
    "mask_of_another_grid": (
        called((2, 4, 4, 6), mask=zeros(2, 16, dtype=bool)),
        "mask of shape (2, 4, 4)",
        "(2, 16)",
    ),
    "mask_of_numbers": (
        called((2, 4, 6), mask=zeros(2, 4)),
        "mask of dtype bool",
        "dtype",
    ),
    "mask_is_a_list": (called((2, 4, 6), mask=[True]), "mask to be a tensor", "mask=["),
    "context_mask_of_another_batch": (
        called((2, 4, 6), (2, 5, 6), context_mask=zeros(1, 5, dtype=bool)),
        "context_mask of shape (2, 5)",
        "(1, 5)",
    ),
    "context_mask_without_context": (
        called((2, 4, 6), context_mask=zeros(2, 4, dtype=bool)),
        "a context for the context_mask",
        "context=None",
    ),
    "attention_mask_is_a_list": (
        called((2, 2, 6), attention_mask=[[True, True], [False, True]]),
        "attention_mask to be a tensor",
        "attention_mask=[[",
    ),
    "attention_mask_of_another_size": (
        called((2, 4, 6), attention_mask=zeros(4, 5, dtype=bool)),
        f"{MASK} of shape (4, 4)",
        "(4, 5)",
    ),
    "attention_mask_of_other_examples": (
        called((2, 4, 6), attention_mask=zeros(3, 4, 4, dtype=bool)),
        f"{MASK} of shape (4, 4) or (2, 4, 4)",
        "(3, 4, 4)",
    ),
    "attention_mask_of_heads": (
        called((2, 4, 6), attention_mask=zeros(2, 2, 4, 4, dtype=bool)),
        f"{MASK} of shape (4, 4) or (2, 4, 4)",
        "(2, 2, 4, 4)",
    ),
    "masks_of_examples_einsum": (
        called(
            (2, 4, 6),
            arguments={"implementation": "einsum"},
            attention_mask=zeros(2, 4, 4, dtype=bool),
        ),
        "('auto', 'query_first') for masks or relations of each example",
        "implementation='einsum'",
    ),
    **{
        f"attention_mask_of_{dtype}": (
            called((2, 4, 6), attention_mask=zeros(4, 4, dtype=dtype)),
            f"{MASK} of dtype bool",
            dtype,
        )
        for dtype in ("float32", "int32", "uint8")
    },
    "attention_mask_conv": (
        called(
            (2, 4, 6),
            arguments={"implementation": "conv"},
            attention_mask=zeros(4, 4, dtype=bool),
        ),
        "for an attention_mask",
        "implementation='conv'",
    ),
    "no_relations": (
        called((2, 4, 6), arguments=RELATION),
        "relations to be a tensor",
        "relations=None",
    ),
    "relations_are_a_list": (
        called((2, 2, 6), arguments=RELATION, relations=[[0, 1], [2, 0]]),
        "relations to be a tensor",
        "relations=[[0, 1], [2, 0]]",
    ),
    "relations_of_another_size": (
        called((2, 4, 6), (2, 5, 6), arguments=RELATION, relations=zeros(4, 4, dtype="int32")),
        "relations of shape (4, 5) or (2, 4, 5)",
        "(4, 4)",
    ),
    "relations_of_other_examples": (
        called((2, 4, 6), arguments=RELATION, relations=zeros(3, 4, 4, dtype="int32")),
        "relations of shape (4, 4) or (2, 4, 4)",
        "(3, 4, 4)",
    ),
    "one_hot_relations": (
        called((2, 4, 6), arguments=RELATION, relations=zeros(2, 4, 4, 2, dtype="int32")),
        "relations of shape (4, 4) or (2, 4, 4)",
        "(2, 4, 4, 2)",
    ),
    **{
        f"relations_of_{dtype}": (
            called((2, 4, 6), arguments=RELATION, relations=zeros(4, 4, dtype=dtype)),
            "relations of an integer dtype",
            "dtype",
        )
        for dtype in ("float32", "bool")
    },
    "relations_dense_matmul": (
        called(
            (2, 4, 6),
            arguments={**RELATION, "implementation": "dense_matmul"},
            relations=zeros(2, 4, 4, dtype="int32"),
        ),
        "for masks or relations of each example",
        "implementation='dense_matmul'",
    ),
    "relations_unasked": (
        called((2, 4, 6), relations=zeros(4, 4, dtype="int32")),
        "no relations in the call",
        "position_embedding='relative'",
    ),
    "shared_embeddings_for_relations": (
        called((2, 4, 6), arguments=RELATION, position_embeddings=zeros(2, 1, 3)),
        "no position_embeddings in the call",
        "position_embedding='relation'",
    ),
    "no_shared_embeddings": (
        called((2, 5, 6), arguments={"position_embedding": "shared"}),
        "(3, 1, 3)",
        "None",
    ),
    "shared_embeddings_of_another_scope": (
        called(
            (2, 5, 6),
            arguments={"position_embedding": "shared"},
            position_embeddings=zeros(5, 1, 3),
        ),
        "(3, 1, 3)",
        "(5, 1, 3)",
    ),
    "shared_embeddings_unasked": (
        called((2, 5, 6), position_embeddings=zeros(3, 1, 3)),
        "no position_embeddings in the call",
        "position_embedding='relative'",
    ),
    "table_of_no_grid": (
        called((2, 6), layer=RelativePositionEmbedding),
        "grid of 1 to 3 axes",
        "()",
    ),
    "table_of_an_empty_grid": (
        called((2, 0, 6), layer=RelativePositionEmbedding, arguments={"scope": None}),
        "sizes of at least 1",
        "(0,)",
    ),
    "table_of_another_rank": (
        called((2, 4, 6), layer=RelativePositionEmbedding, arguments={"scope": (3, 3)}),
        "one scope for each of the 1 axes",
        "scope=(3, 3)",
    ),
    **{
        f"{attention.__name__}_{name}": (called(shape, layer=attention), expected, str(shape))
        for attention in (
            global_attention,
            local_attention,
            halo_attention,
            axial_attention,
            linear_attention,
        )
        for name, shape, expected in (
            ("no_map", (2, 4, 6), "(batch, height, width, depth)"),
            ("video", (2, 3, 4, 4, 6), "(batch, height, width, depth)"),
            ("empty_map", (2, 0, 4, 6), "at least 1"),
            ("no_channels", (2, 4, 4, 0), "at least 1"),
        )
    },
    "attention_unknown_depth": (
        lambda: linear_attention().build((None, 4, 4, None)),
        "known depth",
        "(None, 4, 4, None)",
    ),
    "attention_another_depth": (
        lambda: built_for((2, 4, 4, 6), (2, 4, 4, 5), linear_attention)(),
        "the depth that the layer was built for, (6,)",
        "(5,)",
    ),
    "global_attention_unknown_map": (
        lambda: global_attention().build((None, None, 4, 6)),
        "a map of known size",
        "(None, None, 4, 6)",
    ),
    "global_attention_another_map": (
        lambda: built_for((2, 4, 4, 6), (2, 4, 5, 6), global_attention)(),
        "the map and the depth that the layer was built for, (4, 4, 6)",
        "(4, 5, 6)",
    ),
    "axial_attention_unknown_map": (
        lambda: axial_attention().build((None, 4, None, 6)),
        "a map of known size",
        "(None, 4, None, 6)",
    ),
    "axial_attention_another_map": (
        lambda: built_for((2, 4, 6, 6), (2, 6, 4, 6), axial_attention)(),
        "the map and the depth that the layer was built for, (4, 6, 6)",
        "(6, 4, 6)",
    ),
    "squeeze_no_grid": (called((2, 6), layer=SqueezeExcitation), "with a grid", "(2, 6)"),
    "squeeze_unknown_channels": (
        lambda: SqueezeExcitation().build((None, 4, 4, None)),
        "known number of channels",
        "(None, 4, 4, None)",
    ),
    "squeeze_no_channels": (
        called((2, 4, 4, 0), layer=SqueezeExcitation),
        "known number of channels",
        "(2, 4, 4, 0)",
    ),
}


def assert_refused(function, expected, came):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the row has the message)
        function()
    message = str(error.value)
    # Keras puts the arguments of a call below the message of an error in it.
    if in_call := re.match(r"Exception encountered.*\n\n\x1b\[1m(.*)\x1b\[0m\n\n", message):
        message = in_call[1]
    assert "\n" not in message
    said, _, received = message.partition("Received: ")
    assert expected in said
    assert came in received


@pytest.mark.parametrize(
    ("layer", "arguments", "expected", "came"),
    CONSTRUCTORS,
    ids=[f"{row[0].__name__}-{row[3]}" for row in CONSTRUCTORS],
)
def test_bad_constructor_arguments(layer, arguments, expected, came):
    assert_refused(lambda: layer(**arguments), expected, came)


@pytest.mark.parametrize(("function", "expected", "came"), CALLS.values(), ids=CALLS)
def test_bad_inputs(function, expected, came):
    assert_refused(function, expected, came)
