"""What every registered model can do, on small images; the deep ones are the same code."""

import re

import keras
import networks
import numpy as np
import pytest

from lambda_keras.applications import feature_extractor
from zoo.registry import create_model, find_model, list_models

DEPTHS = ("101", "152", "200", "270", "350", "420")
# Those that are not deep, and one for each kind of block: the others are the same code.
NAMES = [
    name
    for name in list_models()
    if not any(depth in name for depth in DEPTHS)
    and (not name.startswith("resnet50_") or name in ("resnet50_llll", "resnet50_llll_pytorch"))
]
# Of the deep ones, which the registry's test builds too, the shortest and the longest.
OTHERS = [
    name
    for name in list_models()
    if name not in NAMES and not any(depth in name for depth in DEPTHS[1:-1])
]
# Global embeddings are for one size.
FIXED = "lambda_resnet26rpt_256"
CLASSES = 5
LINEAR_BETA = r"(block\d+_(project_bn|out)|c\d)/beta"

every_model = pytest.mark.parametrize("name", NAMES)
pytestmark = pytest.mark.slow


def size_of(name: str) -> int:
    return 16 if find_model(name).image_size == 32 else 64


def create(name: str, channels: int = 3, **overrides) -> keras.Model:
    size = size_of(name) if name == FIXED else None
    return create_model(name, **{"input_shape": (size, size, channels), **overrides})


def images(name: str, channels: int = 3) -> np.ndarray:
    return networks.images(4, size_of(name), size_of(name), channels)


@pytest.fixture
def policy():
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@every_model
def test_round_trips(name, tmp_path):
    """Config, `.keras` file and weights file give the same outputs."""
    model, data = create(name, classes=CLASSES), images(name)
    networks.randomize(model)
    networks.calibrate(model, data)
    expected = networks.predict(model, data)
    assert expected.shape == (4, CLASSES)
    np.testing.assert_allclose(expected.sum(-1), 1, rtol=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-5, "the images make no difference"

    from_config = keras.Model.from_config(model.get_config())
    from_config.set_weights(model.get_weights())
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    copies = {
        "config": from_config,
        ".keras": keras.saving.load_model(tmp_path / "model.keras"),
        "weights": create(name, classes=CLASSES, weights=tmp_path / "model.weights.h5"),
    }
    for kind, copy in copies.items():
        outputs = networks.predict(copy, data)
        np.testing.assert_allclose(outputs, expected, atol=1e-6, err_msg=kind)


@every_model
def test_one_step_of_fit_changes_every_variable(name):
    """So every trainable variable has a gradient, and every moving statistic is updated."""
    model = create(name, classes=CLASSES)
    networks.randomize(model)
    before = networks.values(model.variables)
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", jit_compile=False)
    history = model.fit(images(name), np.arange(4), batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    after = networks.values(model.variables)
    unchanged = {
        variable.path
        for variable, old, new in zip(model.variables, before, after, strict=False)
        if np.array_equal(old, new)
    }
    # The next normalization takes away what is added to a linear bottleneck (MobileNetV2).
    assert {path for path in unchanged if not re.fullmatch(LINEAR_BETA, path)} == set()
    assert all(np.all(np.isfinite(array)) for array in after)


@every_model
@pytest.mark.parametrize(("channels", "pooling"), [(1, "avg"), (4, "max")])
def test_backbone_of_other_channels(name, channels, pooling):
    model = create(name, channels, include_top=False, pooling=pooling)
    features = feature_extractor(model)
    outputs = features(images(name, channels), training=False)
    strides = [size_of(name) // output.shape[1] for output in outputs.values()]
    assert strides == ([1, 2, 4, 8] if size_of(name) == 16 else [4, 8, 16, 32])
    pooled = networks.predict(model, images(name, channels))
    assert pooled.shape == (4, model.output_shape[-1])
    assert np.all(np.isfinite(pooled))


@every_model
def test_mixed_bfloat16(name, policy):
    exact = create(name, classes=CLASSES, classifier_activation=None)
    networks.randomize(exact)
    networks.calibrate(exact, images(name))
    policy("mixed_bfloat16")
    model = create(name, classes=CLASSES, classifier_activation=None)
    model.set_weights(exact.get_weights())
    assert model.get_layer("c5").compute_dtype == "bfloat16"
    assert {variable.dtype for variable in model.variables} == {"float32"}
    outputs = model(images(name), training=False)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    expected = networks.predict(exact, images(name))
    # Fifty layers of random weights enlarge what rounding changes.
    assert np.abs(np.asarray(outputs) - expected).max() < 0.4 * np.abs(expected).max()


@every_model
def test_channels_first_is_refused(name):
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(ValueError, match=r"expected .* 'channels_last'.*'channels_first'"):
            create_model(name)
    finally:
        keras.config.set_image_data_format("channels_last")


@pytest.mark.parametrize("name", OTHERS)
def test_other_backbone_by_shape(name):
    model = create_model(name, include_top=False, pooling="avg", input_shape=(None, None, 4))
    assert model.output_shape == (None, 2048)
    assert model.name == name
    assert list(feature_extractor(model).output) == ["c2", "c3", "c4", "c5"]
