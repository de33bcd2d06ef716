"""The attention layers against public PyTorch packages on equal weights."""

import numpy as np
import pytest
from support import needs
from support.arrays import assert_near, normal, to_numpy

from lambda_keras.layers import AxialAttention, GlobalAttention, HaloAttention, LinearAttention

torch = needs.package("torch")

DEPTH, FILTERS, HEADS, SIZE = 6, 8, 2, 6


def images(depth=DEPTH):
    return normal(2, SIZE, SIZE, depth)


def numpy_of(parameter):
    return parameter.detach().numpy()


def outputs_of(theirs, x):
    return numpy_of(theirs(torch.tensor(x.transpose(0, 3, 1, 2)))).transpose(0, 2, 3, 1)


def pointwise(weight):
    """A linear layer, or a 1x1 convolution, as a kernel `(depth, units)`."""
    weight = numpy_of(weight)
    return weight.reshape(weight.shape[:2]).T


def test_global_attention_is_that_of_bottleneck_transformer():
    bottleneck = needs.package("bottleneck_transformer_pytorch.bottleneck_transformer_pytorch")
    sizes = {"fmap_size": (SIZE, SIZE), "heads": HEADS, "dim_head": FILTERS // HEADS}
    theirs = bottleneck.Attention(dim=DEPTH, rel_pos_emb=True, **sizes)
    ours, x = GlobalAttention(FILTERS, num_heads=HEADS), images()
    ours.build(x.shape)
    queries, keys, values = np.split(pointwise(theirs.to_qkv.weight), 3, axis=1)
    rows, columns = theirs.pos_emb.rel_height, theirs.pos_emb.rel_width
    ours.set_weights([queries, keys, values, numpy_of(rows), numpy_of(columns)])
    assert_near(to_numpy(ours(x)), outputs_of(theirs, x))


def test_halo_attention_is_that_of_halonet():
    sizes = {"block_size": 3, "halo_size": 2, "heads": HEADS, "dim_head": FILTERS // HEADS}
    theirs = needs.package("halonet_pytorch").HaloAttention(dim=DEPTH, **sizes)
    torch.nn.init.zeros_(theirs.to_out.bias)
    ours, x = HaloAttention(FILTERS, num_heads=HEADS, block_size=3, halo_size=2), images()
    ours.build(x.shape)
    keys, values = np.split(pointwise(theirs.to_kv.weight), 2, axis=1)
    rows, columns = theirs.rel_pos_emb.rel_height, theirs.rel_pos_emb.rel_width
    queries = pointwise(theirs.to_q.weight)
    ours.set_weights([queries, keys, values, numpy_of(rows), numpy_of(columns)])
    # Its output projection has other sizes than ours.
    projected = to_numpy(ours(x)) @ pointwise(theirs.to_out.weight)
    assert_near(projected, outputs_of(theirs, x))


@pytest.mark.parametrize("feature_map", ["favor", "relu"])
def test_random_features_are_those_of_performer(feature_map):
    theirs = needs.package("performer_pytorch.performer_pytorch")
    features = {"feature_map": feature_map, "num_features": 7}
    features["epsilon"] = 1e-4 if feature_map == "favor" else 1e-3
    ours, x = LinearAttention(FILTERS, num_heads=HEADS, **features), images()
    ours.build(x.shape)
    queries, keys, values = (torch.tensor(tensor) for tensor in heads_of(ours, x))
    matrix = torch.tensor(to_numpy(ours.random_features))
    if feature_map == "favor":
        queries = theirs.softmax_kernel(queries, projection_matrix=matrix, is_query=True)
        keys = theirs.softmax_kernel(keys, projection_matrix=matrix, is_query=False)
    else:
        options = {"projection_matrix": matrix * 7**-0.5, "normalize_data": False}
        queries, keys = (theirs.generalized_kernel(one, **options) for one in (queries, keys))
    expected = merged(theirs.linear_attention(queries, keys, values).numpy())
    assert_near(to_numpy(ours(x)), expected)


def test_softmax_features_are_those_of_linear_attention_transformer():
    theirs = needs.package("linear_attention_transformer.linear_attention_transformer")
    ours, x = LinearAttention(FILTERS, num_heads=HEADS), images()
    ours.build(x.shape)
    heads = [torch.tensor(tensor) for tensor in heads_of(ours, x)]
    # It divides queries once more by the square root of their depth.
    expected = merged(theirs.linear_attn(*heads).numpy()) * (FILTERS // HEADS) ** 0.5
    assert_near(to_numpy(ours(x)), expected)


def heads_of(layer, x):
    """Queries, keys and values `(b, h, n, depth of a head)`."""
    for kernel in layer.get_weights()[:3]:
        maps = (x @ kernel).reshape(len(x), SIZE * SIZE, HEADS, -1)
        yield maps.transpose(0, 2, 1, 3)


def merged(tensor):
    return tensor.transpose(0, 2, 1, 3).reshape(len(tensor), SIZE, SIZE, FILTERS)


def test_axial_attention_without_its_own_is_that_of_axial_attention():
    """No positions, batch normalizations that do nothing but scale the logits."""
    theirs = needs.package("axial_attention").AxialAttention(
        dim=FILTERS, heads=HEADS, dim_index=-1, sum_axial_out=False
    )
    key_dim = FILTERS // HEADS
    ours, x = AxialAttention(FILTERS, num_heads=HEADS, key_dim=key_dim), images(FILTERS)
    ours.build(x.shape)
    for variable in ours.variables:
        if "embeddings" in variable.name:
            variable.assign(np.zeros(variable.shape))
        if variable.name == "gamma":
            variable.assign(np.full(variable.shape, (1 + 1e-5) ** 0.5))
    for_next = np.eye(FILTERS)
    for own, other in zip(
        (ours.height_attention, ours.width_attention), theirs.axial_attentions, strict=True
    ):
        own.content_batch_norm.gamma.assign(np.full(HEADS, (1 + 1e-5) ** 0.5 * key_dim**-0.5))
        torch.nn.init.zeros_(other.fn.to_out.bias)
        # Its output projection between the axes is a part of our next projections.
        keys, values = np.split(pointwise(other.fn.to_kv.weight), 2, axis=1)
        own.query_kernel.assign(for_next @ pointwise(other.fn.to_q.weight))
        own.key_kernel.assign(for_next @ keys)
        own.value_kernel.assign(for_next @ values)
        for_next = pointwise(other.fn.to_out.weight)
    expected = numpy_of(theirs(torch.tensor(x)))
    assert_near(to_numpy(ours(x)) @ for_next, expected)
