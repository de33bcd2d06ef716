"""The rule of `auto`, by kind of device, and the capabilities of implementations."""

import pytest

from lambda_keras.layers.position_lambdas import CHOICES, capable, compiling_for, fastest

# grid, scope, value_dim, intra_depth, causal, training, implementation with and without XLA.
CPU = [
    ((7, 7), (23, 23), 128, 1, False, True, "query_first", "query_first"),
    ((14, 14), (23, 23), 64, 1, False, True, "query_first", "query_first"),
    ((16, 16), (7, 7), 64, 1, False, True, "query_first", "query_first"),
    ((16, 16), (7, 7), 64, 1, False, False, "query_first", "conv"),
    ((7, 7), (7, 7), 64, 1, False, False, "query_first", "query_first"),
    ((28, 28), (23, 23), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (7, 7), 32, 1, False, True, "fourier", "query_first"),
    ((24, 24), (11, 11), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (7, 7), 32, 1, False, False, "fourier", "depthwise_conv"),
    ((28, 28), (7, 7), 64, 1, False, False, "fourier", "conv"),
    ((28, 28), (7, 7), 32, 4, False, False, "fourier", "conv"),
    ((56, 56), (11, 11), 64, 1, False, False, "fourier", "conv"),
    ((56, 56), (13, 13), 64, 1, False, False, "fourier", "fourier"),
    ((56, 56), (11, 11), 64, 1, False, True, "fourier", "query_first"),
    ((56, 56), (13, 13), 64, 1, False, True, "fourier", "fourier"),
    ((160, 160), (7, 7), 20, 1, False, True, "fourier", "query_first"),
    # Narrow values: products of queries and embeddings take 1.2 to 13 times as long.
    ((160, 160), (7, 7), 19, 1, False, True, "fourier", "fourier"),
    ((14, 14), (11, 11), 19, 1, False, True, "query_first", "toeplitz_conv"),
    ((28, 28), (3, 3), 19, 1, False, True, "fourier", "depthwise_conv"),
    ((28, 28), (3, 3), 20, 1, False, True, "fourier", "query_first"),
    ((28, 28), (23, 23), 8, 1, True, True, "conv", "toeplitz_conv"),
    ((8, 28, 28), (7, 7, 7), 32, 1, False, False, "fourier", "conv"),
    ((8, 28, 28), (7, 7, 7), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (23, 23), 32, 1, False, False, "fourier", "fourier"),
    ((20, 20), (23, 23), 32, 1, False, False, "fourier", "fourier"),
    ((20, 20), (23, 23), 64, 1, False, True, "fourier", "fourier"),
    ((28, 28), (23, 23), 32, 1, True, True, "conv", "query_first"),
    ((28, 28), (23, 23), 32, 1, True, False, "conv", "conv"),
    ((40, 40), (23, 23), 32, 1, True, True, "conv", "conv"),
    ((256, 256), (23, 23), 32, 1, True, True, "conv", "query_first"),
    ((8, 28, 28), (7, 7, 7), 32, 1, True, True, "conv", "conv"),
    ((None, 28), (23, 23), 32, 1, False, True, "conv", "conv"),
    ((256, 256), (23, 23), 16, 1, False, True, "fourier", "fourier"),
    ((1000,), (23,), 16, 1, False, True, "query_first", "query_first"),
    ((1000,), (999,), 16, 1, False, False, "conv", "conv"),
    ((1000,), (971,), 16, 1, False, False, "query_first", "query_first"),
    ((1000,), (1999,), 16, 1, True, True, "query_first", "query_first"),
    ((1000,), (1999,), 16, 1, True, False, "conv", "conv"),
    ((2000,), (3999,), 16, 1, True, True, "conv", "conv"),
]


@pytest.mark.parametrize(
    ("grid", "scope", "value_dim", "u", "causal", "training", "with_xla", "without"), CPU
)
@pytest.mark.parametrize("where", ["xla", "tensorflow", "torch"])
def test_choices_on_cpus(where, grid, scope, value_dim, u, causal, training, with_xla, without):
    needs = {"causal": causal, "intra_depth": u, "backend": where}
    with compiling_for("cpu", xla=where == "xla"):
        chosen = fastest(grid, scope, value_dim, training, **needs)
    # PyTorch has libraries for convolutions, but is slow at products in tiles.
    as_in_xla = where == "xla" or (where == "torch" and training)
    assert chosen == (with_xla if as_in_xla else without)


@pytest.mark.parametrize(
    ("backend", "size", "scope", "value_dim", "training", "strides", "num_heads", "chosen"),
    [
        # Measured on TensorFlow: at 20x20 they take 0.8 of the time of transforms.
        ("tensorflow", 20, 23, 64, False, 1, 4, "query_first"),
        ("tensorflow", 20, 23, 63, False, 1, 4, "fourier"),
        ("tensorflow", 21, 23, 64, False, 1, 4, "fourier"),
        ("torch", 20, 23, 64, False, 1, 4, "fourier"),
        # From 11x11 to 16x16 products of queries and embeddings take 1.1 to 1.6 times as long.
        ("tensorflow", 11, 23, 8, True, 1, 4, "dense_matmul"),
        ("tensorflow", 16, 23, 8, True, 1, 4, "dense_matmul"),
        ("tensorflow", 10, 23, 8, True, 1, 4, "query_first"),
        ("tensorflow", 17, 23, 8, True, 1, 4, "fourier"),
        ("tensorflow", 14, 23, 19, True, 1, 4, "dense_matmul"),
        ("tensorflow", 14, 23, 20, True, 1, 4, "query_first"),
        ("tensorflow", 14, 23, 8, True, 2, 4, "query_first"),
        ("torch", 14, 23, 8, True, 1, 4, "query_first"),
        # Strided queries, in the time of transforms: products take 0.8 at 20x20, 1.4 at 28x28.
        ("tensorflow", 20, 23, 64, True, 2, 4, "query_first"),
        ("tensorflow", 28, 23, 64, True, 2, 4, "fourier"),
        ("tensorflow", 28, 23, 64, False, 2, 4, "fourier"),
        ("torch", 28, 23, 64, True, 2, 4, "fourier"),
        # Small scopes: products with queries grow with their number, lambdas do not.
        ("tensorflow", 28, 7, 32, True, 1, 1, "query_first"),
        ("tensorflow", 28, 7, 32, True, 2, 4, "query_first"),
        ("tensorflow", 28, 7, 32, True, 1, 8, "fourier"),
    ],
)
def test_values_strided_queries_and_heads_on_cpus(
    backend, size, scope, value_dim, training, strides, num_heads, chosen
):
    sizes, needs = ((size, size), (scope, scope), value_dim), {"causal": False, "intra_depth": 1}
    with compiling_for("cpu", xla=False):
        found = fastest(*sizes, training, None, strides, num_heads, backend, **needs)
    assert found == chosen


# grid, scope, causal, choices on a GPU and on a TPU; in a tuple forward and training.
ACCELERATORS = [
    ((56, 56), (23, 23), False, "toeplitz_conv", "toeplitz_conv"),
    ((56, 56), (7, 7), False, "toeplitz_conv", "toeplitz_conv"),
    ((28, 28), (23, 23), False, "toeplitz_conv", "toeplitz_conv"),
    ((28, 28), (7, 7), False, "toeplitz_conv", "toeplitz_conv"),
    ((28, 28), (23, 23), True, "toeplitz_conv", "toeplitz_conv"),
    ((20, 20), (23, 23), False, "dense_matmul", ("einsum", "dense_matmul")),
    ((20, 20), (7, 7), False, "dense_matmul", "toeplitz_conv"),
    ((16, 16), (23, 23), False, "dense_matmul", "query_first"),
    ((14, 14), (23, 23), False, "dense_matmul", "query_first"),
    ((7, 7), (23, 23), False, "query_first", "query_first"),
    ((4000,), (23,), True, "query_first", "query_first"),
    ((1000,), (1999,), False, "dense_matmul", "query_first"),
    ((9000,), (17999,), False, "conv", "conv"),
    ((8, 28, 28), (7, 7, 7), False, "toeplitz_conv", "toeplitz_conv"),
    ((None, 28), (23, 23), False, "conv", "conv"),
    ((7, 7), None, False, "query_first", "query_first"),
    ((40, 40), None, True, "dense_matmul", "query_first"),
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("grid", "scope", "causal", "on_gpu", "on_tpu"), ACCELERATORS)
def test_choices_on_accelerators(grid, scope, causal, on_gpu, on_tpu, training):
    for kind, expected in (("gpu", on_gpu), ("tpu", on_tpu)):
        with compiling_for(kind, xla=True):
            chosen = fastest(grid, scope, 32, training, causal=causal, intra_depth=1)
        assert chosen == (expected[training] if isinstance(expected, tuple) else expected)


@pytest.mark.parametrize(
    ("kind", "grid", "scope", "batch", "causal", "xla", "forward", "training"),
    [
        # PyTorch's 3-d convolution makes lambda networks half as fast as attention networks.
        ("gpu", (56, 56), 7, None, False, False, "toeplitz_conv", "toeplitz_conv"),
        ("gpu", (28, 28), 7, None, True, False, "toeplitz_conv", "toeplitz_conv"),
        ("gpu", (16, 16), 7, None, False, False, "dense_matmul", "dense_matmul"),
        ("gpu", (8, 28, 28), 7, None, False, False, "fourier", "fourier"),
        # Small batches.
        ("gpu", (14, 14), 7, 8, False, True, "dense_matmul", "toeplitz_conv"),
        ("gpu", (14, 14), 7, 33, False, True, "dense_matmul", "dense_matmul"),
        ("gpu", (12, 12), 7, 8, False, True, "dense_matmul", "dense_matmul"),
        ("tpu", (56, 56), 23, 8, False, True, "fourier", "fourier"),
        ("tpu", (56, 56), 7, 8, False, True, "fourier", "fourier"),
        ("tpu", (20, 20), 23, 8, False, True, "toeplitz_conv", "fourier"),
        ("tpu", (14, 14), 23, 8, False, True, "toeplitz_conv", "fourier"),
        ("tpu", (7, 7), 23, 8, False, True, "query_first", "query_first"),
    ],
)
def test_choices_without_xla_or_for_small_batches(
    kind, grid, scope, batch, causal, xla, forward, training
):
    sizes, needs = (grid, (scope,) * len(grid), 32), {"causal": causal, "intra_depth": 1}
    with compiling_for(kind, xla):
        found = [fastest(*sizes, trains, batch, **needs) for trains in (False, True)]
    assert found == [forward, training]


@pytest.mark.parametrize(
    ("grid", "scope", "value_dim", "expected"),
    [
        ((14, 14), 7, 16, "depthwise_conv"),
        ((16, 16), 9, 64, "query_first"),  # on CPUs a convolution, which int8 leaves out
        ((24, 24), 9, 64, "conv"),
        ((20, 20), 23, 64, "query_first"),
    ],
)
def test_choices_for_runtimes(grid, scope, value_dim, expected):
    with compiling_for("runtime", xla=False):
        assert fastest(grid, (scope,) * 2, value_dim, False, causal=False) == expected


@pytest.mark.parametrize("kind", CHOICES)
def test_every_case_has_a_capable_choice(kind):
    for grid in [(4,), (3000,), (None,), (9, 9), (80, 80), (None, 9), (2, 3, 4), (9, 30, 30)]:
        for scope in [None, (3,) * len(grid), (23,) * len(grid)]:
            for number in range(16):
                training, causal, deep, own = (bool(number & bit) for bit in (1, 2, 4, 8))
                needs = {"causal": causal, "intra_depth": 2 if deep else 1}
                needs["own_pairs"] = own and scope is None
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
