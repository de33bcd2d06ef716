"""Global and halo attention against timm on equal weights."""

import importlib

import numpy as np
import pytest
from support import needs
from support.arrays import assert_near, normal, to_numpy

from lambda_keras.layers import GlobalAttention, HaloAttention

needs.check("timm")
torch = needs.package("torch")

DEPTH, FILTERS, HEADS, SIZE = 6, 16, 2, 8


def equal_outputs(ours, theirs, weights):
    x = normal(2, SIZE, SIZE, DEPTH)
    ours.build(x.shape)
    positions = theirs.pos_embed
    tables = (positions.height_rel.detach().numpy(), positions.width_rel.detach().numpy())
    ours.set_weights([*weights, *tables])
    expected = theirs(torch.tensor(x.transpose(0, 3, 1, 2))).detach().numpy()
    assert_near(to_numpy(ours(x)), expected.transpose(0, 2, 3, 1))


def kernel(convolution):
    """A 1x1 convolution as a kernel `(depth, units)`."""
    return convolution.weight.detach().numpy()[:, :, 0, 0].T


@pytest.mark.parametrize("scale_positions", [False, True])
@pytest.mark.parametrize("key_dim", [4, 8])
def test_global_attention_is_bottleneck_attn(key_dim, scale_positions):
    kind = importlib.import_module("timm.layers.bottleneck_attn").BottleneckAttn
    sizes = {"num_heads": HEADS, "dim_head": key_dim, "scale_pos_embed": scale_positions}
    theirs = kind(DEPTH, FILTERS, feat_size=(SIZE, SIZE), **sizes)
    sizes = {"num_heads": HEADS, "key_dim": key_dim, "scale_positions": scale_positions}
    ours = GlobalAttention(FILTERS, **sizes)
    ends = [HEADS * key_dim, 2 * HEADS * key_dim]
    equal_outputs(ours, theirs, np.split(kernel(theirs.qkv), ends, axis=1))


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("scale_positions", [False, True])
@pytest.mark.parametrize("key_dim", [4, 8])
def test_halo_attention_is_halo_attn(key_dim, scale_positions, strides):
    common = {"num_heads": HEADS, "block_size": 4, "halo_size": 1}
    own = {"stride": strides, "dim_head": key_dim, "scale_pos_embed": scale_positions}
    kind = importlib.import_module("timm.layers.halo_attn").HaloAttn
    theirs = kind(DEPTH, FILTERS, **common, **own)
    own = {"strides": strides, "key_dim": key_dim, "scale_positions": scale_positions}
    own |= {"mask_padding": False, "strided_queries": strides > 1}
    ours = HaloAttention(FILTERS, **common, **own)
    # The keys and values of a head stand beside each other.
    both = kernel(theirs.kv).reshape(DEPTH, HEADS, key_dim + FILTERS // HEADS)
    keys, values = both[..., :key_dim], both[..., key_dim:]
    weights = [kernel(theirs.q), keys.reshape(DEPTH, -1), values.reshape(DEPTH, -1)]
    equal_outputs(ours, theirs, weights)
