"""The equations of the attention layers in NumPy float64, one query at a time.

As in `reference`, nothing is fast, and a complex step gives exact derivatives. Maps are
`(b, height, width, channels)`; weights go by the names that the layers give them.
"""

import itertools

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


def softmax_attention(queries, keys, values, seen, logit, places=None):
    """`sum_m softmax(logit) values`, for one example, head and query after the other.

    Args:
        queries, keys, values: maps of heads.
        seen: function of the place of a query, gives the places it sees; what is beyond the map
            has keys and values of 0.
        logit: function of a query, a key and their places.
        places: those that have a query, rows and columns of the output; by default all.
    """
    batch, height, width, heads, depth = values.shape
    rows, columns = places or (range(height), range(width))
    outputs = np.zeros((batch, len(rows), len(columns), heads, depth), "complex128")
    for b, h in itertools.product(range(batch), range(heads)):
        for (row, i), (column, j) in itertools.product(enumerate(rows), enumerate(columns)):
            logits, seen_values = [], []
            for p, q in seen(i, j):
                on_map = 0 <= p < height and 0 <= q < width
                key = keys[b, p, q, h] if on_map else np.zeros_like(keys[b, 0, 0, h])
                value = values[b, p, q, h] if on_map else np.zeros_like(values[b, 0, 0, h])
                logits.append(logit(queries[b, i, j, h], key, (i, j), (p, q)))
                seen_values.append(value)
            weights = reference.softmax(np.array(logits), axis=0)
            outputs[b, row, column, h] = weights @ np.array(seen_values)
    return outputs


def global_attention(
    inputs, weights, *, num_heads, multi_query=False, scale_positions=True, strides=1
):
    """e^-1/2 q·k + s q·(row[p - i + H - 1] + column[q - j + W - 1])."""
    _, height, width, _ = inputs.shape
    maps = project(inputs, weights, num_heads, multi_query)
    everywhere = list(itertools.product(range(height), range(width)))

    def logit(query, key, place, other):
        row = weights["row_embeddings"][other[0] - place[0] + height - 1]
        column = weights["column_embeddings"][other[1] - place[1] + width - 1]
        scale = len(query) ** -0.5
        return scale * query @ key + (scale if scale_positions else 1) * query @ (row + column)

    return finish(softmax_attention(*maps, lambda i, j: everywhere, logit), weights, strides)


def local_attention(
    inputs, weights, *, num_heads, scope, multi_query=False, mask_padding=True, strides=1
):
    """q·(k + r) over the neighbourhood, r the embeddings of row and column side by side."""
    _, height, width, _ = inputs.shape
    maps = project(inputs, weights, num_heads, multi_query)
    reach = scope // 2

    def seen(i, j):
        near = itertools.product(range(i - reach, i + reach + 1), range(j - reach, j + reach + 1))
        return [place for place in near if not mask_padding or on_map(place, height, width)]

    def logit(query, key, place, other):
        row = weights["row_embeddings"][other[0] - place[0] + reach]
        column = weights["column_embeddings"][other[1] - place[1] + reach]
        return query @ (key + np.concatenate([row, column]))

    return finish(softmax_attention(*maps, seen, logit), weights, strides)


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
    _, height, width, _ = inputs.shape
    maps = project(inputs, weights, num_heads, multi_query)
    window = block_size + 2 * halo_size
    step = strides if strided_queries else 1

    def start(i):
        return i // block_size * block_size - halo_size

    def seen(i, j):
        places = itertools.product(*(range(start(n), start(n) + window) for n in (i, j)))
        return [place for place in places if not mask_padding or on_map(place, height, width)]

    def logit(query, key, place, other):
        offsets = [
            p - start(i) - i % block_size // step + window - 1
            for i, p in zip(place, other, strict=True)
        ]
        row = weights["row_embeddings"][offsets[0]]
        column = weights["column_embeddings"][offsets[1]]
        scale = len(query) ** -0.5
        return scale * query @ key + (scale if scale_positions else 1) * query @ (row + column)

    places = range(0, height, step), range(0, width, step)
    outputs = softmax_attention(*maps, seen, logit, places)
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
    shape = (batch, height, width, width, num_heads)
    content, by_query, by_key = (np.zeros(shape, "complex128") for _ in range(3))
    for o, p in itertools.product(range(width), range(width)):
        offset = p - o + width - 1
        content[:, :, o, p] = (queries[:, :, o] * keys[:, :, p]).sum(-1)
        by_query[:, :, o, p] = queries[:, :, o] @ weights["query_embeddings"][offset]
        by_key[:, :, o, p] = keys[:, :, p] @ weights["key_embeddings"][offset]
    logits = normalize(content, "content_batch_norm")
    logits = logits + normalize(by_query, "query_position_batch_norm")
    logits = logits + normalize(by_key, "key_position_batch_norm")
    attention = reference.softmax(logits, axis=3)
    shape = (batch, height, width, num_heads, values.shape[-1])
    of_values, of_positions = np.zeros(shape, "complex128"), np.zeros(shape, "complex128")
    for o, p in itertools.product(range(width), range(width)):
        weight = attention[:, :, o, p, :, None]
        of_values[:, :, o] += weight * values[:, :, p]
        of_positions[:, :, o] += weight * weights["value_embeddings"][p - o + width - 1]
    flat = (batch, height, width, -1)
    return normalize(of_values.reshape(flat), "content_output_batch_norm") + normalize(
        of_positions.reshape(flat), "position_output_batch_norm"
    )


def augmented_convolution(inputs, weights, *, num_heads, strides=1, attention_pool=1):
    """3x3 convolution, padding "same", beside attention on a smaller map, enlarged bilinearly."""
    _, height, width, _ = inputs.shape
    rows, columns = -(-height // strides), -(-width // strides)
    before = [
        max((size - 1) * strides + 3 - full, 0) // 2
        for size, full in ((rows, height), (columns, width))
    ]
    padded = np.pad(inputs, [(0, 0), *((one, 3) for one in before), (0, 0)])
    kernel = weights["convolution"]["kernel"]
    outputs = np.zeros((len(inputs), rows, columns, kernel.shape[-1]), "complex128")
    for i, j, p, q in itertools.product(range(rows), range(columns), range(3), range(3)):
        outputs[:, i, j] += padded[:, i * strides + p, j * strides + q] @ kernel[p, q]
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
    """x + BN(W Z + w), Z = V (B^T A), one example after the other."""
    shape = inputs.shape
    positions = inputs.reshape(len(inputs), -1, shape[-1])

    def dense(x, name):
        return x @ weights[name]["kernel"] + weights[name]["bias"]

    outputs = []
    for x in positions:
        gather = reference.softmax(dense(x, "gather"), axis=0)
        distribute = reference.softmax(dense(x, "distribute"), axis=1)
        outputs.append(dense(distribute @ (gather.T @ dense(x, "features")), "project"))
    normalized = reference.batch_norm(np.array(outputs), weights["batch_norm"], training, 1e-5)
    return inputs + normalized.reshape(shape)


def linear_attention(
    inputs, weights, *, num_heads, feature_map, epsilon, multi_query=False, strides=1
):
    """All pairs of positions: `sum_m a[n, m] v[m]`, `a` from the features, divided by its sum."""
    queries, keys, values = project(inputs, weights, num_heads, multi_query)
    batch, height, width, _, depth = values.shape
    outputs = np.zeros((batch, height * width, num_heads, depth), "complex128")
    for b, h in itertools.product(range(batch), range(num_heads)):
        q, k, v = (
            tensor[b, :, :, h].reshape(height * width, -1) for tensor in (queries, keys, values)
        )
        if feature_map == "softmax":
            pairs = reference.softmax(q, axis=1) @ reference.softmax(k, axis=0).T
        else:
            random = weights.get("random_features")
            keyed = features(k, feature_map, random, epsilon, (0, 1))
            pairs = features(q, feature_map, random, epsilon, 1) @ keyed.T
            sums = pairs.sum(axis=1, keepdims=True)
            pairs = pairs / (sums + (epsilon if feature_map == "elu" else 0))
        outputs[b, :, h] = pairs @ v
    return finish(outputs.reshape(batch, height, width, -1), weights, strides)


def features(x, feature_map, random, epsilon, axes_of_maximum):
    """f of the rows of x; c of FAVOR+ is a constant."""
    if feature_map == "elu":
        return np.where(x.real > 0, x + 1, np.exp(x))
    number, depth = random.shape
    if feature_map == "relu":
        projected = x @ random.T * number**-0.5
        return np.where(projected.real > 0, projected, 0) + epsilon
    x = x * depth**-0.25
    projected = x @ random.T
    half_squares = (x * x).sum(axis=1, keepdims=True) / 2
    largest = projected.real.max(axis=axes_of_maximum, keepdims=True)
    return number**-0.5 * (np.exp(projected - half_squares - largest) + epsilon)


def on_map(place, height, width):
    return 0 <= place[0] < height and 0 <= place[1] < width
