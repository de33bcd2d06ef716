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
    known = (relations >= 0) & (relations < len(embeddings))
    return np.where(known[..., None, None], embeddings[known * relations], 0)


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


def windows_of_three(x, strides, padding):
    """3-wide windows of the axes of the grid, padding "same": `(b, *grid, channels, 3, 3)`."""
    axes = tuple(range(1, x.ndim - 1))
    widths = [(0, 0)] * x.ndim
    for axis in axes:
        size = x.shape[axis]
        total = max((-(-size // strides) - 1) * strides + 3 - size, 0)
        widths[axis] = (total // 2, total - total // 2)
    padded = np.pad(x, widths, constant_values=padding)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3,) * len(axes), axes)
    return windows[(slice(None), *[slice(None, None, strides)] * len(axes))]


def average_pool(x, strides):
    """3-wide average pooling, padding "same", which counts real positions only (E.1)."""
    windows = windows_of_three(x, strides, padding=np.nan)
    return np.nanmean(windows, axis=tuple(range(x.ndim, windows.ndim)))


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
    seen = np.ones((batch, n_total, m_total), bool)
    if context_mask is not None:
        context_mask = context_mask.reshape(batch, -1)
        seen &= context_mask[:, None]
    if attention_mask is not None:
        seen &= attention_mask
    if causal:
        seen &= np.arange(m_total) <= queried[:, None]

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
        visible = seen[b, n]
        v = values[b, visible, group]
        lambda_n = np.zeros((key_dim, v.shape[1]), dtype)
        if use_content and visible.any():
            normalized = normalize_keys(keys[b, visible, group], key_normalization)
            lambda_n = lambda_n + np.einsum("mku,mvu->kv", normalized, v)
        if position_embedding is not None:
            lambda_n = lambda_n + np.einsum("muk,mvu->kv", tables[group][b, n][visible], v)
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


def like(layer, **changes):
    """A layer with other arguments and the weights of a built one."""
    other = type(layer).from_config({**layer.get_config(), **changes})
    other.build_from_config(layer.get_build_config())
    other.set_weights(layer.get_weights())
    return other


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
    directions = [0 if one is None else rng.normal(size=one.shape) for one in gradients]
    moved = [array + 1j * STEP * along for array, along in zip(arrays, directions, strict=True)]
    derivative = (outputs_of(*moved) * cotangent).sum().imag / STEP
    pairs = [pair for pair in zip(gradients, directions, strict=True) if pair[0] is not None]
    error = abs(sum((gradient * along).sum() for gradient, along in pairs) - derivative)
    # Batch statistics make some gradients vanish; rounding is then relative to the terms.
    norms = [np.linalg.norm(gradient) * np.linalg.norm(along) for gradient, along in pairs]
    assert error <= TOLERANCE * max(np.linalg.norm(cotangent), *norms)
