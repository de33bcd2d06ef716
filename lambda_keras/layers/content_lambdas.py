"""Content lambdas applied to their queries (Eq. 1 and 2, content part).

    outputs[b, n, h, v] = sum_k queries[b, n, h, k] sum_m,u keys[b, m, k, u] values[b, m, v, u]

with keys normalised over the context positions m. Letters as in `position_lambdas`. Arithmetic of
the normalisation is in float32 whatever the dtype of the tensors.
"""

from keras import ops


def content_outputs(queries, keys, values):
    """Softmax of the keys over the context positions, content lambda, and its application.

    Args:
        queries: `(b, n, h, k)`.
        keys: `(b, m, k, u)`, not normalised.
        values: `(b, m, v, u)`.

    Returns:
        Tensor `(b, n, h, v)`.
    """
    normalized = ops.softmax(ops.cast(keys, "float32"), axis=1)
    content_lambda = ops.einsum("bmku,bmvu->bkv", ops.cast(normalized, values.dtype), values)
    return ops.einsum("bnhk,bkv->bnhv", queries, content_lambda)
