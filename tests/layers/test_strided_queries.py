"""Strided queries, counted, and in networks.

`test_lambda_layer.py` has their masks, `test_lambda_layer_exact.py` compares them with the
reference, and `position_lambdas/test_every_implementation.py` each implementation.
"""

import pytest
from support import networks

from lambda_keras.applications import LambdaResNet14, count_flops
from lambda_keras.layers import LambdaLayer


def pair(strides, **arguments):
    """A layer of strided queries, and one that has a query at every position."""
    arguments = {"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 5, **arguments}
    strided = LambdaLayer(strides=strides, strided_queries=True, **arguments)
    return strided, LambdaLayer(**arguments)


@pytest.mark.one_backend
def test_flops_of_queries_are_those_of_the_queries_that_there_are():
    h, k, u, v, d, seen = 2, 3, 1, 4, 6, 25
    layer, whole = pair(2)
    counts = [one.count_flops((None, 9, 8, d)) for one in (layer, whole)]
    for found, n in zip(counts, (5 * 4, 9 * 8), strict=True):
        assert found == {
            "projections": 2 * (n * d * h * k + 72 * d * u * (k + v)),
            "content": 2 * (72 * u * k * v + n * h * k * v),
            "position": 2 * (n * seen * u * k * v + n * h * k * v),
        }


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.parametrize("padding", ["fixed", "symmetric"])
def test_networks(padding):
    """The parameters stay, and nothing is pooled after a lambda layer, in PyTorch's padding too."""
    arguments = {"input_shape": (32, 32, 3), "classes": 5, "padding": padding}
    pooled = LambdaResNet14(**arguments)
    in_c5, strided = (
        LambdaResNet14(strided_queries=value, **arguments)
        for value in ([False, False, False, True], True)
    )
    shapes = [[variable.shape for variable in model.weights] for model in (pooled, strided, in_c5)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert count_flops(strided) < count_flops(in_c5) < count_flops(pooled)
    layers = [strided.get_layer(f"{name}_2_lambda") for name in networks.lambda_blocks(strided)]
    assert [(layer.strides, layer.strided_queries) for layer in layers] == [(2, True)] * 2
    assert not [layer.name for layer in strided.layers if layer.name.endswith("_2_pool")]
    assert strided.output_shape == pooled.output_shape
