"""Feature maps and scopes, the operations of the paper, and which implementations there are."""

import math

import pytest

from lambda_keras.layers.lambda_layer import CHOICES
from zoo.benchmark.cases import (
    FORWARD,
    FORWARD_BACKWARD,
    LAYER,
    POSITION,
    Implementation,
    LayerSettings,
)


def test_sizes_and_scopes_make_cases():
    settings = LayerSettings.from_command_line(
        ["--sizes", "8x16,4x32x1", "--scopes", "3,5", "--batch", "6"]
    )
    assert [subjects[0] for subjects in settings.subjects()] == [
        Implementation("einsum", 8, 16, 6, 3),
        Implementation("einsum", 4, 32, 1, 3),
        Implementation("einsum", 8, 16, 6, 5),
        Implementation("einsum", 4, 32, 1, 5),
    ]
    settings = LayerSettings(part="position", scopes=(3,), sizes=("4x8",), dtype="float16")
    assert settings.subjects(2)[0][0] == Implementation(
        "einsum", 4, 8, 4, 3, "position", "float16", dense_limit_gb=2
    )


def test_baseline_is_always_measured_and_first_and_auto_last():
    def names(**settings):
        (subjects,) = LayerSettings(sizes=("4x8",), scopes=(3,), **settings).subjects()
        return [subject.name for subject in subjects]

    assert names(implementations=("auto", "conv")) == ["einsum", "conv", "auto"]
    assert sorted(names()) == sorted(CHOICES["implementation"])
    assert (names()[0], names()[-1]) == ("einsum", "auto")


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
        case = Implementation("auto", 5, depth, batch, scope, part)
        assert case.flops(FORWARD) == 2 * sum(map(math.prod, products))
        assert case.flops(FORWARD_BACKWARD) == 3 * case.flops(FORWARD)


def test_dense_embeddings_that_would_not_fit_are_refused():
    case = (64, 256, 1, 23, LAYER)
    assert Implementation("einsum", *case).dense_bytes(itemsize=4) == 4096 * 4096 * 16 * 4
    with pytest.raises(MemoryError, match=r"its embeddings alone take 1\.1 GB"):
        Implementation("einsum", *case, dense_limit_gb=1).build()
    Implementation("einsum", *case, "mixed_bfloat16", dense_limit_gb=1).build()
    Implementation("auto", *case, dense_limit_gb=1).build()
