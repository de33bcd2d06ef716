"""Theory of lambda layers and attention, against the paper's figures and what layers hold."""

import math

import keras
import pytest

from lambda_keras.models.mixers import MIXERS
from zoo.benchmark.mixers import DOT_PRODUCT, HEADS, KEY_DIM, MAPS, NETWORKS, SEQUENCES
from zoo.benchmark.networks import parse

ALL = {**NETWORKS, **SEQUENCES}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "gib", "printed"),
    [
        ("global", 122.8, 120),
        ("axial", 4.82, 4.8),
        ("lambda", 1.92, 1.9),
        ("lambda_k8", 0.96, 0.95),
        ("lambda_shared", 0.625, 0.63),
        ("local", 2.59, None),
    ],
)
def test_memory_of_table_4(name, gib, printed):
    mixer = NETWORKS[name]
    assert mixer.network_gib() == pytest.approx(gib, rel=0.003)
    assert mixer.published.gigabytes == printed
    if printed:
        assert mixer.network_gib() == pytest.approx(printed, rel=0.025)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("global", 160.3),
        ("axial", 6.16),
        ("lambda", 2.51),
        ("local", 3.17),
        ("lambda_shared", 0.625),
    ],
)
def test_memory_on_the_maps_that_are_computed(name, gib):
    assert NETWORKS[name].network_gib(strided_inputs=True) == pytest.approx(gib, rel=0.003)


@pytest.mark.one_backend
def test_what_has_neither_maps_nor_embeddings_has_no_memory_of_them():
    for name in ("content", "efficient", "linear", "favor"):
        assert MAPS[name].network_gib() is None
        assert MAPS[name].position_bytes((7, 7), 1) is None


@pytest.mark.one_backend
def test_memory_of_footnote_2():
    # A map of 64x64 positions, batch 128.
    assert MAPS["global"].position_bytes((64, 64), 128) == 64 * 2**30


@pytest.mark.one_backend
def test_published_speed_and_accuracy():
    rows = {
        "global": (None, None),  # out of memory
        "axial": (960, 77.5),
        "local": (440, 77.4),
        "lambda": (1160, 78.4),
        "lambda_k8": (1640, 77.9),
        "lambda_shared": (1210, 78.0),
        "lambda_conv": (1100, 78.1),
    }
    found = {name: mixer.published for name, mixer in NETWORKS.items() if mixer.published}
    assert {name: (row.images_per_second, row.top1) for name, row in found.items()} == rows


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ALL)
def test_theory_counts_the_heads_and_depths_that_the_layers_have(name):
    mixer = ALL[name]
    layer = mixer.layer(32, "mixed_float16")
    assert layer.dtype_policy.name == "mixed_float16"
    config = layer.get_config()
    if mixer.is_lambda_layer:
        assert config["key_dim"] == mixer.arguments.get("key_dim", KEY_DIM)
    else:
        assert config["num_heads"] == HEADS
    if name in ("local", "lambda_conv"):
        assert mixer.seen((14, 14)) == config["scope"] ** 2
    if name == "halo":
        assert mixer.seen((14, 14)) == (config["block_size"] + 2 * config["halo_size"]) ** 2
    if name == "axial":
        assert mixer.seen((14, 10)) == 14 + 10


@pytest.mark.one_backend
def test_every_kind_is_a_mixer_and_every_network_can_be_built():
    assert {mixer.kind for mixer in ALL.values()} <= {*MIXERS, DOT_PRODUCT}
    for mixer in NETWORKS.values():
        network = parse(mixer.network(224))
        assert network.image_size == 224
        assert network.overrides["placement"] == "LLLL"


def test_dot_product_attention():
    """Equals softmax(q k / sqrt(k)) v with the layer's own projections, head by head."""
    layer = SEQUENCES[DOT_PRODUCT].layer(16, "float32")
    inputs = keras.random.normal((2, 1, 5, 6), seed=0)
    outputs = layer(inputs)

    def heads(kernel):
        projected = keras.ops.matmul(inputs, kernel)
        return keras.ops.transpose(keras.ops.reshape(projected, (2, 5, HEADS, 2)), (0, 2, 1, 3))

    kernels = (layer.query_kernel, layer.key_kernel, layer.value_kernel)
    queries, keys, values = map(heads, kernels)
    logits = keras.ops.einsum("bhnk,bhmk->bhnm", queries, keys) / math.sqrt(2)
    expected = keras.ops.einsum("bhnm,bhmv->bnhv", keras.ops.softmax(logits), values)
    difference = outputs - keras.ops.reshape(expected, (2, 1, 5, 16))
    assert float(keras.ops.max(keras.ops.abs(difference))) < 1e-5
