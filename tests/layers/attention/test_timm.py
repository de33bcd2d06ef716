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
    ours.set_weights(
        [*weights, positions.height_rel.detach().numpy(), positions.width_rel.detach().numpy()]
    )
    expected = theirs(torch.tensor(x.transpose(0, 3, 1, 2))).detach().numpy()
    assert_near(to_numpy(ours(x)), expected.transpose(0, 2, 3, 1))


def kernel(convolution):
    """A 1x1 convolution as a kernel `(depth, units)`."""
    return convolution.weight.detach().numpy()[:, :, 0, 0].T


@pytest.mark.parametrize("scale_positions", [False, True])
@pytest.mark.parametrize("key_dim", [4, 8])
def test_global_attention_is_bottleneck_attn(key_dim, scale_positions):
    theirs = importlib.import_module("timm.layers.bottleneck_attn").BottleneckAttn(
        DEPTH,
        FILTERS,
        feat_size=(SIZE, SIZE),
        num_heads=HEADS,
        dim_head=key_dim,
        scale_pos_embed=scale_positions,
    )
    ours = GlobalAttention(
        FILTERS, num_heads=HEADS, key_dim=key_dim, scale_positions=scale_positions
    )
    ends = [HEADS * key_dim, 2 * HEADS * key_dim]
    equal_outputs(ours, theirs, np.split(kernel(theirs.qkv), ends, axis=1))


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("scale_positions", [False, True])
@pytest.mark.parametrize("key_dim", [4, 8])
def test_halo_attention_is_halo_attn(key_dim, scale_positions, strides):
    theirs = importlib.import_module("timm.layers.halo_attn").HaloAttn(
        DEPTH,
        FILTERS,
        stride=strides,
        num_heads=HEADS,
        dim_head=key_dim,
        block_size=4,
        halo_size=1,
        scale_pos_embed=scale_positions,
    )
    ours = HaloAttention(
        FILTERS,
        num_heads=HEADS,
        key_dim=key_dim,
        block_size=4,
        halo_size=1,
        scale_positions=scale_positions,
        mask_padding=False,
        strides=strides,
        strided_queries=strides > 1,
    )
    # The keys and values of a head stand beside each other.
    both = kernel(theirs.kv).reshape(DEPTH, HEADS, key_dim + FILTERS // HEADS)
    keys, values = both[..., :key_dim], both[..., key_dim:]
    weights = [kernel(theirs.q), keys.reshape(DEPTH, -1), values.reshape(DEPTH, -1)]
    equal_outputs(ours, theirs, weights)
