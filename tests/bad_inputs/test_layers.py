"""Bad arguments, inputs and masks of all layers: one ValueError that says what came."""

import re

import numpy as np
import pytest
from keras.config import backend

from lambda_keras import layers
from lambda_keras.layers.base import constraints_of
from lambda_keras.layers.pooling import SymmetricMaxPooling2D

NAN, INFINITY = float("nan"), float("inf")
NORMS = "normalization to be one of batch, softmax, batch_softmax, None"
POSITIONS = "position_embedding to be one of relative, absolute, relation, shared, None"
FEATURES = "feature_map to be one of softmax, elu, favor, relu"
# Kind of argument: what is expected, values that are refused, values at the ends that are not.
KINDS = {
    "positive": ("a positive integer", (0, -1, 2.0, "4", True, [1], (2, 2)), (1,)),
    "count": ("an integer of at least 0", (-1, 1.5, None, True), (0,)),
    "flag": ("True or False", (1, None, "no"), (True, False)),
    "ratio": ("a ratio in (0, 1]", (0, 1.5, NAN, "1/4", None, True), (1, 1e-3)),
    "momentum": ("a number from 0 to 1", (2, -0.1, NAN, "0.9"), (0, 1)),
    "epsilon": ("a positive number", (-1, 0, NAN, INFINITY, None), (1e-9,)),
    "rate": ("a rate from 0 to 1, below 1", (1, -0.1, NAN, "half"), (0,)),
    "seed": ("an integer", ("a", 1.5, True), (None, 3)),
    "integer": ("an integer", ("a", 1.5, True, None, NAN), (1,)),
    "keras": ("None, or a Keras ", ("x", 5, True, [], {}, b"x"), (None,)),
    "number": ("a number of at least 0", (-1, NAN, INFINITY, "1"), (None, 0)),
    "scope": (
        "scope to be None or positive odd integers",
        (2.5, 3.0, 4, -3, True, (), (3, 2), "7", {3: 5}, np.ones((2, 2))),
        (1, None, [3, 5]),
    ),
    "local_scope": ("a positive odd integer", (4, 0, None, (3, 3)), (1,)),
    "value_norm": ("value_normalization to be one of batch, None", ("softmax",), (None,)),
    "key_norm": ("key_normalization to be one of softmax, l2, None", ("batch",), ("l2", None)),
    "query_norm": (f"query_{NORMS}", ("l2", ["batch"]), (None,)),
    "position": (POSITIONS, ("rotary", ["relative"], np.ones(2)), ("absolute", "shared", None)),
    "implementation": ("implementation to be one of auto, einsum, ", ("fast", None), ("conv",)),
    "feature_map": (FEATURES, ("exp", None, ["elu"]), ("relu",)),
}
SIZES = {"filters": 8, "num_heads": 1}
# Layer, its arguments, kinds of arguments with their names. Keras has `synchronized=True` on
# TensorFlow alone.
NORM = "momentum: momentum, epsilon: epsilon"
OF_NORM = "center scale renorm" + " synchronized" * (backend() == "tensorflow")
OF_LAMBDA = (
    "positive: filters num_heads key_dim intra_depth strides dilation_rate, scope: scope, "
    "flag: multi_query use_content use_bias use_projection_bias causal strided_queries, "
    "implementation: implementation, position: position_embedding, "
    "query_norm: query_normalization, key_norm: key_normalization, "
    "value_norm: value_normalization, "
    "keras: query_initializer embeddings_initializer kernel_regularizer"
)
PROJECTED = "flag: multi_query output_projection, positive: filters num_heads strides"
CONSTRAINTS = [
    (
        layers.BatchNormalization,
        {"renorm": True},
        f"integer: axis, flag: {OF_NORM}, momentum: momentum renorm_momentum, epsilon: epsilon",
    ),
    (layers.LambdaLayer, {**SIZES, "implementation": "einsum"}, f"{OF_LAMBDA}, {NORM}"),
    (layers.RelativePositionEmbedding, {}, "positive: key_dim intra_depth, scope: scope"),
    (layers.SqueezeExcitation, {}, "ratio: ratio"),
    (layers.StochasticDepth, {"rate": 0.5}, "rate: rate, seed: seed"),
    (SymmetricMaxPooling2D, {}, "positive: pool_size strides"),
    (layers.GlobalAttention, SIZES, f"{PROJECTED}, flag: scale_positions multi_query"),
    (
        layers.LocalAttention,
        {**SIZES, "key_dim": 4},
        f"{PROJECTED}, local_scope: scope, flag: mask_padding output_projection",
    ),
    (
        layers.HaloAttention,
        SIZES,
        "positive: filters key_dim block_size, count: halo_size, "
        "flag: mask_padding scale_positions strided_queries",
    ),
    (
        layers.AxialAttention,
        {**SIZES, "key_dim": 2},
        f"positive: filters num_heads key_dim strides, flag: output_projection, {NORM}",
    ),
    (layers.DoubleAttention, {}, f"ratio: ratio, {NORM}"),
    (
        layers.LinearAttention,
        SIZES,
        f"{PROJECTED}, positive: key_dim num_features, number: epsilon, count: seed, "
        "feature_map: feature_map",
    ),
    (
        layers.AugmentedConvolution,
        {"filters": 20, "num_heads": 1},
        "positive: num_heads key_dim value_filters strides attention_pool",
    ),
]
# Of arguments that do not fit one another: layer, arguments, what was expected, what came.
RELATION = {"position_embedding": "relation", "num_relations": 2}
DIVISIBLE = "filters divisible by num_heads"
NONE, DEPTHWISE = {"position_embedding": None}, {"implementation": "depthwise_conv"}
STRIDED = {"strides": 2, "strided_queries": True}
UNFIT = [
    ({"filters": 9}, DIVISIBLE, "filters=9, num_heads=2"),
    ({"causal": True, "strides": 2}, "strides=1 for causal=True", "strides=2, strided_queries=F"),
    ({"causal": True, "implementation": "fourier"}, "for causal=True", "='fourier'"),
    ({"position_embedding": "absolute", "implementation": "conv"}, "absolute emb", "='conv'"),
    ({**RELATION, "implementation": "conv"}, "for relation embeddings", "='conv'"),
    ({"use_content": False, **NONE}, "a content lambda or", "use_content=False, position_emb"),
    ({"use_bias": True, **NONE}, "use_bias=True", "position_embedding=None"),
    ({"position_embedding": "shared", "multi_query": False}, "multi_query=True", "=False"),
    ({"intra_depth": 2, **DEPTHWISE}, "'toeplitz_conv', 'fourier') for intra_depth=2", "='depth"),
    ({**RELATION, "num_relations": None}, "num_relations, a positive integer", "=None"),
    *(({**RELATION, "num_relations": n}, "positive integer", f"={n!r}") for n in (0, 2.0, True)),
    ({"num_relations": 2}, "for position_embedding='relation' only", "num_relations=2, "),
]
UNFIT = [(layers.LambdaLayer, *row) for row in UNFIT] + [
    (layers.GlobalAttention, {"filters": 9}, DIVISIBLE, "filters=9, num_heads=2"),
    (layers.LocalAttention, {"key_dim": 3}, "even key_dim", "key_dim=3"),
    (layers.LocalAttention, {"filters": 6}, "even key_dim", "key_dim=3"),
    (layers.HaloAttention, {**STRIDED, "block_size": 7}, "divisible by strides", "7, strides=2"),
    (layers.AxialAttention, {"filters": 9}, DIVISIBLE, "filters=9, num_heads=2"),
    (layers.AxialAttention, {"filters": 1}, DIVISIBLE, "filters=1, num_heads=2"),
    (layers.AugmentedConvolution, {"value_filters": 8}, "less than filters", "value_filters=8"),
    (layers.AugmentedConvolution, {"value_filters": 3}, DIVISIBLE, "filters=3"),
]


zeros, masks, integers = (
    lambda *shape, dtype=dtype: np.zeros(shape, dtype) for dtype in ("float32", "bool", "int32")
)
SHARED, MATMUL = {"position_embedding": "shared"}, {"implementation": "dense_matmul"}
TABLE = {"position_embeddings": zeros(2, 1, 3)}
ROWS, OWN = (2, 4, 6), "for masks or relations of each example"
# Arguments of a lambda layer, shapes of inputs and context, call, what was expected, what came.
CALLS = [
    ({}, [(2, 6)], {}, "grid of 1 to 3 axes", "(2, 6)"),
    ({}, [(1, 2, 2, 2, 2, 6)], {}, "grid of 1 to 3 axes", "(1, 2, 2, 2, 2, 6)"),
    ({}, [(2, 0, 4, 6)], {}, "at least 1", "(2, 0, 4, 6)"),
    ({}, [(2, 4, 4, 0)], {}, "at least 1", "(2, 4, 4, 0)"),
    ({"scope": (3, 3)}, [(2, 5, 6)], {}, "one scope for each of the 1 axes", "scope=(3, 3)"),
    (DEPTHWISE, [(1, 2, 2, 2, 6)], {}, "a grid of 3 axes", "'depth"),
    ({}, [ROWS, (2, 4, 4, 6)], {}, "context of the rank", "(2, 4, 4, 6)"),
    ({}, [ROWS, (3, 4, 6)], {}, "as many examples as the inputs", "(2, 3)"),
    ({}, [ROWS, (2, 0, 6)], {}, "at least 1", "(2, 0, 6)"),
    ({"causal": True}, [ROWS, (2, 5, 6)], {}, "on the grid of the inputs", "grids=((4,), (5,))"),
    ({}, [ROWS], {"mask": masks(3, 4)}, "mask of shape (2, 4)", "(3, 4)"),
    ({}, [(2, 4, 4, 6)], {"mask": masks(2, 16)}, "mask of shape (2, 4, 4)", "(2, 16)"),
    ({}, [ROWS], {"mask": zeros(2, 4)}, "mask of dtype bool", "dtype"),
    ({}, [ROWS], {"mask": [True]}, "mask to be a tensor", "mask=["),
    ({}, [ROWS, (2, 5, 6)], {"context_mask": masks(1, 5)}, "context_mask of shape (2, 5)", "(1, 5"),
    ({}, [ROWS, (2, 5, 6)], {"context_mask": zeros(2, 5)}, "context_mask of dtype bool", "dtype"),
    ({}, [ROWS], {"context_mask": masks(2, 4)}, "a context for the context_mask", "context=None"),
    ({}, [(2, 2, 6)], {"attention_mask": [[True]]}, "attention_mask to be a tensor", "=[[True]]"),
    ({}, [ROWS], {"attention_mask": masks(4, 5)}, "attention_mask of shape (4, 4)", "(4, 5)"),
    ({}, [ROWS], {"attention_mask": masks(3, 4, 4)}, "shape (4, 4) or (2, 4, 4)", "(3, 4, 4)"),
    ({}, [ROWS], {"attention_mask": masks(2, 2, 4, 4)}, "or (2, 4, 4)", "(2, 2, 4, 4)"),
    ({}, [ROWS], {"attention_mask": integers(4, 4)}, "attention_mask of dtype bool", "int32"),
    ({"implementation": "einsum"}, [ROWS], {"attention_mask": masks(2, 4, 4)}, OWN, "='einsum'"),
    ({"implementation": "conv"}, [ROWS], {"attention_mask": masks(4, 4)}, "attention_mask", "conv"),
    (RELATION, [ROWS], {}, "relations to be a tensor", "relations=None"),
    (RELATION, [(2, 2, 6)], {"relations": [[0, 1]]}, "relations to be a tensor", "=[[0, 1]]"),
    (RELATION, [ROWS, (2, 5, 6)], {"relations": integers(4, 4)}, "(4, 5) or (2, 4, 5)", "(4, 4)"),
    (RELATION, [ROWS], {"relations": integers(3, 4, 4)}, "(4, 4) or (2, 4, 4)", "(3, 4, 4)"),
    (RELATION, [ROWS], {"relations": integers(2, 4, 4, 2)}, "(4, 4) or (2, 4, 4)", "(2, 4, 4, 2)"),
    (RELATION, [ROWS], {"relations": zeros(4, 4)}, "relations of an integer dtype", "dtype"),
    (RELATION, [ROWS], {"relations": masks(4, 4)}, "relations of an integer dtype", "dtype"),
    ({**RELATION, **MATMUL}, [ROWS], {"relations": integers(2, 4, 4)}, OWN, "='dense_matmul'"),
    ({}, [ROWS], {"relations": integers(4, 4)}, "no relations in the call", "='relative'"),
    (RELATION, [ROWS], TABLE, "no position_embeddings in the call", "='relation'"),
    (SHARED, [(2, 5, 6)], {}, "(3, 1, 3)", "None"),
    (SHARED, [(2, 5, 6)], {"position_embeddings": zeros(5, 1, 3)}, "(3, 1, 3)", "(5, 1, 3)"),
]
# Arguments of a lambda layer, shape that it is built for, what was expected, what came.
BUILDS = [
    ({}, (None, 4, None), "known depth", "(None, 4, None)"),
    ({"scope": None}, (None, None, 6), "because scope=None", "(None,)"),
    ({"implementation": "fourier"}, (None, None, 6), "a grid of unknown size", "='fourier'"),
    ({"position_embedding": "absolute"}, (None, None, 6), "because absolute", "(None,)"),
]
MAP, KNOWN = "(batch, height, width, depth)", "a map of known size"
CHANNELS = "known number of channels"
ATTENTION = [layers.GlobalAttention, layers.HaloAttention, layers.AxialAttention]
ATTENTION += [layers.AugmentedConvolution]
BUILDS = [(layers.LambdaLayer, *row) for row in BUILDS] + [
    (layers.RelativePositionEmbedding, {}, (2, 6), "grid of 1 to 3 axes", "()"),
    (layers.RelativePositionEmbedding, {"scope": None}, (2, 0, 6), "of at least 1", "(0,)"),
    (layers.RelativePositionEmbedding, {"scope": (3, 3)}, (2, 4, 6), "of the 1 axes", "(3, 3)"),
    *((one, {}, (2, 4, 6), MAP, "(2, 4, 6)") for one in ATTENTION),
    *((one, {}, (2, 3, 4, 4, 6), MAP, "(2, 3, 4, 4, 6)") for one in ATTENTION[:2]),
    *((one, {}, (2, 0, 4, 6), "at least 1", "(2, 0, 4, 6)") for one in ATTENTION),
    *((one, {}, (2, 4, 4, 0), "at least 1", "(2, 4, 4, 0)") for one in ATTENTION),
    (layers.LinearAttention, {}, (None, 4, 4, None), "known depth", "(None, 4, 4, None)"),
    (layers.BatchNormalization, None, (None, None), "an axis of the inputs", "axis=-1"),
    (lambda: layers.BatchNormalization(2), None, (None, 4), "an axis of the inputs", "axis=2"),
    (layers.GlobalAttention, {}, (None, None, 4, 6), KNOWN, "(None, None, 4, 6)"),
    (layers.AxialAttention, {}, (None, 4, None, 6), KNOWN, "(None, 4, None, 6)"),
    (layers.AugmentedConvolution, {}, (None, 4, None, 6), KNOWN, "(None, 4, None, 6)"),
    (layers.SqueezeExcitation, None, (2, 6), "with a grid", "(2, 6)"),
    (layers.SqueezeExcitation, None, (2, 4, None), CHANNELS, "(2, 4, None)"),
    (layers.DoubleAttention, None, (2, 4, 6), "(batch, height, width, channels)", "(2, 4, 6)"),
    (layers.DoubleAttention, None, (2, 4, 4, None), CHANNELS, "(2, 4, 4, None)"),
]
BUILT = "the map and the depth that the layer was built for, "
GRIDS = "grids of inputs and context that the position embeddings were built for, "
ABSOLUTE = {"position_embedding": "absolute"}
# Layer, its arguments, the shapes of two calls, what was expected, what came.
SECOND_CALLS = [
    (layers.LambdaLayer, {}, ROWS, (2, 4, 5), "depths of inputs and context", "(5, 5)"),
    (layers.LambdaLayer, {"scope": None}, ROWS, (2, 5, 6), f"{GRIDS}((4,), (4,))", "((5,), (5,))"),
    (layers.LambdaLayer, ABSOLUTE, (1, 4, 4, 6), (1, 2, 8, 6), f"{GRIDS}((4, 4)", "((2, 8), (2, "),
    (layers.LambdaLayer, {}, ROWS, (2, 4, 4, 6), "a grid of 1 axes", "grid=(4, 4)"),
    (layers.LinearAttention, {}, (2, 4, 4, 6), (2, 5, 4, 5), "the depth that the", "(5,)"),
    (layers.GlobalAttention, {}, (2, 4, 4, 6), (2, 4, 5, 6), f"{BUILT}(4, 4, 6)", "(4, 5, 6)"),
    (layers.AxialAttention, {}, (2, 4, 6, 6), (2, 6, 4, 6), f"{BUILT}(4, 6, 6)", "(6, 4, 6)"),
    (layers.AugmentedConvolution, {}, (2, 4, 6, 6), (2, 6, 4, 6), f"{BUILT}(4, 6", "(6, 4, 6)"),
]


def small(layer, arguments):
    """A layer of 8 filters and 2 heads, unless told."""
    if arguments is None or layer is layers.RelativePositionEmbedding:
        return layer(**(arguments or {}))
    own = {"key_dim": 3, "scope": 3} if layer is layers.LambdaLayer else {}
    return layer(**{"filters": 8, "num_heads": 2, **own, **arguments})


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


def kinds_of(text: str) -> dict[str, str]:
    """The kinds of arguments by their names."""
    parts = (part.split(": ") for part in text.split(", "))
    return {name: kind for kind, names in parts for name in names.split()}


@pytest.mark.parametrize(("layer", "arguments", "kinds"), CONSTRAINTS)
def test_constraints(layer, arguments, kinds):
    for name, kind in kinds_of(kinds).items():
        expected, refused, accepted = KINDS[kind]
        for value in refused:
            came = f"{name}={value!r}".replace("\n", "").replace("       ", " ")
            assert_refused(lambda v=value, n=name: layer(**{**arguments, n: v}), expected, came)
        for value in accepted:
            layer(**{**arguments, name: value})


@pytest.mark.parametrize("layer", [row[0] for row in CONSTRAINTS[1:]])
def test_every_argument_has_a_row(layer):
    constrained = {name for name, one in constraints_of(layer).items() if one is not None}
    own = next(kinds for one, _, kinds in CONSTRAINTS if one is layer)
    # Arguments of base classes are tested with one of their layers.
    assert constrained <= {*kinds_of(f"{PROJECTED}, {own}"), "key_dim", "num_relations"}


@pytest.mark.parametrize(("layer", "arguments", "expected", "came"), UNFIT)
def test_arguments_that_do_not_fit(layer, arguments, expected, came):
    assert_refused(lambda: small(layer, arguments), expected, came)


@pytest.mark.parametrize(("arguments", "shapes", "call", "expected", "came"), CALLS)
def test_bad_inputs(arguments, shapes, call, expected, came):
    layer = small(layers.LambdaLayer, arguments)
    assert_refused(lambda: layer(*[zeros(*shape) for shape in shapes], **call), expected, came)


@pytest.mark.parametrize(("layer", "arguments", "shape", "expected", "came"), BUILDS)
def test_shapes_that_layers_are_not_built_for(layer, arguments, shape, expected, came):
    assert_refused(lambda: small(layer, arguments).build(shape), expected, came)


@pytest.mark.parametrize(("layer", "arguments", "first", "then", "expected", "came"), SECOND_CALLS)
def test_other_shapes_than_a_layer_is_built_for(layer, arguments, first, then, expected, came):
    built = small(layer, arguments)
    built.build(first)
    assert_refused(lambda: built(zeros(*then)), expected, came)
