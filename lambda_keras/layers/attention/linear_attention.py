"""Linear attention: efficient attention, linear transformers and Performers.

arXiv:1812.01243 (efficient attention), arXiv:2006.16236 (linear transformers) and arXiv:2009.14794
(Performers).
"""

import math
from typing import ClassVar, Literal, Unpack

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.arguments import COUNT, Constraint, is_number
from lambda_keras.layers.attention.base import (
    AttentionArguments,
    AttentionLayer,
    join_heads,
    softmax,
    split_heads,
)
from lambda_keras.layers.base import CONTENT
from lambda_keras.layers.contraction import contract

# Default epsilons of the feature maps; "softmax" uses none.
EPSILONS = {"softmax": 0.0, "elu": 1e-6, "favor": 1e-6, "relu": 1e-3}
RANDOM = ("favor", "relu")
TINY = 1e-30


@keras.saving.register_keras_serializable(package="lambda_keras")
class LinearAttention(AttentionLayer):
    r"""Linear attention, whose time and memory grow linearly with the number of positions.

    .. math::

        y_n = \frac{\sum_m f(q_n) \cdot f(k_m)\, v_m}{\sum_m f(q_n) \cdot f(k_m)}

    with the sums over m taken first (Katharopoulos et al., 2020, Eq. 4 and 5). It has no
    position embeddings.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        feature_map: The features f.

            * `"softmax"`: `softmax(q[n])·softmax(k)[m]`, first over the features, then over the
              positions, in place of the fraction (efficient attention, Shen et al., 2018, Eq.
              6).
            * `"elu"`: `elu(x) + 1` (linear transformers, Katharopoulos et al., Eq. 7).
            * `"favor"`: `r^-1/2 (exp(w x' - |x'|^2 / 2 - c) + epsilon)` with
              `x' = key_dim^-1/4 x`, whose expectation is softmax attention (FAVOR+, Choromanski et
              al., 2020, Lemma 1); c is the maximum of `w x'`, for each query, and over all keys of
              a head.
            * `"relu"`: `relu(r^-1/2 w x) + epsilon` (generalized attention of Performers).

            The rows of w are `r = num_features` random directions. Defaults to `"softmax"`.
        num_features: Int, number r of random features. Defaults to `256`.
        epsilon: Float of at least 0, which keeps denominators away from 0: added to the features
            of `"favor"` (`1e-6`) and `"relu"` (`1e-3`), and to the denominator of `"elu"` (`1e-6`).
            Defaults to these.
        seed: Int, seed of the random features, which are orthogonal in blocks of `key_dim`, not
            trained, and saved with the weights. Defaults to `0`.
        **kwargs: Arguments of `AttentionLayer` (`num_heads=8`, `key_dim`, `strides=1`,
            `multi_query=False`) and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`; height and width may be unknown.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LinearAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> layer = LinearAttention(64, feature_map="favor", multi_query=True)
    >>> keras.ops.shape(layer(images))
    (2, 14, 10, 64)
    """

    constraints: ClassVar = {
        "epsilon": Constraint(
            "a number of at least 0", lambda x: x is None or (is_number(x) and 0 <= x < math.inf)
        ),
        "seed": COUNT,
    }

    def __init__(
        self,
        filters: int,
        *,
        feature_map: Literal["softmax", "elu", "favor", "relu"] = "softmax",
        num_features: int = 256,
        epsilon: float | None = None,
        seed: int = 0,
        **kwargs: Unpack[AttentionArguments],
    ):
        super().__init__(filters, **kwargs)
        self.keep(locals())
        self.epsilon: float = EPSILONS[feature_map] if epsilon is None else epsilon

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.random_features = None
        if self.feature_map in RANDOM:
            self.random_features = self.add_weight(
                name="random_features",
                shape=(self.num_features, self.key_dim),
                initializer=lambda shape, dtype: ops.convert_to_tensor(
                    orthogonal_features(shape[0], shape[1], self.seed), dtype
                ),
                trainable=False,
                dtype="float32",
                autocast=False,
            )

    def attend(self, queries, keys, values, training):
        del training
        batch, height, width, _ = ops.shape(queries)
        queries = split_heads(queries, self.num_heads)  # (b, h, n, k)
        keys = split_heads(keys, self.groups)  # (b, g, m, k)
        values = split_heads(values, self.groups)  # (b, g, m, v)
        # Weights of features for each query, and of positions for each feature: values weighted by
        # them sum up in the range of half precision.
        if self.feature_map == "softmax":
            feature_weights, position_weights = softmax(queries), softmax(keys, axis=2)
        else:
            queries, keys = self._features(queries, (-1,)), self._features(keys, (-2, -1))
            totals = ops.sum(keys, axis=2, keepdims=True)  # (b, g, 1, r)
            queries = queries * totals
            denominators = ops.sum(queries, axis=-1, keepdims=True)  # (b, h, n, 1)
            if self.feature_map == "elu":
                denominators = denominators + self.epsilon
            feature_weights = queries / denominators
            # TINY avoids 0 / 0 where all features are 0.
            position_weights = keys / ops.maximum(totals, TINY)  # (b, g, m, r)
        feature_weights = ops.cast(feature_weights, values.dtype)
        position_weights = ops.cast(position_weights, values.dtype)
        sums = contract("bgmk,bgmv->bgkv", position_weights, values)  # (b, g, k, v)
        # Heads that share keys are treated as further queries.
        features = feature_weights.shape[-1]
        feature_weights = ops.reshape(feature_weights, (batch, self.groups, -1, features))
        outputs = contract("bgnk,bgkv->bgnv", feature_weights, sums)  # (b, g, n, v)
        outputs = ops.reshape(outputs, (batch, self.num_heads, -1, self.value_dim))  # (b, h, n, v)
        return join_heads(outputs, height, width)

    def _features(self, x, axes_of_maximum):
        """f(x) in float32 for x of shape `(..., k)`."""
        x = ops.cast(x, "float32")
        if self.feature_map == "elu":
            # Not elu(x) + 1, which rounds small exp(x) to 0.
            return ops.where(x > 0, x + 1.0, ops.exp(ops.minimum(x, 0.0)))
        scale = self.num_features**-0.5
        directions = ops.transpose(ops.convert_to_tensor(self.random_features))
        if self.feature_map == "relu":
            return ops.relu(ops.matmul(x, directions) * scale) + self.epsilon
        x = x * self.key_dim**-0.25
        projected = ops.matmul(x, directions)
        half_squares = ops.sum(ops.square(x), axis=-1, keepdims=True) / 2
        largest = ops.stop_gradient(ops.max(projected, axis=axes_of_maximum, keepdims=True))
        return scale * (ops.exp(projected - half_squares - largest) + self.epsilon)

    def attention_products(self, height, width):
        heads, groups, features = self.num_heads, self.groups, self.key_dim
        products = 0
        if self.feature_map in RANDOM:
            features = self.num_features
            products += (heads + groups) * features * self.key_dim  # Random features.
        products += (heads + groups) * features * self.value_dim
        if self.feature_map != "softmax":
            products += heads * features  # Denominators.
        return {CONTENT: height * width * products}


def orthogonal_features(number: int, depth: int, seed: int) -> np.ndarray:
    """Random directions `(number, depth)`, orthogonal in blocks of `depth` (FAVOR+, section 2.4).

    Each direction alone is normally distributed, its length included.
    """
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(-(-number // depth)):
        q, r = np.linalg.qr(rng.normal(size=(depth, depth)))
        blocks.append((q * np.sign(np.diag(r))).T)  # Signs make the rotation uniform.
    lengths = np.linalg.norm(rng.normal(size=(number, depth)), axis=1, keepdims=True)
    return np.concatenate(blocks)[:number] * lengths
