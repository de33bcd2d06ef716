"""Content lambdas (Eq. 1, content part).

    lambda[b, k, v] = sum_m,u keys[b, m, k, u] values[b, m, v, u]

with keys normalized over the context positions m (Table 12). Letters as in `position_lambdas`.
The normalization is computed in float32 whatever the dtype of the tensors.
"""

import math

import keras
from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.tiles import part

# Key of a hidden context position, far below all others.
HIDDEN = -1e30


def content_lambdas(
    keys,
    values,
    normalization: str | None = "softmax",
    padding=None,
    mask=None,
    causal: bool = False,
    queried=None,
):
    """Normalizes keys and computes content lambdas: returns their axes and the tensor.

    Axes are `"bkv"` where all queries share a lambda, or else `"bnkv"` or `"bknv"`, in float32.
    Keys are `(b, m, k, u)`, values `(b, m, v, u)`. Padding `(b, m)` is false where an example has
    no context element. A mask `(n, m)` or `(b, n, m)` is false where a query does not see a context
    element (Figure 6). See the `attention_mask` of `LambdaLayer` for the range of keys. `queried`,
    int `(n,)`, holds the context positions of causal queries, by default all.
    """
    if causal and mask is not None:
        mask = ops.logical_and(mask, up_to_own(queried, *ops.shape(mask)[-2:]))
    if causal and normalization == "softmax":
        lambdas = _causal_softmax_lambdas(keys, values, padding, mask)
        if queried is not None and mask is None:
            lambdas = ops.take(lambdas, queried, axis=2)
        return "bknv", lambdas
    weights = _unnormalized(keys, normalization, padding)
    if mask is None and not causal:
        denominator = _denominator(
            weights, normalization, lambda terms: ops.sum(terms, axis=1, keepdims=True)
        )
        divides_last = weights.shape[-1] == 1 and ops.dtype(values) != "float16"
        if divides_last and normalization is not None:
            # Lambdas are smaller than keys, so less to divide; float16 would not hold their sums.
            lambdas = contract("bmku,bmvu->bkv", ops.cast(weights, values.dtype), values)
            return "bkv", ops.cast(lambdas, "float32") / ops.squeeze(denominator, 1)  # (b, k, 1)
        weights = ops.cast(weights / denominator, values.dtype)
        return "bkv", contract("bmku,bmvu->bkv", weights, values)

    # Every query has a lambda, with keys normalized over the positions that it sees (B.2).
    def over_visible(terms):
        if mask is None:
            return ops.cumsum(terms, axis=1)
        pairs = "nm" if len(mask.shape) == 2 else "bnm"
        return ops.einsum(f"{pairs},bm...->bn...", ops.cast(mask, "float32"), terms)

    terms = weights[:, :, :, None, :] * ops.cast(values, "float32")[:, :, None, :, :]
    denominator = _denominator(weights, normalization, over_visible)
    lambdas = ops.sum(over_visible(terms) / denominator[:, :, :, None, :], axis=-1)
    if queried is not None and mask is None:
        lambdas = ops.take(lambdas, queried, axis=1)
    return "bnkv", lambdas


def up_to_own(queried, n, m):
    """Causal mask, bool `(n, m)`: queries are at the positions `queried`, or at all n of them."""
    queried = ops.arange(n, dtype="int32") if queried is None else queried
    return ops.arange(m, dtype="int32") <= queried[:, None]


# Sums under a causal softmax: within blocks of positions by products, between them by recursion.
BLOCK = 16


def _causal_softmax_lambdas(keys, values, padding, mask):
    """Float32 lambdas `(b, k, n, v)`, unaffected by later context positions."""
    keys = ops.transpose(ops.cast(keys, "float32"), (0, 2, 3, 1))[..., None]
    values = ops.transpose(ops.cast(values, "float32"), (0, 3, 1, 2))[:, None]
    ones = ops.ones_like(values[..., :1])  # Their sums are the denominators.
    terms = ops.concatenate([values, ones], axis=-1)
    if padding is not None:
        padding = padding[:, None, None, :, None]
        keys, terms = ops.where(padding, keys, HIDDEN), ops.where(padding, terms, 0.0)
    if mask is None:
        # More levels than a sequence needs cost nothing.
        levels = math.ceil(math.log(keys.shape[3] or 2**31, BLOCK))
        _, sums = _running_sums(keys, terms, levels)
    else:
        visible = ops.cast(mask, "bool")
        visible = visible if len(mask.shape) == 2 else visible[:, None, None]  # (b, 1, 1, n, m)
        _, sums = _visible_sums(keys, terms, visible)
    sums, denominators = ops.split(sums, [sums.shape[-1] - 1], axis=-1)
    return ops.sum(sums / ops.where(denominators > 0, denominators, 1.0), axis=2)


def _visible_sums(keys, terms, visible):
    """Sums of `exp(keys - maximum) * terms` over the visible positions, with a maximum per query.

    Keys `(..., m, 1)`, terms `(..., m, w)` and visible `(n, m)` or `(..., n, m)` -> maxima
    `(..., n, 1)` and sums `(..., n, w)`. Maxima have no gradient, because they cancel in quotients
    of sums.
    """
    keys = ops.where(visible, ops.swapaxes(keys, -1, -2), HIDDEN)
    maxima = _largest(keys, -1)
    weights = ops.exp(keys - maxima) * ops.cast(visible, "float32")
    return maxima, ops.matmul(weights, terms)


def _running_sums(keys, terms, levels):
    """`_visible_sums` up to each of at most `BLOCK ** levels` positions."""
    n = ops.shape(keys)[-2]

    def blocks(tensor):
        tensor = _pad(tensor, 0, -n % BLOCK)
        *leading, _, w = ops.shape(tensor)
        return ops.reshape(tensor, (*leading, (n + BLOCK - 1) // BLOCK, BLOCK, w))

    def joined(tensor):
        *leading, count, _, w = ops.shape(tensor)
        return _positions(ops.reshape(tensor, (*leading, count * BLOCK, w)), 0, n)

    up_to_own = ops.tril(ops.ones((BLOCK, BLOCK), "bool"))
    maxima, sums = _visible_sums(blocks(keys), blocks(terms), up_to_own)
    if levels > 1:
        # Sums up to the end of the previous block.
        ends = [_positions(tensor, BLOCK - 1, 1) for tensor in (maxima, sums)]
        before = _running_sums(*(ops.squeeze(end, -2) for end in ends), levels - 1)
        before_maxima, before_sums = (
            ops.expand_dims(_positions(_pad(tensor, 1, 0, value), 0, ops.shape(tensor)[-2]), -2)
            for tensor, value in zip(before, (HIDDEN, 0.0), strict=True)
        )
        own_maxima, maxima = maxima, ops.maximum(maxima, before_maxima)
        sums = sums * ops.exp(own_maxima - maxima) + before_sums * ops.exp(before_maxima - maxima)
    return joined(maxima), joined(sums)


def _positions(tensor, first, size):
    """Slices the axis before the last."""
    return part(tensor, len(tensor.shape) - 2, first, size)


def _pad(tensor, before, after, value=0.0):
    """Pads the axis before the last."""
    none = [(0, 0)] * (len(tensor.shape) - 2)
    return ops.pad(tensor, [*none, (before, after), (0, 0)], constant_values=value)


def _unnormalized(keys, normalization, padding):
    """Float32 weights of the context elements, 0 at padding."""
    keys = ops.cast(keys, "float32")
    if padding is not None:
        padding = ops.cast(padding, "bool")[:, :, None, None]
    if normalization == "softmax":
        if padding is not None:
            keys = ops.where(padding, keys, HIDDEN)
        keys = ops.exp(keys - _largest(keys, 1))
    return keys if padding is None else ops.where(padding, keys, 0.0)


def _largest(keys, axis):
    """Maximum of the keys, which cancels in a softmax and keeps exp in range."""
    return ops.stop_gradient(ops.max(keys, axis=axis, keepdims=True))


def _denominator(weights, normalization, total):
    if normalization is None:
        return ops.ones_like(weights[:, :1])
    if normalization == "softmax":
        sums = total(weights)
        return ops.where(sums > 0, sums, 1.0)  # A query that sees nothing gets 0, not 0 / 0.
    return ops.sqrt(ops.maximum(total(ops.square(weights)), keras.config.epsilon() ** 2))
