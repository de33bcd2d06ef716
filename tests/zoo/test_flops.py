"""Floating-point operations by the paper's conventions."""

import functools

import keras
import networks
import pytest

from lambda_keras.layers import LambdaLayer
from zoo import flops
from zoo.registry import create_model

GOLDEN = networks.GOLDEN


def count(name: str, size: int, **overrides) -> int:
    model = create_model(name, input_shape=(size, size, 3), **overrides)
    return flops.total(flops.count_flops(model))


def same_digits(operations: int, golden: float) -> bool:
    """Whether golden is the number of 10^9 operations with three decimals."""
    return round(operations / 1e9, 3) == pytest.approx(golden, abs=1e-9)


def test_size_that_is_not_in_the_registry():
    """The others of golden.json are those of the rows, which tests/zoo/test_registry.py holds."""
    golden = GOLDEN["resnet_rs_family"]["101"]
    assert same_digits(count("lambda_resnet101", 224), golden["lambda_resnet"]["gflops"])


@pytest.mark.slow
@pytest.mark.parametrize("row", GOLDEN["table9_resnet50_LLLL"], ids=str)
def test_table_9(row):
    arguments = {"num_heads": row["h"], "key_dim": row["k"], "intra_depth": row["u"]}
    operations = count("resnet50_llll", 224, scope=row["scope"], **arguments)
    assert same_digits(operations, row["gflops"])


@pytest.mark.slow
@pytest.mark.parametrize("row", GOLDEN["table10_resnet50_LLLL"], ids=lambda r: str(r["gflops"]))
def test_table_10(row):
    """Content or position lambdas alone; the paper counts the keys' projection in any case."""
    position = "relative" if row["position"] else None
    operations = count(
        "resnet50_llll", 224, use_content=row["content"], position_embedding=position
    )
    assert same_digits(operations, row["gflops"])


@pytest.mark.slow
@pytest.mark.parametrize("row", GOLDEN["table11_resnet50_CLLL_scope"], ids=str)
def test_table_11(row):
    scope = None if row["scope"] == "global" else row["scope"]
    assert same_digits(count("resnet50_clll", 224, scope=scope), row["gflops"])


def test_by_hand():
    """A strided convolution, a lambda layer with a scope that fits, and a classifier."""
    inputs = keras.Input((8, 6, 3))
    x = keras.layers.Conv2D(16, 3, strides=2, padding="same", name="stem_conv")(inputs)
    x = LambdaLayer(16, num_heads=2, key_dim=4, intra_depth=3, scope=3, name="c2_lambda")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(5, name="predictions")(x))
    n, h, k, u, v = 4 * 3, 2, 4, 3, 8
    assert flops.count_flops(model) == {
        "stem": {flops.CONVOLUTION: 2 * n * 3 * 3 * 3 * 16},
        "c2": {
            flops.PROJECTIONS: 2 * n * 16 * (h * k + k * u + v * u),
            flops.CONTENT: 2 * n * (k * v * u + h * k * v),
            flops.POSITION: 2 * n * (9 * k * v * u + h * k * v),
        },
        "predictions": {flops.DENSE: 2 * 16 * 5},
    }


def test_scope_is_at_most_the_map():
    layer = functools.partial(flops.lambda_layer_flops, 10, 8, 8, 2, 4)
    assert layer(scope_area=10) == layer(scope_area=23**2) == layer(scope_area=None)
    assert layer(scope_area=9) != layer(scope_area=10)


def test_unknown_size_raises():
    with pytest.raises(ValueError, match=r"known size\. Received: "):
        flops.count_flops(create_model("lambda_resnet14"))


def test_unknown_layer_raises():
    inputs = keras.Input((4, 4))
    model = keras.Model(inputs, keras.layers.LSTM(3, name="memory")(inputs))
    with pytest.raises(ValueError, match="Received: 'memory', a LSTM"):
        flops.count_flops(model)


def test_command(capsys):
    flops.main(["lambda_resnet14", "--image_size", "16", "--overrides", "classes=7"])
    lines = capsys.readouterr().out.splitlines()
    model = create_model("lambda_resnet14", classes=7, input_shape=(16, 16, 3))
    assert lines[0] == "lambda_resnet14 at 16x16"
    assert lines[1] == f"trainable parameters {networks.trainable_parameters(model):,}"
    operations = flops.total(flops.count_flops(model))
    assert lines[2] == f"floating-point operations {operations / 1e9:.3f} G"
    assert lines[-1].split()[0] == "all"
    assert float(lines[-1].split()[-1]) == pytest.approx(operations / 1e9, abs=1e-3)


def test_unknown_model_is_one_line():
    with pytest.raises(ValueError, match="did you mean 'lambda_resnet50'"):
        flops.main(["lambda_resnet5"])
