"""Settings that all commands on the layer share, and the operations of the paper."""

import math

import pytest

from zoo.benchmark.cases import FORWARD, FORWARD_BACKWARD, LAYER, POSITION, Case, LayerSettings


def test_sizes_and_scopes_make_cases():
    settings = LayerSettings.from_command_line(
        ["--sizes", "8x16,4x32x1", "--scopes", "3,5", "--batch", "6"]
    )
    assert settings.cases() == [
        Case(8, 16, 6, 3),
        Case(4, 32, 1, 3),
        Case(8, 16, 6, 5),
        Case(4, 32, 1, 5),
    ]
    assert LayerSettings(part="position", scopes=(3,), sizes=("4x8",)).cases() == [
        Case(4, 8, 4, 3, "position")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "8"], "sizes: expected SIZExDEPTH"),
        (["--sizes", "0x8"], "sizes: expected SIZExDEPTH"),
        (["--sizes", "8x8x8x8"], "sizes: expected SIZExDEPTH"),
        (["--sizes", "8x6"], "divisible by 4"),
        (["--scopes", "4"], "scopes: expected positive odd numbers"),
        (["--scopes", "-3"], "scopes: expected positive odd numbers"),
        (["--output", "table.txt"], r"ends in \.json.*Received: 'table.txt'"),
        (["--dtype", "float3"], "did you mean 'float32'"),
        (["--batch", "0"], "batch"),
        (["--part", "content"], "Received: .content.. Allowed: layer, position"),
        (["--bach", "1"], "did you mean '--batch'"),
    ],
)
def test_wrong_settings_are_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        LayerSettings.from_command_line(arguments)
    assert "\n" not in str(caught.value)


def test_baseline_is_always_measured_and_first():
    existing = ("auto", "einsum", "conv")
    assert LayerSettings().chosen(existing) == ["einsum", "conv", "auto"]
    chosen = LayerSettings(implementations=("auto", "conv")).chosen(existing)
    assert chosen == ["einsum", "conv", "auto"]
    with pytest.raises(ValueError, match="did you mean 'conv'"):
        LayerSettings(implementations=("conf",)).chosen(existing)


@pytest.mark.parametrize("scope", [3, 23])
def test_flops_count_every_product_twice(scope):
    batch, n, depth, heads, key, value = 2, 25, 32, 4, 16, 8
    context = min(scope**2, n)
    others = [
        (batch, n, depth, heads * key),  # queries
        (batch, n, depth, key),
        (batch, n, depth, value),
        (batch, n, key, value),  # content lambda
        (batch, n, heads, key, value),  # applied
    ]
    position = [
        (batch, n, context, key, value),  # position lambdas
        (batch, n, heads, key, value),  # applied
    ]
    for part, products in {LAYER: others + position, POSITION: position}.items():
        case = Case(5, depth, batch, scope, part)
        assert case.flops(FORWARD) == 2 * sum(map(math.prod, products))
        assert case.flops(FORWARD_BACKWARD) == 3 * case.flops(FORWARD)


def test_size_of_dense_embeddings():
    assert Case(64, 256, 1, 23).dense_bytes(4) == 4096 * 4096 * 16 * 4
