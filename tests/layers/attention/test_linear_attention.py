"""Random features of linear attention."""

import numpy as np
import pytest
from support import attention_reference as reference
from support.arrays import normal, to_numpy

from lambda_keras.layers import LinearAttention
from lambda_keras.layers.attention.linear_attention import orthogonal_features


@pytest.mark.parametrize(("number", "depth"), [(8, 4), (10, 4), (3, 4), (5, 1)])
def test_features_are_orthogonal_in_blocks(number, depth):
    directions = orthogonal_features(number, depth, seed=0)
    assert directions.shape == (number, depth)
    for start in range(0, number, depth):
        block = directions[start : start + depth]
        products = block @ block.T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, atol=1e-12)


def test_each_feature_is_a_normal_draw():
    """Lengths and directions: mean, variance, and the fourth moment, 3."""
    draws = np.stack([orthogonal_features(4, 3, seed) for seed in range(5000)])
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose((draws**2).mean(axis=0), 1, atol=0.08)
    np.testing.assert_allclose((draws**4).mean(axis=0), 3, atol=0.6)


def test_seed_gives_the_features_and_weights_keep_them():
    def built(seed):
        layer = LinearAttention(8, num_heads=2, feature_map="favor", num_features=6, seed=seed)
        layer.build((None, 4, 4, 5))
        return layer

    first, same, other = built(1), built(1), built(2)
    features, again, others = (to_numpy(x.random_features) for x in (first, same, other))
    np.testing.assert_array_equal(features, again)
    assert np.abs(features - others).min() > 0
    other.set_weights(first.get_weights())
    np.testing.assert_array_equal(to_numpy(other.random_features), features)


def test_features_stay_in_float32_under_half_precision():
    layer = LinearAttention(8, num_heads=2, feature_map="favor", dtype="bfloat16")
    layer.build((None, 4, 4, 5))
    assert layer.random_features.dtype == "float32"
    assert {variable.dtype for variable in layer.trainable_variables} == {"bfloat16"}


def test_favor_approaches_softmax_attention():
    """With many features, for small queries and keys: the error has a long tail."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 4, 4, 5)).astype("float32")
    kernels = [scale * rng.normal(size=(5, 8)) for scale in (0.1, 0.1, 1.0)]
    weights = dict(zip(("query_kernel", "key_kernel", "value_kernel"), kernels, strict=True))
    weights |= dict.fromkeys(("row_embeddings", "column_embeddings"), np.zeros((7, 4)))
    expected = reference.global_attention(x, weights, num_heads=2).real

    def error(num_features):
        layer = LinearAttention(8, num_heads=2, feature_map="favor", num_features=num_features)
        layer.build(x.shape)
        layer.set_weights([*kernels, *layer.get_weights()[3:]])
        received = to_numpy(layer(x))
        return np.abs(received - expected).max() / np.abs(expected).max()

    assert error(16384) < 0.02
    assert error(16) > 5 * error(16384)


def test_features_that_are_all_zero_give_zeros():
    """exp(x) of keys far below 0."""
    layer = LinearAttention(4, num_heads=1, feature_map="elu")
    layer.build((1, 2, 2, 4))
    layer.set_weights([np.eye(4), -np.eye(4), np.eye(4)])
    x = np.full((1, 2, 2, 4), 200, "float32")
    np.testing.assert_array_equal(to_numpy(layer(x)), 0)


def test_rows_of_softmax_features_sum_to_1():
    """C.3: values that are 1 at all positions stay 1."""
    x = normal(2, 3, 4, 5)
    x[..., 0] = 1
    layer = LinearAttention(8, num_heads=2, key_dim=3, feature_map="softmax")
    layer.build(x.shape)
    value_kernel = next(one for one in layer.trainable_variables if one.name == "value_kernel")
    value_kernel.assign(np.eye(5, 1) @ np.ones((1, 8)))
    np.testing.assert_allclose(to_numpy(layer(x)), 1, rtol=1e-5)
