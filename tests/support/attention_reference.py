"""The equations of the attention layers in NumPy float64.

As in `reference`, nothing is fast, and a complex step gives exact derivatives. Maps are
`(b, height, width, channels)`; weights go by the names that the layers give them.
"""

import numpy as np

from support import reference


def project(inputs, weights, num_heads, multi_query=False):
    """Queries, keys and values, each `(b, height, width, heads, depth of a head)`."""
    maps = []
    for name in ("query_kernel", "key_kernel", "value_kernel"):
        projected = inputs @ weights[name]
        shared = multi_query and name != "query_kernel"
        heads = projected.reshape(*projected.shape[:3], 1 if shared else num_heads, -1)
        maps.append(np.repeat(heads, num_heads, axis=3) if shared else heads)
    return maps


def finish(outputs, weights, strides=1):
    """Heads side by side, the output projection if there is one, pooling."""
    outputs = outputs.reshape(*outputs.shape[:3], -1)
    if "output_kernel" in weights:
        outputs = outputs @ weights["output_kernel"]
    return outputs if strides == 1 else reference.average_pool(outputs, strides)


def relative_attention(maps, tables, of_axis, scales=(1, 1), beyond=0, step=1):
    """`sum_m softmax(s q·k + t q·(row + column)) values`, over the m that a query sees.

    Args:
        maps: those of `project`; beyond their sides, keys and values are 0.
        tables: embeddings of rows and of columns, of the depth of a key.
        of_axis: function of a size, places of queries and places of keys along an axis, gives
            which see each other, and the numbers of their embeddings.
        scales: s and t.
        beyond: how far queries see beyond the map.
        step: every so many rows and columns have queries.
    """
    queries = maps[0][:, ::step, ::step]
    keys, values = (
        np.pad(one, [(0, 0), *[(beyond, beyond)] * 2, *[(0, 0)] * 2]) for one in maps[1:]
    )
    seen, positions = [], []
    for size, table in zip(maps[0].shape[1:3], tables, strict=True):
        i, p = np.arange(0, size, step)[:, None], np.arange(-beyond, size + beyond)
        pairs, numbers = of_axis(size, i, p)
        seen.append(pairs)
        positions.append(table[numbers.clip(0, len(table) - 1)])
    by_row = np.einsum("bijhk,ipk->bhijp", queries, positions[0])[..., None]
    by_column = np.einsum("bijhk,jqk->bhijq", queries, positions[1])[..., None, :]
    content = np.einsum("bijhk,bpqhk->bhijpq", queries, keys)
    logits = scales[0] * content + scales[1] * (by_row + by_column)
    logits = np.where(seen[0][:, None, :, None] & seen[1][:, None], logits, -np.inf)
    attention = reference.softmax(logits, axis=(-1, -2))
    return np.einsum("bhijpq,bpqhv->bijhv", attention, values)


def relative_parts(inputs, weights, num_heads, multi_query, scale_positions=True):
    """Maps and tables of `relative_attention`, and the scales e^-1/2 and s."""
    maps = project(inputs, weights, num_heads, multi_query)
    scale = maps[0].shape[-1] ** -0.5
    tables = weights["row_embeddings"], weights["column_embeddings"]
    return maps, tables, (scale, scale if scale_positions else 1)


def global_attention(
    inputs, weights, *, num_heads, multi_query=False, scale_positions=True, strides=1
):
    """e^-1/2 q·k + s q·(row[p - i + H - 1] + column[q - j + W - 1])."""

    def of_axis(size, i, p):
        return abs(p - i) < size, p - i + size - 1

    maps, tables, scales = relative_parts(inputs, weights, num_heads, multi_query, scale_positions)
    return finish(relative_attention(maps, tables, of_axis, scales), weights, strides)


def local_attention(
    inputs, weights, *, num_heads, scope, multi_query=False, mask_padding=True, strides=1
):
    """q·(k + r) over the neighbourhood, r the embeddings of row and column side by side."""
    reach = scope // 2

    def of_axis(_, i, p):
        return abs(p - i) <= reach, p - i + reach

    maps, (rows, columns), _ = relative_parts(inputs, weights, num_heads, multi_query)
    none = np.zeros_like(rows)
    tables = np.concatenate([rows, none], axis=1), np.concatenate([none, columns], axis=1)
    beyond = 0 if mask_padding else reach
    return finish(relative_attention(maps, tables, of_axis, beyond=beyond), weights, strides)


def halo_attention(
    inputs,
    weights,
    *,
    num_heads,
    block_size,
    halo_size,
    multi_query=False,
    mask_padding=True,
    scale_positions=True,
    strided_queries=False,
    strides=1,
):
    """As global attention, in the window of each block; places within block and window."""
    window = block_size + 2 * halo_size
    step = strides if strided_queries else 1

    def of_axis(_, i, p):
        place = p - (i // block_size * block_size - halo_size)  # in the window
        return (place >= 0) & (place < window), place - i % block_size // step + window - 1

    maps, tables, scales = relative_parts(inputs, weights, num_heads, multi_query, scale_positions)
    beyond = 0 if mask_padding else window
    outputs = relative_attention(maps, tables, of_axis, scales, beyond, step)
    return finish(outputs, weights, 1 if strided_queries else strides)


def axial_attention(inputs, weights, *, num_heads, strides=1, training=False):
    """Along the columns, then along the rows."""
    turned = inputs.transpose(0, 2, 1, 3)
    rows = row_attention(turned, weights["height_attention"], num_heads, training)
    rows = rows.transpose(0, 2, 1, 3)
    outputs = row_attention(rows, weights["width_attention"], num_heads, training)
    return finish(outputs, weights["width_attention"], strides)


def row_attention(inputs, weights, num_heads, training):
    """Softmax over p of BN(q_o·k_p) + BN(q_o·rq) + BN(k_p·rk); BN(sum A v_p) + BN(sum A rv)."""
    batch, height, width, _ = inputs.shape

    def normalize(x, name):
        flat = x.reshape(batch, -1, x.shape[-1])
        return reference.batch_norm(flat, weights[name], training, 1e-5).reshape(x.shape)

    queries, keys, values = (
        normalize(inputs @ weights[f"{name}_kernel"], f"{name}_batch_norm").reshape(
            batch, height, width, num_heads, -1
        )
        for name in ("query", "key", "value")
    )
    positions = np.arange(width)
    of_queries, of_keys, of_values = (
        weights[f"{name}_embeddings"][positions - positions[:, None] + width - 1]  # (o, p, depth)
        for name in ("query", "key", "value")
    )
    content = np.einsum("byohk,byphk->byoph", queries, keys)
    by_query = np.einsum("byohk,opk->byoph", queries, of_queries)
    by_key = np.einsum("byphk,opk->byoph", keys, of_keys)
    logits = normalize(content, "content_batch_norm")
    logits = logits + normalize(by_query, "query_position_batch_norm")
    logits = logits + normalize(by_key, "key_position_batch_norm")
    attention = reference.softmax(logits, axis=3)
    content = np.einsum("byoph,byphv->byohv", attention, values).reshape(*inputs.shape[:3], -1)
    position = np.einsum("byoph,opv->byohv", attention, of_values).reshape(content.shape)
    content = normalize(content, "content_output_batch_norm")
    return content + normalize(position, "position_output_batch_norm")


def augmented_convolution(inputs, weights, *, num_heads, strides=1, attention_pool=1):
    """3x3 convolution, padding "same", beside attention on a smaller map, enlarged bilinearly."""
    windows = reference.windows_of_three(inputs, strides, padding=0)
    outputs = np.einsum("bijcpq,pqcf->bijf", windows, weights["convolution"]["kernel"])
    _, rows, columns, _ = outputs.shape
    reduction = strides * attention_pool
    smaller = inputs if reduction == 1 else reference.average_pool(inputs, reduction)
    attended = global_attention(smaller, weights["attention"], num_heads=num_heads)
    if attention_pool > 1:
        attended = np.einsum("ip,bpqc->bicq", linear(rows, attended.shape[1]), attended)
        attended = np.einsum("jq,bicq->bijc", linear(columns, attended.shape[-1]), attended)
    return np.concatenate([outputs, attended], axis=-1)


def linear(size, positions):
    """Weights `(size, positions)` of linear interpolation between the centers of positions."""
    centers = np.clip((np.arange(size) + 0.5) * positions / size - 0.5, 0, positions - 1)
    return np.maximum(1 - np.abs(centers[:, None] - np.arange(positions)), 0)


def double_attention(inputs, weights, *, training=False):
    """x + BN(W Z + w), Z = V (B^T A)."""
    x = inputs.reshape(len(inputs), -1, inputs.shape[-1])

    def dense(x, name):
        return x @ weights[name]["kernel"] + weights[name]["bias"]

    gather = reference.softmax(dense(x, "gather"), axis=1)
    distribute = reference.softmax(dense(x, "distribute"), axis=2)
    gathered = gather.swapaxes(1, 2) @ dense(x, "features")
    outputs = dense(distribute @ gathered, "project")
    normalized = reference.batch_norm(outputs, weights["batch_norm"], training, 1e-5)
    return inputs + normalized.reshape(inputs.shape)


def linear_attention(
    inputs, weights, *, num_heads, feature_map, epsilon, multi_query=False, strides=1
):
    """All pairs of positions: `sum_m a[n, m] v[m]`, `a` from the features, divided by its sum."""
    batch, height, width, _ = inputs.shape
    queries, keys, values = (
        heads.reshape(batch, height * width, num_heads, -1)
        for heads in project(inputs, weights, num_heads, multi_query)
    )
    if feature_map == "softmax":
        queries, keys = reference.softmax(queries, axis=3), reference.softmax(keys, axis=1)
        pairs = np.einsum("bnhk,bmhk->bhnm", queries, keys)
    else:
        random = weights.get("random_features")
        queries = features(queries, feature_map, random, epsilon, 3)
        keys = features(keys, feature_map, random, epsilon, (1, 3))
        pairs = np.einsum("bnhk,bmhk->bhnm", queries, keys)
        sums = pairs.sum(axis=3, keepdims=True)
        pairs = pairs / (sums + (epsilon if feature_map == "elu" else 0))
    outputs = np.einsum("bhnm,bmhv->bnhv", pairs, values)
    return finish(outputs.reshape(batch, height, width, -1), weights, strides)


def features(x, feature_map, random, epsilon, axes_of_maximum):
    """f of x `(..., depth)`; c of FAVOR+ is a constant."""
    if feature_map == "elu":
        return np.where(x.real > 0, x + 1, np.exp(x))
    number, depth = random.shape
    if feature_map == "relu":
        projected = x @ random.T * number**-0.5
        return np.where(projected.real > 0, projected, 0) + epsilon
    x = x * depth**-0.25
    projected = x @ random.T
    half_squares = (x * x).sum(axis=-1, keepdims=True) / 2
    largest = projected.real.max(axis=axes_of_maximum, keepdims=True)
    return number**-0.5 * (np.exp(projected - half_squares - largest) + epsilon)
