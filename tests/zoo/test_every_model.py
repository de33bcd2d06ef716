"""Every registered model on small images; the deep ones are the same code."""

import re

import keras
import numpy as np
import pytest
from support import networks

from lambda_keras.applications import feature_extractor, fold_batch_normalization
from zoo.registry import create_model, find_model, list_models

DEPTHS = ("101", "152", "200", "270", "350", "420")
# One of each builder.
KINDS = ("lambda_resnet14", "lambda_mobilenet_v2")
NAMES = [
    pytest.param(
        name,
        # One process builds a model for all its tests.
        marks=[pytest.mark.xdist_group(name), *([] if name in KINDS else [pytest.mark.very_slow])],
    )
    for name in list_models()
    if not any(depth in name for depth in DEPTHS)
]
# Global embeddings are for one size.
FIXED = ("lambda_resnet26rpt_256", "botnet26t_256", "resnet50_global", "resnet50_axial")
FIXED += ("resnet50_augmented",)
CLASSES = 5
LINEAR_BETA = r"(block\d+_(project_bn|out)|c\d)/beta"
# Random features stay as they are drawn, and a softmax does not see what all its logits share.
CONSTANT = r".*/random_features|.*/(content|query_position|key_position)_batch_norm/beta"
# The scale and shift of values in axial attention, and the shift of its outputs, are taken away by
# the batch normalizations that follow.
NORMALIZED_AWAY = r".*/value_batch_norm/(gamma|beta)|.*/(content|position)_output_batch_norm/beta"
# So is what double attention adds to its features and outputs; its logits share the other bias.
NORMALIZED_AWAY += r"|.*_double_attention/(features|gather|project)/bias"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name) -> keras.Model:
    """Built once for all tests of a name, which leave its weights as they are."""
    keras.utils.set_random_seed(0)
    model = create(name, classes=CLASSES)
    networks.randomize(model)
    networks.calibrate(model, images(name))
    return model


def size_of(name: str) -> int:
    return 16 if find_model(name).image_size == 32 else 64


def create(name: str, channels: int = 3, **overrides) -> keras.Model:
    size = size_of(name) if name in FIXED else None
    return create_model(name, **{"input_shape": (size, size, channels), **overrides})


def images(name: str, channels: int = 3, seed: int = 0) -> np.ndarray:
    return networks.images(4, size_of(name), size_of(name), channels, seed=seed)


@pytest.fixture
def policy():
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


def test_round_trips(name, model, tmp_path):
    """Config, `.keras` file and weights file give the same outputs."""
    data = images(name)
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
        np.testing.assert_allclose(networks.predict(copy, data), expected, atol=1e-6, err_msg=kind)


def test_one_step_of_fit_changes_every_variable(name, model):
    """So every trainable variable has a gradient, and every moving statistic is updated."""
    before = networks.values(model.variables)
    # One step is not worth compiling.
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", run_eagerly=True)
    try:
        # Other images than those of the statistics, which these would not change.
        history = model.fit(images(name, seed=1), np.arange(4), batch_size=4, verbose=0)
        after = networks.values(model.variables[: len(before)])
    finally:
        for variable, value in zip(model.variables, before, strict=False):
            variable.assign(value)
    assert np.isfinite(history.history["loss"][0])
    unchanged = {
        variable.path
        for variable, old, new in zip(model.variables, before, after, strict=False)
        if np.array_equal(old, new)
    }
    # The next normalization takes away what is added to a linear bottleneck (MobileNetV2).
    known = f"{LINEAR_BETA}|{CONSTANT}|{NORMALIZED_AWAY}"
    assert {path for path in unchanged if not re.fullmatch(known, path)} == set()
    assert all(np.all(np.isfinite(array)) for array in after)


def test_backbone_of_other_channels(name):
    """One channel and the other pooling: tests/applications/test_resnet.py."""
    model = create(name, channels=4, include_top=False, pooling="max")
    features = feature_extractor(model)
    outputs = features(images(name, channels=4), training=False)
    strides = [size_of(name) // output.shape[1] for output in outputs.values()]
    assert strides == ([1, 2, 4, 8] if size_of(name) == 16 else [4, 8, 16, 32])
    pooled = networks.predict(model, images(name, channels=4))
    assert pooled.shape == (4, model.output_shape[-1])
    assert np.all(np.isfinite(pooled))


def test_mixed_bfloat16(name, model, policy):
    policy("mixed_bfloat16")
    mixed = create(name, classes=CLASSES)
    mixed.set_weights(model.get_weights())
    assert mixed.get_layer("c5").compute_dtype == "bfloat16"
    assert {variable.dtype for variable in mixed.variables} == {"float32"}
    outputs = mixed(images(name), training=False)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    assert np.all(np.isfinite(keras.ops.convert_to_numpy(outputs)))
    errors = networks.layer_errors(model, mixed, images(name))
    assert len(errors) == len(model.layers) - 1
    # Attention averages values: its outputs are nearly equal, so normalization magnifies rounding.
    most = 0.1 if any(layer.endswith("_attention") for layer in errors) else 0.02
    assert {layer: error for layer, error in errors.items() if not error < most} == {}


def test_folded_batch_normalization(name, model):
    """Outputs change by rounding, of which networks of attention amplify any."""
    data = images(name)

    def logits(network: keras.Model, images: np.ndarray) -> np.ndarray:
        return np.log(networks.predict(network, images).astype("float64"))

    expected = logits(model, data)
    rounding = np.abs(logits(model, data * np.float32(1 + 2**-23)) - expected).max()
    difference = np.abs(logits(fold_batch_normalization(model), data) - expected).max()
    assert difference < max(1e-5 * np.abs(expected).max(), 4 * rounding)


def test_channels_first_is_refused(name):
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(ValueError, match=r"expected .* 'channels_last'.*'channels_first'"):
            create_model(name)
    finally:
        keras.config.set_image_data_format("channels_last")
