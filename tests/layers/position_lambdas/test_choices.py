"""The rule of `auto`, by kind of device, and the capabilities of implementations.

choices.yaml has the tables.
"""

from itertools import product
from pathlib import Path

import pytest
import yaml

from lambda_keras.layers.position_lambdas import CHOICES, capable, compiling_for, fastest

TABLES = yaml.safe_load(Path(__file__).with_name("choices.yaml").read_text())


def choice(kind, xla, *given, causal=False, u=1, **needs):
    """The choice on a kind of device for a grid, scope, value depth, training and so on."""
    with compiling_for(kind, xla):
        return fastest(*given, causal=causal, intra_depth=u, **needs)


@pytest.mark.parametrize(
    ("grid", "scope", "value_dim", "u", "causal", "training", "with_xla", "without"), TABLES["cpu"]
)
@pytest.mark.parametrize("where", ["xla", "tensorflow", "torch"])
def test_choices_on_cpus(where, grid, scope, value_dim, u, causal, training, with_xla, without):
    needs = {"causal": causal, "u": u, "backend": where}
    chosen = choice("cpu", where == "xla", grid, scope, value_dim, training, **needs)
    # PyTorch has libraries for convolutions, but is slow at products in tiles.
    as_in_xla = where == "xla" or (where == "torch" and training)
    assert chosen == (with_xla if as_in_xla else without)


@pytest.mark.parametrize(
    ("backend", "size", "scope", "value_dim", "training", "strides", "num_heads", "chosen"),
    TABLES["values_strides_and_heads"],
)
def test_values_strided_queries_and_heads_on_cpus(
    backend, size, scope, value_dim, training, strides, num_heads, chosen
):
    sizes = (size, size), (scope, scope), value_dim
    assert chosen == choice("cpu", False, *sizes, training, None, strides, num_heads, backend)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("grid", "scope", "causal", "on_gpu", "on_tpu"), TABLES["accelerators"])
def test_choices_on_accelerators(grid, scope, causal, on_gpu, on_tpu, training):
    for kind, expected in (("gpu", on_gpu), ("tpu", on_tpu)):
        chosen = choice(kind, True, grid, scope, 32, training, causal=causal)
        assert chosen == (expected[training] if isinstance(expected, list) else expected)


@pytest.mark.parametrize(
    ("kind", "grid", "scope", "batch", "causal", "xla", "forward", "training"),
    TABLES["without_xla_or_small_batches"],
)
def test_choices_without_xla_or_for_small_batches(
    kind, grid, scope, batch, causal, xla, forward, training
):
    sizes = grid, (scope,) * len(grid), 32
    for trains, expected in ((False, forward), (True, training)):
        assert choice(kind, xla, *sizes, trains, batch, causal=causal) == expected


@pytest.mark.parametrize(
    ("grid", "scope", "value_dim", "expected"),
    [
        ((14, 14), 7, 16, "depthwise_conv"),
        ((16, 16), 9, 64, "query_first"),  # on CPUs a convolution, which int8 leaves out
        ((24, 24), 9, 64, "conv"),
        ((20, 20), 23, 64, "query_first"),
        ((28, 28), 23, 32, "conv"),  # OpenVINO does not convert TensorFlow's Fourier transforms
    ],
)
def test_choices_for_runtimes(grid, scope, value_dim, expected):
    sizes = grid, (scope,) * 2, value_dim
    assert choice("runtime", False, *sizes, False, backend="tensorflow") == expected


@pytest.mark.parametrize("kind", CHOICES)
def test_every_case_has_a_capable_choice(kind):
    grids = [(4,), (3000,), (None,), (9, 9), (80, 80), (None, 9), (2, 3, 4), (9, 30, 30)]
    flags = [(False, True)] * 3
    for grid, size, u, training, causal, own in product(grids, (None, 3, 23), (1, 2), *flags):
        scope = size and (size,) * len(grid)
        needs = {"causal": causal, "intra_depth": u, "own_pairs": own and scope is None}
        with compiling_for(kind):
            chosen = fastest(grid, scope, 16, training, **needs)
        needs |= {"axes": len(grid), "any_pairs": scope is None}
        assert chosen in capable(**needs, unknown_grid=None in grid)


def test_what_implementations_can_do():
    """`auto` and the others, by what the paper's figures and the mathematics allow."""
    dense = ("auto", "einsum", "query_first", "dense_matmul")
    local = ("conv", "toeplitz_conv")
    everything = (*dense, "conv", "depthwise_conv", "toeplitz_conv", "fourier")
    assert capable() == capable(axes=2) == everything
    assert capable(axes=3) == (*dense, *local, "fourier")
    assert capable(intra_depth=2) == (*dense, *local, "fourier")
    assert capable(causal=True) == everything[:-1]
    assert capable(unknown_grid=True) == (*dense, "conv", "depthwise_conv")
    assert capable(any_pairs=True) == dense
    assert capable(own_pairs=True) == ("auto", "query_first")
    assert capable(causal=True, axes=3) == (*dense, *local)
