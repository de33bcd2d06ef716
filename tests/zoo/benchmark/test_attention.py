"""`python -m zoo.benchmark attention`: tables, JSON; nothing about speed."""

import pytest

from lambda_keras.layers import AxialAttention, GlobalAttention, LambdaLayer
from zoo.benchmark.attention import Config
from zoo.benchmark.layer import MixerLayer
from zoo.measurements import FORWARD, FORWARD_BACKWARD
from zoo.results import RESULTS

ALL = ("lambda", *Config().mixers)


@pytest.mark.needs("oneDNN")
def test_tables_and_json(measure):
    settings = "--sizes 7x32,8x32x2 --batch 3 --mixers global,lambda:scope=3 --memory true"
    # Maps of attention on the larger map alone take 0.26 MB.
    settings += " --repeats 2 --min_ms 0.1 --dense_limit_gb 2.5e-4"
    report, printed = measure(f"attention {settings}")
    names = ("lambda", "global", "lambda:scope=3")
    assert [(row["size"], row["mixer"]) for row in report["rows"]] == [
        (size, name) for size in (7, 8) for name in names
    ]
    for row in report["rows"]:
        first = report["rows"][0 if row["size"] == 7 else 3]
        for mode in (FORWARD, FORWARD_BACKWARD):
            figures = row[mode]
            if row["mixer"] == "global" and row["size"] == 8:
                assert figures["reason"].startswith("MemoryError: one of its tensors takes 0.0 GB")
                assert (figures["ms"], figures["ratio"]) == (None, None)
                continue
            assert figures["reason"] is None
            assert len(figures["rounds_ms"]) == 2
            assert figures["temporary_bytes"] >= 0
            assert figures["ratio"] == pytest.approx(figures["ms"] / first[mode]["ms"])
    assert "8x8, depth 32, batch 2, forward + backward" in printed
    assert printed.count("- global: MemoryError") == 2


@pytest.mark.parametrize("name", ALL)
def test_every_mixer_has_the_shape_of_its_inputs(name):
    case = MixerLayer(name, size=6, depth=16, batch=2, dtype="mixed_float16")
    layer = case.build()
    assert layer.dtype_policy.name == "mixed_float16"
    assert layer.compute_output_shape(case.input_shape) == case.input_shape


def test_lambda_is_always_measured_and_first():
    names = [[layer.name for layer in layers] for layers in Config(mixers=("axial",)).cases()]
    assert names == [["lambda", "axial"]] * 4
    assert [layer.name for layer in Config().cases()[0]] == list(ALL)


def test_sizes_are_the_maps_of_a_resnet50():
    layers = [layers[0] for layers in Config(batch=4).cases()]
    assert [(layer.size, layer.depth, layer.batch) for layer in layers] == [
        (56, 64, 4), (28, 128, 4), (14, 256, 4), (7, 512, 4)
    ]  # fmt: skip


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("layer", "printed"),
    [
        (GlobalAttention(64, num_heads=8), 120),
        (AxialAttention(64, num_heads=8), 4.8),
        (LambdaLayer(64, scope=None), 1.9),
        (LambdaLayer(64, scope=None, key_dim=8), 0.95),
        (LambdaLayer(64, scope=None, position_embedding="shared"), 0.63),
    ],
)
def test_memory_of_table_4(layer, printed):
    """Maps `b h n m` or embeddings `k n m` of a ResNet-50, 224 pixels, batch 128, float32.

    All blocks of a stage have its last size, as the printed figures imply; ours pool after it.
    """
    is_shared = getattr(layer, "position_embedding", None) == "shared"
    numbers = sum(
        (1 if is_shared else blocks) * layer.count_map_elements((128, side, side, 64))
        for side, blocks in {56: 3, 28: 4, 14: 6, 7: 3}.items()
    )
    assert 4 * numbers / 2**30 == pytest.approx(printed, rel=0.025)
    case = MixerLayer("global", size=56, depth=64, batch=128)
    assert case.dense_numbers() == 128 * 8 * 56**4


@pytest.mark.one_backend
def test_speeds_of_table_4_that_the_docs_quote():
    rows = [one for one in RESULTS if one.table == "Table 4"]
    assert {(row.network, *row.arguments.items(), row.images_per_second) for row in rows} == {
        ("resnet50_llll", 1160),
        ("resnet50_llll", ("scope", 7), 1100),
        ("resnet50_llll", ("key_dim", 8), 1640),
        ("resnet50_llll", ("position_embedding", "shared"), 1210),
        ("resnet50_axial", 960),
        ("resnet50_local", 440),
    }
