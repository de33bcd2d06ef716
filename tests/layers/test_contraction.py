"""Products over shared axes: what NumPy's einsum says in float64, values and gradients."""

import keras
import numpy as np
import pytest
from keras import ops
from support import backends
from support.arrays import normal, to_numpy

from lambda_keras.layers.contraction import contract

SIZES = {"b": 2, "n": 5, "m": 7, "h": 3, "k": 4, "u": 2, "v": 6}
EQUATIONS = [
    "bnhk,bkv->bnhv",  # an axis of each is kept
    "bmku,bmvu->bkv",  # two are summed
    "bnhk,nmuk->bnhmu",  # a shared one is kept that is not the first
    "nmuk,bmvu->bnkv",  # all are kept of one tensor or summed
    "nhk,nhk->nh",  # nothing but shared ones
    "nk,nk->",
    "n,m->mn",
]


def tensors(equation):
    shapes = ([SIZES[axis] for axis in axes] for axes in equation.split("->")[0].split(","))
    return [normal(*shape, seed=number) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equals_numpy(equation):
    a, b = tensors(equation)
    expected = np.einsum(equation, a.astype("float64"), b)
    cotangent = normal(*expected.shape, seed=2)
    inputs, result = equation.split("->")
    left, right = inputs.split(",")
    layer = backends.Applied(lambda a, b: contract(equation, a, b))
    received, gradients, _ = backends.output_and_gradients(layer, [a, b], cotangent)
    np.testing.assert_allclose(received, expected, atol=1e-5)
    for gradient, own, other, axes in zip(gradients, (a, b), (b, a), (left, right), strict=True):
        others = right if axes is left else left
        wide = np.einsum(f"{result},{others}->{axes}", cotangent.astype("float64"), other)
        assert gradient.shape == own.shape
        np.testing.assert_allclose(gradient, wide, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("equation", ["bgnm,bgmv->bgnv", "nmuk,bmvu->bnkv", "bmku,bmvu->bkv"])
def test_many_terms_in_half_precision(equation, dtype):
    """TensorFlow's einsum stopped at 256 in bfloat16: one more was less than rounding there."""
    sizes = {"m": 784, "b": 4, "g": 8, "n": 56, "v": 16, "k": 16, "u": 1}
    axes = equation.split("->")[0].split(",")
    outputs = contract(equation, *(ops.ones([sizes[axis] for axis in one], dtype) for one in axes))
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(outputs), 784)
