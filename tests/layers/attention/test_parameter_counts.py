"""Weights of the layers in all of a ResNet-50 and in its last stages: the counts of baselines.

A layer takes the place of the 3x3 convolution of a bottleneck block, so the totals differ by it.
"""

import json
import math
from pathlib import Path

import pytest

from lambda_keras.layers import (
    AxialAttention,
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    LinearAttention,
    LocalAttention,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden_baselines.json").read_text("utf-8"))
STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))  # filters, blocks, output size
LAYERS = {
    "lambda k16 h4 scope23": lambda filters: LambdaLayer(filters),
    "lambda content only": lambda filters: LambdaLayer(filters, position_embedding=None),
    "local_7x7_h8": lambda filters: LocalAttention(filters),
    "global_relative_h8": lambda filters: GlobalAttention(filters),
    "global_relative_h4": lambda filters: GlobalAttention(filters, num_heads=4),
    "halo_block7_halo3_h8": lambda filters: HaloAttention(filters, block_size=7),
    "axial_position_sensitive_h8": lambda filters: AxialAttention(filters),
    "linear_h8 (elu+1 or softmax)": lambda filters: LinearAttention(filters, feature_map="elu"),
    "performer_h8_m256": lambda filters: LinearAttention(filters, feature_map="favor"),
}


def weights(layer, filters, size):
    """Trainable weights of a layer that gets as many channels as it has filters."""
    layer.build((None, size, size, filters))
    return sum(math.prod(variable.shape) for variable in layer.trainable_variables)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "placement"),
    [(name, placement) for name in LAYERS for placement in GOLDEN[name]],
)
def test_totals_of_resnet50(name, placement):
    total = GOLDEN["conv"]["CCCC"]["params"]
    for number, (letter, (filters, blocks, size)) in enumerate(zip(placement, STAGES, strict=True)):
        if letter != "L":
            continue
        # The strided first block gets the map of the stage before.
        first = size if number == 0 else 2 * size
        for size_of_block, times in ((first, 1), (size, blocks - 1)):
            of_layer = weights(LAYERS[name](filters), filters, size_of_block)
            total += times * (of_layer - 9 * filters**2)
    # The batch normalization after the layer is there after a convolution, too.
    assert total == GOLDEN[name][placement]["params"]


@pytest.mark.one_backend
def test_weights_that_arguments_add():
    def count(**arguments):
        return weights(LinearAttention(64, **arguments), 64, 7)

    assert count() == 3 * 64**2
    assert count(output_projection=True) == 4 * 64**2
    assert count(multi_query=True) == 64**2 + 2 * 64 * 8
    assert count(key_dim=4, num_heads=4) == 2 * 64 * 16 + 64**2
