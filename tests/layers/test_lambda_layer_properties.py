"""Properties of the lambda layer for any size and any numbers."""

import keras
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import backends

from lambda_keras.layers import LambdaLayer, position_lambdas

implementations = st.sampled_from(list(position_lambdas.IMPLEMENTATIONS))
causal_implementations = st.sampled_from(position_lambdas.capable(causal=True, axes=2)[1:])
seeds = st.integers(0, 2**32 - 1)
# On JAX every size is compiled anew.
few = settings(
    max_examples=20 if keras.backend.backend() == "tensorflow" else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def layer(**arguments):
    return LambdaLayer(**{"filters": 6, "num_heads": 2, "key_dim": 3, "scope": 3, **arguments})


def to_numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


@few
@given(
    seed=seeds,
    implementation=implementations,
    height=st.integers(1, 5),
    width=st.integers(1, 5),
    shift=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_position_lambdas_are_translation_equivariant(seed, implementation, height, width, shift):
    """Shifting what stands on an empty background shifts the outputs (3.3)."""
    patch = np.random.default_rng(seed).normal(size=(1, height, width, 4)).astype("float32")
    grid = (14, 14)

    def place(y, x):
        image = np.zeros((1, *grid, 4), "float32")
        image[:, y : y + height, x : x + width] = patch
        return image

    # Without batch normalization of the values an empty background has no values.
    position_layer = layer(
        use_content=False, value_normalization=None, implementation=implementation
    )
    base = to_numpy(position_layer(place(2, 2)))
    shifted = to_numpy(position_layer(place(2 + shift[0], 2 + shift[1])))
    window = slice(1, 1 + 2 + height), slice(1, 1 + 2 + width)
    moved = (
        slice(1 + shift[0], 1 + shift[0] + 2 + height),
        slice(1 + shift[1], 1 + shift[1] + 2 + width),
    )
    assert np.abs(base).max() > 0
    np.testing.assert_allclose(
        shifted[0][moved], base[0][window], rtol=1e-5, atol=1e-5 * np.abs(base).max()
    )


@few
@given(seed=seeds, positions=st.integers(1, 12))
def test_content_lambda_ignores_the_order_of_the_context(seed, positions):
    """Permuting the context elements changes nothing (3.1)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 5, 4)).astype("float32")
    context = rng.normal(size=(2, positions, 4)).astype("float32")
    content_layer = layer(position_embedding=None)
    expected = to_numpy(content_layer(x, context=context))
    permuted = to_numpy(content_layer(x, context=context[:, rng.permutation(positions)]))
    np.testing.assert_allclose(permuted, expected, rtol=1e-4, atol=1e-5)


@few
@given(
    seed=seeds,
    implementation=causal_implementations,
    length=st.integers(2, 9),
    scope=st.sampled_from([1, 3, 7, None]),
    data=st.data(),
)
def test_causal_layer_has_no_gradient_from_the_future(seed, implementation, length, scope, data):
    """The gradient of an output with respect to later inputs is exactly zero (B.2)."""
    position = data.draw(st.integers(0, length - 2))
    x = np.random.default_rng(seed).normal(size=(1, length, 4)).astype("float32")
    causal_layer = layer(causal=True, scope=scope, implementation=implementation)
    causal_layer.build(x.shape)
    cotangent = np.zeros((1, length, 6), "float32")
    cotangent[:, position] = 1.0
    _, (gradient,), _ = backends.output_and_gradients(causal_layer, [x], cotangent)
    assert np.all(gradient[:, position + 1 :] == 0)
    assert np.any(gradient[:, : position + 1] != 0)


@few
@given(seed=seeds, implementation=causal_implementations)
def test_causal_image_layer_sees_the_past_in_raster_order(seed, implementation):
    """On a grid, the past of a pixel is every pixel before it in raster order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, 4, 5, 4)).astype("float32")
    causal_layer = layer(causal=True, scope=None, implementation=implementation)
    expected = to_numpy(causal_layer(x)).reshape(20, 6)
    position = int(rng.integers(0, 19))
    changed = x.reshape(1, 20, 4).copy()
    changed[:, position + 1 :] += 1.0
    received = to_numpy(causal_layer(changed.reshape(x.shape))).reshape(20, 6)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        received[: position + 1], expected[: position + 1], rtol=1e-4, atol=1e-5 * scale
    )


@few
@given(seed=seeds)
def test_causal_mask_equals_the_general_mask(seed):
    """The cumulative sum equals the lower triangular [n, m] mask (Figure 6)."""
    x = np.random.default_rng(seed).normal(size=(2, 6, 4)).astype("float32")
    causal_layer, masked_layer = layer(causal=True), layer()
    expected = to_numpy(causal_layer(x))
    masked_layer.build(x.shape)
    masked_layer.set_weights(causal_layer.get_weights())
    masked = masked_layer(x, attention_mask=np.tril(np.ones((6, 6), bool)))
    np.testing.assert_allclose(
        to_numpy(masked), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
    )
