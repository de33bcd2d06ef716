"""Convolutions of long sequences, at which oneDNN would divide by zero."""

import math
import os
import subprocess
import sys

import keras
import pytest

from lambda_keras.layers.position_lambdas import compiling_for
from lambda_keras.layers.position_lambdas.conv import conv, countable


def test_convolved_sequences_have_few_factors_of_two():
    """Long contexts are one longer: oneDNN would divide by n * n * blocks of k modulo 2**32."""
    assert countable((60000,), 16) == (60000,)
    assert countable((65537,), 64) == (65537,)
    for n, k in [(65536, 1), (65536, 16), (3 * 65536, 16), (32768, 64), (4096, 4096)]:
        (length,) = countable((n,), k)
        assert length == n + 1
        (length,) = countable((keras.ops.convert_to_tensor(n, "int32"),), k)
        assert int(length) == n + 1


TRAIN_IN_BFLOAT16 = """
import numpy as np
from support import backends
from lambda_keras.layers import LambdaLayer
x = np.random.default_rng(0).normal(size=(128, 14, 14, 32)).astype("float32")
layer = LambdaLayer(32, implementation="conv", dtype="mixed_bfloat16")
layer.build(x.shape)
backends.output_and_gradients(layer, [x], x, training=True)
"""
TRAIN_ON_LONG_SEQUENCES = """
import numpy as np
from support import backends
from lambda_keras.layers import LambdaLayer
for n, k in [(65536, 4), (32768, 64)]:
    layer = LambdaLayer(8, num_heads=1, key_dim=k, scope=3, use_content=False)
    x = np.random.default_rng(0).normal(size=(1, n, 4)).astype("float32")
    layer.build(x.shape)
    output, by_inputs, by_weights = backends.output_and_gradients(
        layer, [x], np.ones((1, n, 8), "float32"), training=True
    )
    assert all(np.isfinite(array).all() for array in [output, *by_inputs, *by_weights])
"""


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="XLA does not convolve by oneDNN")
@pytest.mark.parametrize("code", [TRAIN_ON_LONG_SEQUENCES, TRAIN_IN_BFLOAT16])
def test_training_does_not_end_the_process(code):
    """In a process of its own, which an exception inside a library would kill."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert result.returncode == 0


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("grid", [(5,), (3, 4), (2, 3, 2)])
def test_precision_of_the_convolution(monkeypatch, grid, kind):
    """In float32 on CPUs but by JAX: oneDNN's gradients in bfloat16 write past their memory."""
    seen = []

    def convolve(values, kernel, *arguments):
        seen.extend(keras.backend.standardize_dtype(one.dtype) for one in (values, kernel))
        return original(values, kernel, *arguments)

    module = sys.modules[conv.__module__]
    original = module.convolve
    monkeypatch.setattr(module, "convolve", convolve)
    size = math.prod(grid)
    queries = keras.ops.ones((2, *grid, 3, 4), "bfloat16")
    values = keras.ops.ones((2, *grid, 5, 1), "bfloat16")
    embeddings = keras.ops.ones((*(3 for _ in grid), 1, 4), "bfloat16")
    with compiling_for(kind):
        outputs = conv(queries, values, embeddings)
    exact = kind == "cpu" and keras.backend.backend() != "jax"
    assert seen == ["float32" if exact else "bfloat16"] * 2
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert outputs.shape == (2, size, 3, 5)
