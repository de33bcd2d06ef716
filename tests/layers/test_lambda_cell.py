"""Causal lambda layers step by step: as the whole layer, on sequences and on maps."""

import itertools
import math

import keras
import numpy as np
import pytest
from keras import ops
from support import reference
from support.arrays import assert_near, to_numpy

from lambda_keras.applications import count_flops
from lambda_keras.layers import LambdaCell, LambdaLayer
from zoo.precision import precision

# grid, layer arguments; 8 filters, 2 heads and k = 3.
CASES = {
    "sequence": ((30,), {"scope": 7}),
    "dilated_multi_head": ((20,), {"scope": 5, "dilation_rate": 3, "multi_query": False}),
    "global_sequence": ((20,), {"scope": None, "key_normalization": None, "use_bias": True}),
    "global_map": ((3, 4), {"scope": None, "query_normalization": "batch_softmax"}),
    "one_position": ((20,), {"scope": 1, "use_content": False, "value_normalization": None}),
    "dilated_map": ((7, 6), {"scope": (5, 3), "dilation_rate": 2, "key_normalization": "l2"}),
    "scope_wider_than_map": ((5, 4), {"scope": 9, "intra_depth": 2, "multi_query": False}),
    "dilated_wider_than_map": ((5, 5), {"scope": 7, "dilation_rate": 2}),
    "bias": ((5, 4), {"scope": 3, "use_bias": True, "use_projection_bias": True}),
    "video": ((2, 3, 4), {"scope": 3}),
    "content": ((5, 4), {"position_embedding": None}),
}


def small(**arguments):
    return LambdaLayer(**{"filters": 8, "num_heads": 2, "key_dim": 3, "causal": True, **arguments})


def built(grid, **arguments):
    """A layer with weights and statistics that no initialization has, and inputs on a grid."""
    rng = np.random.default_rng(math.prod(grid))
    x = rng.normal(size=(2, *grid, 5)).astype("float32")
    layer = small(**arguments)
    layer.build(x.shape)
    reference.randomize(layer, rng)
    return layer, x


def in_steps(cell, x, recurrent=False, **arguments):
    """Outputs of the cell, called step by step, or by a recurrent layer."""
    x = x.reshape(len(x), -1, x.shape[-1])
    if recurrent:
        return to_numpy(keras.layers.RNN(cell, return_sequences=True, **arguments)(x))
    cell.build((None, x.shape[-1]))
    states, outputs = cell.get_initial_state(len(x)), []
    for position in range(x.shape[1]):
        output, states = cell(x[:, position], states)
        outputs.append(to_numpy(output))
    return np.stack(outputs, axis=1)


def whole(layer, x):
    return to_numpy(layer(x, training=False)).reshape(len(x), -1, layer.filters)


def test_float32_under_a_policy_of_half_precision():
    with precision("mixed_bfloat16"):
        cell = LambdaCell(small(scope=3))
    cell.build((None, 5))
    states = cell.get_initial_state(2)
    outputs, states = cell(np.ones((2, 5), "float32"), states)
    assert cell.layer.compute_dtype == "bfloat16"
    assert {keras.backend.standardize_dtype(one.dtype) for one in (outputs, *states)} == {"float32"}


@pytest.mark.parametrize("size", [None, -1, 2.5, "2", True])
def test_initial_states_of_no_number_of_examples(size):
    with pytest.raises(ValueError, match=f"a number of examples. Received: batch_size={size!r}"):
        LambdaCell(small(scope=3)).get_initial_state(size)


@pytest.mark.parametrize("count", [None, 0, 1])
def test_call_without_states(count):
    cell = LambdaCell(small(scope=3))
    cell.build((None, 5))
    states = None if count is None else cell.get_initial_state(2)[:count]
    with pytest.raises(ValueError, match=r"states of sizes \[1, .* Received: sizes=\["):
        cell(np.ones((2, 5), "float32"), states)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_layer(name):
    grid, arguments = CASES[name]
    layer, x = built(grid, **arguments)
    assert_near(in_steps(LambdaCell(layer), x), whole(layer, x))


@pytest.mark.parametrize("normalization", ["softmax", "l2", None])
def test_far_keys(normalization):
    """Keys that rise and fall by hundreds, and a later maximum."""
    layer, x = built((25,), position_embedding=None, key_normalization=normalization)
    x = 300 * x
    received = in_steps(LambdaCell(layer), x)
    assert np.isfinite(received).all()
    assert_near(received, whole(layer, x))


BFLOAT16 = pytest.param("bfloat16", marks=pytest.mark.slow)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", BFLOAT16])
def test_half_precision_is_near_float32(dtype):
    """States are in float32, also in a recurrent layer of another dtype."""
    exact, x = built((6, 5), scope=5)
    layer = reference.like(exact, dtype=dtype)
    received = in_steps(LambdaCell(layer), x, recurrent=True, dtype=dtype)
    assert_near(received, whole(exact, x), 2e-2)
    assert_near(received, whole(layer, x), 3e-2)


def test_state_is_of_a_fixed_size_and_in_float32():
    """Of an empty batch, too."""
    layer, x = built((6, 5), scope=5)
    cell = LambdaCell(layer)
    cell.build((None, 5))
    # Position; maxima (k); sums (k, v + 1); values of two rows and two positions.
    assert cell.state_size == [1, 3, 15, (2 * 5 + 2) * 4]
    assert cell.output_size == 8
    for batch, position in itertools.product((0, 2), range(12)):
        if position == 0:
            states = cell.get_initial_state(batch)
        outputs, states = cell(x.reshape(2, -1, 5)[:batch, position], states)
        shapes = [tuple(one.shape) for one in (outputs, *states)]
        assert shapes == [(batch, size) for size in (8, *cell.state_size)]
        assert {keras.backend.standardize_dtype(state.dtype) for state in states} == {"float32"}
    # Another grid of as many axes, and of unknown height.
    taller = LambdaCell(layer, grid=(None, 5))
    assert taller.state_size == cell.state_size
    x = np.concatenate([x, x], axis=1)
    assert_near(in_steps(taller, x), whole(layer, x))


def test_goes_on_from_returned_states():
    layer, x = built((30,), scope=7)
    rnn = keras.layers.RNN(LambdaCell(layer), return_sequences=True, return_state=True)
    first, *states = rnn(x[:, :13])
    second, *_ = rnn(x[:, 13:], initial_state=states)
    assert_near(to_numpy(ops.concatenate([first, second], axis=1)), whole(layer, x))


def test_builds_its_layer_and_shares_its_weights():
    layer, x = built((6, 5), scope=5)
    copy = small(scope=5)
    cell = LambdaCell(copy, grid=[6, 5])
    cell.build((None, 5))
    assert [id(one) for one in cell.variables] == [id(one) for one in copy.variables]
    copy.set_weights(layer.get_weights())
    assert_near(in_steps(cell, x), whole(layer, x))


def test_config():
    config = LambdaCell(small(scope=5, multi_query=False), grid=(None, 5)).get_config()
    assert LambdaCell.from_config(config).get_config() == config


@pytest.mark.one_backend
def test_operations_by_hand():
    """Projections and content as the layer's; 13 of 25 positions of the scope, and applying."""
    layer, _ = built((6, 5), scope=5)
    expected = {"projections": 130, "content": 2 * (12 + 24), "position": 2 * (13 * 12 + 24)}
    assert LambdaCell(layer).count_flops((None, 5)) == expected
    inputs = keras.Input((30, 5))
    outputs = keras.layers.RNN(LambdaCell(layer), return_sequences=True)(inputs)
    assert count_flops(keras.Model(inputs, outputs)) == 30 * sum(expected.values())


BAD_LAYERS = [
    ({"causal": False}, {}, "causal=True. Received: causal=False"),
    ({"position_embedding": "absolute"}, {}, "Received: position_embedding='absolute'"),
    ({"position_embedding": "shared"}, {}, "Received: position_embedding='shared'"),
    ({"strides": 2, "strided_queries": True}, {}, "strides=1. Received: strides=2"),
    ({}, {"grid": 7}, "Received: grid=7"),
    ({}, {"grid": (0, 5)}, r"Received: grid=\(0, 5\)"),
    ({}, {"grid": (5, None)}, r"known, but for the first. Received: grid=\(5, None\)"),
    ({"scope": None}, {}, r"grid of known size.*Received: grid=\(None,\)"),
    ({"scope": (3, 3)}, {}, r"Received: scope=\(3, 3\)"),
]


@pytest.mark.parametrize(("arguments", "cell", "message"), BAD_LAYERS)
def test_layers_that_it_cannot_do(arguments, cell, message):
    with pytest.raises(ValueError, match=message):
        LambdaCell(small(**arguments), **cell)


def test_bad_input():
    with pytest.raises(ValueError, match=r"a LambdaLayer\. Received: layer="):
        LambdaCell(keras.layers.Dense(3))
    layer, x = built((6, 5), scope=5)
    with pytest.raises(ValueError, match=r"embeddings are for.*Received: grid=\(30,\)"):
        LambdaCell(layer, grid=(30,)).build((None, 5))
    with pytest.raises(ValueError, match=r"depth, 5\. Received: depth=4"):
        LambdaCell(layer).build((None, 4))
    with pytest.raises(ValueError, match=r"training=False.*Received: training=True"):
        keras.layers.RNN(LambdaCell(layer))(x.reshape(2, -1, 5), training=True)
