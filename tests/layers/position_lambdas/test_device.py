"""The kind of device, and whether XLA compiles."""

import keras
import numpy as np
import pytest
from support.arrays import assert_near, normal, to_numpy
from support.reference import like

from lambda_keras.layers import LambdaLayer
from lambda_keras.layers.position_lambdas import choices, compiling_for, device_kind
from lambda_keras.layers.position_lambdas.device import inside_xla

XLA_ALWAYS = keras.backend.backend() == "jax"


def test_code_is_compiled_for_another_device():
    """Tests see no accelerator (see tests/conftest.py)."""
    with compiling_for("gpu"):
        with compiling_for("tpu"):
            assert device_kind() == "tpu"
        assert device_kind() == "gpu"
    assert device_kind() == "cpu"
    with pytest.raises(ValueError, match=r"expected kind to be one of .* Received: kind='cuda'"):
        compiling_for("cuda").__enter__()


@pytest.fixture
def asked(monkeypatch) -> list:
    """What layers ask for the fastest implementation: arguments, needs, the answer."""
    found = []

    def fastest(*given, **needs):
        found.append((given, needs, choices.fastest(*given, **needs)))
        return found[-1][-1]

    monkeypatch.setattr("lambda_keras.layers.position_lambdas.fastest", fastest)
    return found


@pytest.mark.parametrize("kind", ["gpu", pytest.param("tpu", marks=pytest.mark.slow)])
def test_layer_follows_the_kind_of_device(asked, kind):
    """`auto` equals the paper's order with the choices of every device, here of a large batch."""
    x = normal(33, 29, 28, 6)
    auto = LambdaLayer(8, num_heads=2, key_dim=3, scope=3)
    auto.build(x.shape)
    with compiling_for(kind):
        assert_near(to_numpy(auto(x)), to_numpy(like(auto, implementation="einsum")(x)))
    assert [answer for *_, answer in asked] == ["toeplitz_conv"]


STRIDED = {"strides": 2, "strided_queries": True}
CAUSAL = {"causal": True, "intra_depth": 2}
MASK = {"attention_mask": np.ones((2, 24, 24), bool)}
NEEDS = {"causal": False, "intra_depth": 1, "own_pairs": False}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("arguments", "call", "sizes", "needs"),
    [
        ({"strides": 2}, {}, ((3, 3), 4, False, 2, 1, 2), {}),
        ({"multi_query": False}, {}, ((3, 3), 4, False, 2, 1, 1), {}),
        (STRIDED, {"training": True}, ((3, 3), 4, True, 2, 2, 2), {}),
        ({**CAUSAL, "dilation_rate": 2}, {}, ((5, 5), 4, False, 2, 1, 2), CAUSAL),
        ({"num_heads": 4}, MASK, (None, 2, False, 2, 1, 4), {"own_pairs": True}),
    ],
)
def test_what_is_asked_for_the_fastest(asked, arguments, call, sizes, needs):
    """Grid, scope, value depth, training, batch, strides and number of the queries; needs."""
    layer = LambdaLayer(**{"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 3, **arguments})
    layer(np.zeros((2, 6, 4, 5), "float32"), **call)
    expected = ((6, 4), *sizes), {**NEEDS, **needs}
    assert [(given, needs) for given, needs, _ in asked] == [expected] * layer.groups


@pytest.mark.parametrize("jit_compile", [pytest.param(True, marks=pytest.mark.slow), False])
def test_inside_xla_follows_jit_compile(jit_compile):
    """It is asked while the layer is traced, in Keras' own training and prediction functions."""
    seen = []

    class Asks(keras.layers.Layer):
        def call(self, inputs):
            seen.append(inside_xla())
            return inputs

    model = keras.Sequential([keras.Input((2,)), Asks(), keras.layers.Dense(1)])
    if keras.backend.backend() == "torch":
        jit_compile = False
    model.compile("sgd", "mse", jit_compile=jit_compile)
    seen.clear()
    model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0)
    assert set(seen) == {jit_compile or XLA_ALWAYS}
