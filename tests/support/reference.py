"""The equations of the paper in NumPy float64, one position at a time.

Nothing here is fast or clever, and nothing branches on values, so that a complex step gives exact
derivatives: `Im f(x + i eps d) / eps` is the derivative of `f` at `x` along `d`, without any
difference of near numbers (Squire and Trapp, 1998).
"""

import itertools

import keras
import numpy as np

from support import backends
from support.arrays import assert_near

STEP, TOLERANCE = 1e-30, 1e-5


def embed(embeddings, query_grid, context_grid, dilation=1):
    """E[n, m] = embeddings[(m - n) / dilation + scope // 2] inside the scope, else 0 (3.3, 3.4)."""
    *scope, u, k = embeddings.shape
    queries = list(itertools.product(*map(range, query_grid)))
    contexts = list(itertools.product(*map(range, context_grid)))
    dense = np.zeros((len(queries), len(contexts), u, k), embeddings.dtype)
    for (i, n), (j, m) in itertools.product(enumerate(queries), enumerate(contexts)):
        offset = np.subtract(m, n)
        index = offset // dilation + np.array(scope) // 2
        if (offset % dilation == 0).all() and (index >= 0).all() and (index < scope).all():
            dense[i, j] = embeddings[tuple(index)]
    return dense


def embed_relations(embeddings, relations):
    """E[n, m] = embeddings[relations[n, m]], and 0 where the relation is none of them (3.3)."""
    dense = np.zeros((*relations.shape, *embeddings.shape[1:]), embeddings.dtype)
    for pair in np.ndindex(relations.shape):
        if 0 <= relations[pair] < len(embeddings):
            dense[pair] = embeddings[relations[pair]]
    return dense


def softmax(x, axis):
    exponentials = np.exp(x - x.real.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def normalize_keys(keys, how):
    """Keys `(m, k, u)` of the context elements that a query sees, over these (Table 12)."""
    if how == "softmax":
        return softmax(keys, axis=0)
    if how == "l2":
        return keys / np.sqrt((keys * keys).sum(axis=0, keepdims=True))
    return keys


def batch_norm(x, weights, training, epsilon, mask=None):
    """x of shape (b, n, c); the statistics skip the positions that the mask has as false."""
    if not training:
        mean, variance = weights["moving_mean"], weights["moving_variance"]
    else:
        seen = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
        mean = seen.mean(axis=0)
        variance = ((seen - mean) ** 2).mean(axis=0)
    return (x - mean) / np.sqrt(variance + epsilon) * weights["gamma"] + weights["beta"]


def average_pool(x, strides):
    """3-wide average pooling, padding "same", which counts real positions only (E.1)."""
    grid = x.shape[1:-1]
    sizes = [-(-size // strides) for size in grid]
    pooled = np.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    for position in itertools.product(*map(range, sizes)):
        window = []
        for size, out, i in zip(grid, sizes, position, strict=True):
            before = max((out - 1) * strides + 3 - size, 0) // 2
            start = i * strides - before
            window.append(slice(max(start, 0), min(start + 3, size)))
        block = x[(slice(None), *window)]
        pooled[(slice(None), *position)] = block.mean(axis=tuple(range(1, x.ndim - 1)))
    return pooled


def lambda_layer(
    inputs,
    weights,
    context=None,
    *,
    num_heads,
    key_dim,
    intra_depth=1,
    strides=1,
    strided_queries=False,
    dilation_rate=1,
    multi_query=True,
    use_content=True,
    position_embedding="relative",
    use_bias=False,
    use_projection_bias=False,
    causal=False,
    query_normalization="batch",
    key_normalization="softmax",
    value_normalization="batch",
    attention_mask=None,
    relations=None,
    mask=None,
    context_mask=None,
    training=False,
    epsilon=1e-5,
):
    """Eq. 1 and 2 for every example, query and head.

    `weights` has `query_kernel`, `key_kernel`, `value_kernel`, `query_bias`, `value_bias`,
    `position_embeddings`, `position_bias`, and the dictionaries `query_batch_norm` and
    `value_batch_norm`. With `strided_queries` everything of the others is left out.
    """
    if context is None:
        context, context_mask = inputs, mask
    batch, *grid, _ = inputs.shape
    context_grid = context.shape[1:-1]
    x = inputs.reshape(batch, -1, inputs.shape[-1])
    c = context.reshape(batch, -1, context.shape[-1])
    steps = (slice(None, None, strides if strided_queries else 1),) * len(grid)
    queried = np.arange(x.shape[1]).reshape(grid)[steps]
    query_grid, queried = queried.shape, queried.ravel()
    x = x[:, queried]
    n_total, m_total = x.shape[1], c.shape[1]
    groups = 1 if multi_query else num_heads
    dtype = np.result_type(x, c, *_arrays(weights))
    mask = None if mask is None else mask.reshape(batch, -1)[:, queried]
    context_mask = None if context_mask is None else context_mask.reshape(batch, -1)

    queries, values = x @ weights["query_kernel"], c @ weights["value_kernel"]
    if use_projection_bias:
        queries, values = queries + weights["query_bias"], values + weights["value_bias"]
    if query_normalization in ("batch", "batch_softmax"):
        queries = batch_norm(queries, weights["query_batch_norm"], training, epsilon, mask)
    queries = queries.reshape(batch, n_total, num_heads, key_dim)
    if query_normalization in ("softmax", "batch_softmax"):
        queries = softmax(queries, axis=-1)
    if value_normalization == "batch":
        values = batch_norm(values, weights["value_batch_norm"], training, epsilon, context_mask)
    values = values.reshape(batch, m_total, groups, -1, intra_depth)
    if use_content:
        keys = (c @ weights["key_kernel"]).reshape(batch, m_total, groups, key_dim, intra_depth)
    if position_embedding is not None:
        tables = weights["position_embeddings"]
        tables = tables[None] if multi_query else tables
        if position_embedding == "relation":
            tables = [embed_relations(table, relations) for table in tables]
        elif position_embedding != "absolute":
            tables = [embed(table, grid, context_grid, dilation_rate) for table in tables]
        # Of each example: (groups, b, n, m, u, k).
        tables = [np.broadcast_to(one, (batch, *one.shape[-4:])) for one in tables]
        if position_embedding != "relation":
            tables = [one[:, queried] for one in tables]

    outputs = np.zeros((batch, n_total, num_heads, values.shape[3]), dtype)
    for b, n, h in itertools.product(range(batch), range(n_total), range(num_heads)):
        group = 0 if multi_query else h
        seen = np.ones(m_total, bool)
        if context_mask is not None:
            seen &= context_mask[b]
        if attention_mask is not None:
            seen &= np.broadcast_to(attention_mask, (batch, n_total, m_total))[b, n]
        if causal:
            seen &= np.arange(m_total) <= queried[n]
        v = values[b, seen, group]
        lambda_n = np.zeros((key_dim, v.shape[1]), dtype)
        if use_content and seen.any():
            normalized = normalize_keys(keys[b, seen, group], key_normalization)
            lambda_n = lambda_n + np.einsum("mku,mvu->kv", normalized, v)
        if position_embedding is not None:
            lambda_n = lambda_n + np.einsum("muk,mvu->kv", tables[group][b, n][seen], v)
        if use_bias:
            bias = weights["position_bias"] if multi_query else weights["position_bias"][group]
            lambda_n = lambda_n + bias[:, None]
        outputs[b, n, h] = lambda_n.T @ queries[b, n, h]
    outputs = outputs.reshape(batch, *query_grid, -1)
    return outputs if strides == 1 or strided_queries else average_pool(outputs, strides)


def _arrays(weights):
    for value in weights.values():
        yield from _arrays(value) if isinstance(value, dict) else [value]


def randomize(layer, rng):
    """Sets every weight, statistics too, to a value that no initialization has.

    Not so large that the softmax has a single term left, nor so much rounding.
    """
    for variable in layer.variables:
        draw = rng.normal(size=variable.shape) * variable.shape[0] ** -0.5
        if "variance" in variable.path or "gamma" in variable.path:
            draw = rng.uniform(0.5, 1.5, size=variable.shape)
        variable.assign(draw.astype("float32"))


def weights_of(layer, arrays):
    """Arrays as nested dictionaries, by the names of the variables and of their layers."""
    weights: dict = {}
    for variable, array in zip(layer.variables, arrays, strict=True):
        *owners, name = variable.path.split("/")[1:]
        place = weights
        for owner in owners:
            place = place.setdefault(owner, {})
        place[name] = array
    return weights


def assert_equals_equations(layer, inputs, equations, training=False, draw=randomize, **call):
    """Outputs of a layer, and gradients by inputs and all weights along a random direction.

    Args:
        layer: not yet built.
        inputs: list of float32 arrays.
        equations: function of the inputs and a dictionary of weights.
        training: bool, of the call.
        draw: function of the layer and a generator that sets the weights.
        **call: further arguments of the call.
    """
    rng = np.random.default_rng(0)
    layer.build(*[array.shape for array in inputs])
    draw(layer, rng)
    arrays = [*inputs, *(keras.ops.convert_to_numpy(variable) for variable in layer.variables)]
    arrays = [np.array(array, "float64") for array in arrays]
    count = len(inputs)

    def outputs_of(*arrays):
        return equations(*arrays[:count], weights_of(layer, arrays[count:]))

    expected = outputs_of(*arrays).real
    assert expected.shape == layer.compute_output_shape(inputs[0].shape)
    cotangent = rng.normal(size=expected.shape).astype("float32")
    received, by_inputs, by_weights = backends.output_and_gradients(
        layer, inputs, cotangent, training=training, **call
    )
    assert_near(received, expected)
    paths = [variable.path for variable in layer.trainable_variables]
    trainable = dict(zip(paths, by_weights, strict=True))
    # Moving statistics and random features have none.
    gradients = [*by_inputs, *(trainable.get(variable.path) for variable in layer.variables)]
    # Batch statistics make some gradients vanish; rounding is then relative to the terms.
    least = np.linalg.norm(cotangent)
    assert_gradients(
        gradients, lambda *arrays: (outputs_of(*arrays) * cotangent).sum(), arrays, rng, least
    )


def derivative(function, arrays, directions):
    """Derivative of a scalar function of arrays, along directions of all of them at once."""
    pairs = zip(arrays, directions, strict=True)
    return function(*(array + 1j * STEP * direction for array, direction in pairs)).imag / STEP


def assert_gradients(gradients, function, arrays, rng, least):
    """Gradients of a scalar function equal its derivative along random directions.

    Args:
        gradients: NumPy arrays, `None` for arrays that have no gradient.
        function: of float64 arrays.
        arrays: where the gradients were taken.
        rng: of the directions.
        least: scale of the terms, where gradients vanish up to their rounding.
    """
    directions = [0 if one is None else rng.normal(size=one.shape) for one in gradients]
    products, norms = [], [least]
    for gradient, along in zip(gradients, directions, strict=True):
        if gradient is not None:
            products.append((gradient * along).sum())
            norms.append(np.linalg.norm(gradient) * np.linalg.norm(along))
    error = abs(sum(products) - derivative(function, arrays, directions))
    assert error <= TOLERANCE * max(norms)
