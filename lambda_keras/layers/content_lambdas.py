"""Content lambdas applied to their queries (Eq. 1 and 2, content part).

    outputs[b, n, h, v] = sum_k queries[b, n, h, k] sum_m,u keys[b, m, k, u] values[b, m, v, u]

with keys normalised over the context positions m (Table 12). Letters as in `position_lambdas`.
The normalisation is computed in float32 whatever the dtype of the tensors.
"""

import keras
from keras import ops

KEY_NORMALIZATIONS = ("softmax", "l2", None)


def content_outputs(
    queries,
    keys,
    values,
    normalization: str | None = "softmax",
    padding=None,
    mask=None,
    causal: bool = False,
):
    """Normalises keys, computes content lambdas, applies them.

    Args:
        queries: tensor `(b, n, h, k)`.
        keys: tensor `(b, m, k, u)`, not normalised.
        values: tensor `(b, m, v, u)`.
        normalization: `"softmax"`, `"l2"` or `None`.
        padding: `None` or bool tensor `(b, m)`, false where an example has no context element.
        mask: `None` or bool tensor `(n, m)`: the context elements that each query sees (Figure 6).
        causal: bool, whether query n sees the context elements m <= n only.

    Returns:
        Tensor `(b, n, h, v)`. Under a mask or causally, keys more than about 80 below the largest
        one of the whole context weigh nothing, because float32 ends there.
    """
    weights = _unnormalized(keys, normalization, padding)
    if mask is None and not causal:
        normalized = weights / _denominator(
            weights, normalization, lambda terms: ops.sum(terms, axis=1, keepdims=True)
        )
        content_lambda = ops.einsum("bmku,bmvu->bkv", ops.cast(normalized, values.dtype), values)
        return ops.einsum("bnhk,bkv->bnhv", queries, content_lambda)

    # Every query has a lambda, and keys normalised over what it sees (B.2).
    def over_visible(terms):
        if mask is None:
            return ops.cumsum(terms, axis=1)
        visible = ops.cast(ops.tril(mask) if causal else mask, "float32")
        return ops.einsum("nm,bm...->bn...", visible, terms)

    terms = weights[:, :, :, None, :] * ops.cast(values, "float32")[:, :, None, :, :]
    denominator = _denominator(weights, normalization, over_visible)
    lambdas = ops.sum(over_visible(terms) / denominator[:, :, :, None, :], axis=-1)
    return ops.einsum("bnhk,bnkv->bnhv", queries, ops.cast(lambdas, queries.dtype))


def _unnormalized(keys, normalization, padding):
    """Float32 weights of the context elements, 0 at padding."""
    keys = ops.cast(keys, "float32")
    if padding is not None:
        padding = ops.cast(padding, "bool")[:, :, None, None]
    if normalization == "softmax":
        if padding is not None:
            keys = ops.where(padding, keys, -1e30)
        # The maximum cancels; it keeps exp in range.
        keys = ops.exp(keys - ops.stop_gradient(ops.max(keys, axis=1, keepdims=True)))
    return keys if padding is None else ops.where(padding, keys, 0.0)


def _denominator(weights, normalization, total):
    if normalization is None:
        return ops.ones_like(weights[:, :1])
    if normalization == "softmax":
        sums = total(weights)
        return ops.where(sums > 0, sums, 1.0)  # a query that sees nothing gets 0, not 0 / 0
    return ops.sqrt(ops.maximum(total(ops.square(weights)), keras.config.epsilon() ** 2))
