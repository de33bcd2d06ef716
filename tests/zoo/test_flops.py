"""Floating-point operations by the paper's conventions."""

import json
from pathlib import Path

import keras
import pytest
from support import networks

from lambda_keras.applications import count_flops, flops
from lambda_keras.layers import (
    AugmentedConvolution,
    AxialAttention,
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    LinearAttention,
    LocalAttention,
    RelativePositionEmbedding,
)
from lambda_keras.layers import base as parts
from lambda_keras.models.specs import DEPTHS
from zoo.flops.__main__ import main
from zoo.flops.command import count_maps
from zoo.registry import create_model, find_model

GOLDEN = networks.GOLDEN
FILE = Path(networks.__file__).with_name("golden_baselines.json")
BASELINES = json.loads(FILE.read_text("utf-8"))
# Mixers, and other arguments, by rows of the file.
BASELINE_ROWS = [
    ("lambda k16 h4 scope23", "lambda", {}),
    ("lambda content only", "content", {}),
    ("local_7x7_h8", "local", {}),
    ("global_relative_h8", "global", {}),
    ("global_relative_h4", "global", {"num_heads": 4}),
    ("halo_block7_halo3_h8", "halo", {}),
    ("axial_position_sensitive_h8", "axial", {}),
    ("linear_h8 (elu+1 or softmax)", "efficient", {}),
    ("linear_h8 (elu+1 or softmax)", "linear", {}),
    ("performer_h8_m256", "favor", {}),
    ("performer_h8_m256", "relu", {}),
]
# Names of the registry where that is not "resnet50_" and the mixer.
NAMES = {"lambda": "resnet50_llll", "content": None}


@pytest.fixture(autouse=True)
def undrawn():
    """Counts need no weights."""
    with networks.undrawn():
        yield


def count(name: str, **overrides) -> tuple[int, float]:
    """Parameters of a network for images of 224 pixels, and 10^9 operations to three decimals."""
    model = create_model(name, input_shape=(224, 224, 3), **overrides)
    operations = count_flops(model)
    return networks.trainable_parameters(model), round(operations / 1e9, 3)


def golden_counts(row: dict) -> tuple[int, float]:
    return row["trainable_params"], row["gflops"]


def test_size_that_is_not_in_the_registry():
    """The others of golden.json are those of the rows, which tests/zoo/test_registry.py holds."""
    golden = GOLDEN["resnet_rs_family"]["101"]["lambda_resnet"]
    assert count("lambda_resnet101") == golden_counts(golden)


def few(rows: list[dict]) -> list:
    """The first and the last row; `make test-all` has the others, which are the same code."""
    others = [pytest.param(row, marks=pytest.mark.slow) for row in rows[1:-1]]
    return [rows[0], *others, rows[-1]]


@pytest.mark.parametrize("row", few(GOLDEN["table9_resnet50_LLLL"]))
def test_table_9(row):
    arguments = {"num_heads": row["h"], "key_dim": row["k"], "intra_depth": row["u"]}
    assert count("resnet50_llll", scope=row["scope"], **arguments) == golden_counts(row)


@pytest.mark.parametrize("row", GOLDEN["table10_resnet50_LLLL"], ids=lambda r: str(r["gflops"]))
def test_table_10(row):
    """Content or position lambdas alone; the paper counts the keys' projection in any case."""
    position = "relative" if row["position"] else None
    arguments = {"use_content": row["content"], "position_embedding": position}
    _, gflops = count("resnet50_llll", **arguments)
    assert gflops == row["gflops"]


@pytest.mark.parametrize("row", few(GOLDEN["table11_resnet50_CLLL_scope"]))
def test_table_11(row):
    scope = None if row["scope"] == "global" else row["scope"]
    assert count("resnet50_clll", scope=scope) == golden_counts(row)


def counts_by_stage(**arguments) -> dict[str, tuple[int, int]]:
    """Trainable parameters and operations of the layers whose names begin with `"c4"`, ...."""
    model = create_model("resnet50", input_shape=(224, 224, 3), **arguments)
    operations = flops.count_flops_by_stage(model)
    parameters = {}
    for layer in model.layers:
        stage = layer.name.split("_")[0]
        parameters[stage] = parameters.get(stage, 0) + networks.trainable_parameters(layer)
    return {stage: (n, sum(operations.get(stage, {}).values())) for stage, n in parameters.items()}


@pytest.fixture(scope="module")
@networks.undrawn()
def convolutions() -> dict[str, tuple[int, int]]:
    return counts_by_stage(placement="CCCC")


@pytest.mark.parametrize(("row", "mixer", "arguments"), BASELINE_ROWS, ids=str)
def test_mixers_in_a_resnet50(row, mixer, arguments, convolutions):
    """Every placement: a stage has the same layers whatever the others are made of."""
    mixed, counts = counts_by_stage(placement="LLLL", mixer=mixer, **arguments), {}
    for placement in BASELINES[row]:
        letters = dict(zip(networks.STAGES, placement, strict=True))
        stages = [(mixed if letters.get(n) == "L" else convolutions)[n] for n in convolutions]
        parameters, operations = (sum(column) for column in zip(*stages, strict=True))
        counts[placement] = {"params": parameters, "gflops": round(operations / 1e9, 2)}
        name = NAMES.get(mixer, f"resnet50_{mixer}")
        if placement == "LLLL" and name and not arguments:
            model = find_model(name)
            assert (model.parameters, model.gflops) == (parameters, round(operations / 1e9, 3))
    assert counts == BASELINES[row]
    assert len(counts) == 4


@pytest.mark.parametrize(
    ("row", "name"),
    [("aa", "resnet50_augmented"), ("a2_5_blocks_m=n=C/2", "resnet50_double_attention")],
)
def test_convolutions_beside_attention(row, name):
    """Rows of Table 3 that are no placement of one layer; test_registry.py counts the networks."""
    (golden,) = BASELINES[row].values()
    model = find_model(name)
    assert (model.parameters, round(model.gflops, 2)) == (golden["params"], golden["gflops"])


def test_by_hand():
    """A strided convolution, a lambda layer with a scope that fits, and a classifier."""
    inputs = keras.Input((8, 6, 3))
    x = keras.layers.Conv2D(16, 3, strides=2, padding="same", name="stem_conv")(inputs)
    x = LambdaLayer(16, num_heads=2, key_dim=4, intra_depth=3, scope=3, name="c2_lambda")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(5, name="predictions")(x))
    n, h, k, u, v = 4 * 3, 2, 4, 3, 8
    assert flops.count_flops_by_stage(model) == {
        "stem": {parts.CONVOLUTION: 2 * n * 3 * 3 * 3 * 16},
        "c2": {
            parts.PROJECTIONS: 2 * n * 16 * (h * k + k * u + v * u),
            parts.CONTENT: 2 * n * (k * v * u + h * k * v),
            parts.POSITION: 2 * n * (9 * k * v * u + h * k * v),
        },
        "predictions": {parts.DENSE: 2 * 16 * 5},
    }


def of_layer(layer, *shapes) -> dict[str, int]:
    inputs, *context = [keras.Input(shape) for shape in shapes]
    model = keras.Model([inputs, *context], layer(inputs, *context))
    (counts,) = flops.count_flops_by_stage(model).values()
    return counts


def test_every_head_has_its_own_lambdas_without_multi_query():
    assert of_layer(LambdaLayer(64, multi_query=False), (14, 14, 64)) == {
        parts.PROJECTIONS: 4_816_896,
        parts.CONTENT: 802_816,
        parts.POSITION: 79_077_376,
    }


N, D, F, H, K, V = 6 * 4, 5, 16, 2, 3, 8  # a map of 6x4
KEYS_AND_VALUES = N * D * (H * K + F)
HALO = {"block_size": 4, "halo_size": 1}
ATTENTION = [
    (
        GlobalAttention(F, num_heads=H, key_dim=K, strides=2, output_projection=True),
        N * D * H * K + KEYS_AND_VALUES + (3 * 2) * F * F,
        N * N * H * (K + V),
        N * H * K * (11 + 7),
    ),
    (
        LocalAttention(F, num_heads=H, key_dim=4, scope=3, multi_query=True),
        N * D * (H * 4 + 4 + V),
        N * 9 * H * (4 + V),
        N * H * 2 * (3 + 3),
    ),
    (  # a scope of more than the map
        LocalAttention(F, num_heads=H, key_dim=4, scope=7),
        N * D * (2 * H * 4 + F),
        N * N * H * (4 + V),
        N * H * 2 * (7 + 7),
    ),
    (  # blocks of 4x4 with a halo of 1: padded to 8x4, where every fourth has a query
        HaloAttention(F, num_heads=H, key_dim=K, **HALO, strides=2, strided_queries=True),
        (N // 4) * D * H * K + KEYS_AND_VALUES,
        8 * 36 * H * (K + V),
        8 * H * K * (11 + 11),
    ),
    (
        AxialAttention(F, num_heads=H, key_dim=K),
        N * (D + F) * (2 * H * K + F),
        N * (6 + 4) * H * (K + V),
        N * (6 + 4) * H * (2 * K + V),
    ),
    (
        LinearAttention(F, num_heads=H, key_dim=K, multi_query=True),
        N * D * (H * K + K + V),
        N * (1 + H) * K * V,
        None,
    ),
    (
        LinearAttention(F, num_heads=H, key_dim=K, feature_map="favor", num_features=9),
        N * D * H * K + KEYS_AND_VALUES,
        N * (2 * H * 9 * K + 2 * H * 9 * V + H * 9),
        None,
    ),
]


@pytest.mark.parametrize(("layer", "projections", "content", "position"), ATTENTION)
def test_attention_by_hand(layer, projections, content, position):
    expected = {parts.PROJECTIONS: 2 * projections, parts.CONTENT: 2 * content}
    if position is not None:
        expected[parts.POSITION] = 2 * position
    assert of_layer(layer, (6, 4, D)) == expected


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({"scope": 3}, 3),
        ({"scope": 23}, 15),
        ({"position_embedding": "absolute", "scope": 3}, 15),
        ({"position_embedding": "relation", "num_relations": 4, "scope": 3}, 15),
    ],
)
def test_context_of_another_size(arguments, seen):
    n, m, h, k, u, v = 10, 15, 2, 4, 3, 8
    layer = LambdaLayer(16, num_heads=h, key_dim=k, intra_depth=u, **arguments)
    assert of_layer(layer, (n, 6), (m, 5)) == {
        parts.PROJECTIONS: 2 * (n * 6 * h * k + m * 5 * u * (k + v)),
        parts.CONTENT: 2 * (m * k * v * u + n * h * k * v),
        parts.POSITION: 2 * n * (seen * k * v * u + h * k * v),
    }


def test_scope_is_at_most_the_map():
    counts = [
        LambdaLayer(8, num_heads=2, key_dim=4, scope=scope).count_flops((None, 11, 8))
        for scope in (9, 11, 23, None)
    ]
    assert counts[0] != counts[1] == counts[2] == counts[3]


B = 3
MAPS = [
    (GlobalAttention(F, num_heads=H, key_dim=K, strides=2, multi_query=True), B * H * N * N),
    (LocalAttention(F, num_heads=H, scope=3), B * H * N * 9),
    (LocalAttention(F, num_heads=H, scope=7), B * H * N * N),  # a scope of more than the map
    # Blocks of 4x4, of which every fourth position has a query, in windows of 6x6.
    (HaloAttention(F, num_heads=H, **HALO), B * H * 32 * 36),
    (HaloAttention(F, num_heads=H, **HALO, strides=2, strided_queries=True), B * H * 8 * 36),
    (AxialAttention(F, num_heads=H), B * H * N * (6 + 4)),
    (AugmentedConvolution(F, num_heads=H, attention_pool=2), B * H * (3 * 2) ** 2),
    (LinearAttention(F, num_heads=H), None),
    (LambdaLayer(F, num_heads=H, key_dim=K, intra_depth=5), K * 5 * N * N),  # for any batch
    (LambdaLayer(F, num_heads=H, key_dim=K, scope=3, multi_query=False), H * K * N * 9),
    (LambdaLayer(F, num_heads=H, key_dim=K, position_embedding="absolute"), K * N * N),
    (LambdaLayer(F, num_heads=H, position_embedding=None), None),
]


@pytest.mark.parametrize(("layer", "elements"), MAPS)
def test_maps_by_hand(layer, elements):
    inputs = keras.Input((6, 4, D))
    maps = count_maps(keras.Model(inputs, layer(inputs)), B)
    assert [(size, count) for (_, size, count) in maps] == [("6x4", elements)] * bool(elements)


def test_shared_embeddings_count_once_for_each_size():
    inputs = keras.Input((8, 6, D))
    table = RelativePositionEmbedding(scope=3, key_dim=K)(inputs)
    for kind in ("relative", "shared"):
        x, given = inputs, {"position_embeddings": table} if kind == "shared" else {}
        for strides in (1, 2, 1):
            layer = LambdaLayer(F, key_dim=K, scope=3, strides=strides, position_embedding=kind)
            x = layer(x, **given)
        maps = count_maps(keras.Model(inputs, x), B)
        sizes = {size: (layers, elements) for (_, size, elements), layers in maps.items()}
        layers = 2 if kind == "relative" else 1
        assert sizes == {"8x6": (layers, K * 48 * 9), "4x3": (1, K * 12 * 9)}


@pytest.mark.parametrize(
    ("layer", "arguments", "mib"),
    [
        (GlobalAttention(1024), (8, 32), 625),
        (LambdaLayer(1024), (8, 32), 39.06),
        (LambdaLayer(1024, position_embedding="shared"), (1, 32), 4.88),
    ],
)
def test_memory_of_d_2(layer, arguments, mib):
    """The lambda layers in c4 of LambdaResNet-420 at 320 pixels, bfloat16: maps of 20x20."""
    layers, batch = arguments
    assert len(DEPTHS[420][1]) == 8
    elements = layers * layer.count_map_elements((batch, 20, 20, 1024))
    assert 2 * elements / 2**20 == pytest.approx(mib, abs=0.01)


def test_memory_of_footnote_2():
    """64 GB for 8 heads on 128 maps of 64x64, in float32."""
    assert 4 * GlobalAttention(64, num_heads=8).count_map_elements((128, 64, 64, 64)) == 64 * 2**30


def test_command(capsys):
    main(["lambda_resnet14", "--image_size", "16", "--overrides", "classes=7"])
    lines = capsys.readouterr().out.splitlines()
    model = create_model("lambda_resnet14", classes=7, input_shape=(16, 16, 3))
    assert lines[0] == "lambda_resnet14 at 16x16"
    assert lines[1] == f"trainable parameters {networks.trainable_parameters(model):,}"
    operations = count_flops(model)
    assert lines[2] == f"floating-point operations {operations / 1e9:.3f} G"
    assert lines[-1].split()[0] == "all"
    assert float(lines[-1].split()[-1]) == pytest.approx(operations / 1e9, abs=1e-3)
    main(["lambda_resnet14"])
    assert capsys.readouterr().out.startswith("lambda_resnet14 at 32x32\n")


def test_command_with_a_batch(capsys):
    overrides = "placement=CCCL,mixer=global,num_heads=4"
    main(["lambda_resnet14", "--image_size", "64", "--batch", "5", "--overrides", overrides])
    *_, title, _, head, c5 = capsys.readouterr().out.splitlines()
    mib = 4 * 5 * 4 * 16**4 / 2**20
    assert title == f"pairs of positions, batch 5, float32: {mib:.2f} MiB"
    assert head.split() == ["stage", "map", "layers", "MiB", "each", "MiB"]
    assert c5.split() == ["c5", "16x16", "1", f"{mib:.2f}", f"{mib:.2f}"]
