"""The kind of device, and whether XLA compiles."""

import keras
import numpy as np
import pytest

from lambda_keras.layers import LambdaLayer
from lambda_keras.layers.position_lambdas import choices, compiling_for, device_kind
from lambda_keras.layers.position_lambdas.device import inside_xla

XLA_ALWAYS = keras.backend.backend() == "jax"


def test_kind_of_this_device():
    """Tests see no accelerator (see tests/conftest.py)."""
    assert device_kind() == "cpu"


def test_code_is_compiled_for_another_device():
    with compiling_for("gpu"):
        with compiling_for("tpu"):
            assert device_kind() == "tpu"
        assert device_kind() == "gpu"
    assert device_kind() == "cpu"


def test_unknown_kind_of_device():
    with pytest.raises(ValueError, match=r"expected kind to be one of .* Received: kind='cuda'"):
        compiling_for("cuda").__enter__()


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_layer_follows_the_kind_of_device(monkeypatch, kind):
    """`auto` equals the paper's order with the choices of every device, here of a large batch."""
    chosen = []
    fastest = choices.fastest
    monkeypatch.setattr(
        "lambda_keras.layers.position_lambdas.fastest",
        lambda *given, **needs: chosen.append(fastest(*given, **needs)) or chosen[-1],
    )
    x = np.random.default_rng(0).normal(size=(33, 29, 28, 6)).astype("float32")
    layers = [
        LambdaLayer(8, num_heads=2, key_dim=3, scope=3, implementation=name)
        for name in ("auto", "einsum")
    ]
    for layer in layers:
        layer.build(x.shape)
    layers[0].set_weights(layers[1].get_weights())
    with compiling_for(kind):
        outputs = [keras.ops.convert_to_numpy(layer(x)) for layer in layers]
    assert chosen == ["toeplitz_conv"]
    np.testing.assert_allclose(*outputs, atol=1e-5 * np.abs(outputs[1]).max())


@pytest.mark.one_backend
@pytest.mark.parametrize("strided", [True, False])
def test_choice_is_for_the_strides_of_the_queries(monkeypatch, strided):
    given = []
    monkeypatch.setattr(
        "lambda_keras.layers.position_lambdas.fastest",
        lambda *arguments, **needs: given.append(arguments) or "einsum",
    )
    LambdaLayer(8, num_heads=2, key_dim=3, scope=3, strides=2, strided_queries=strided)(
        np.zeros((1, 6, 4, 5))
    )
    assert given == [((6, 4), (3, 3), 4, False, 1, 2 if strided else 1)]


@pytest.mark.parametrize("jit_compile", [True, False])
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
