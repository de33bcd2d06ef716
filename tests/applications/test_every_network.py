"""Every network by its name: its counts, and on small images all that users do with one.

Its counts are those of the whole network; the rest is done with few blocks of every kind.
"""

import collections
import itertools
import re
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import networks
from support.counts import counts_of_deep

from lambda_keras.applications import count_flops, feature_extractor, fold_batch_normalization
from lambda_keras.models.specs import NETWORKS, ResNetSpec
from zoo.precision import precision
from zoo.registry import create_model

# Deeper ones have the same blocks, and so do the placements of lambda layers between these two.
DEPTHS = ("101", "152", "200", "270", "350", "420")
PLACEMENTS = r"resnet50_(?!cccl$|llll$)[cl]{4}"
SLOW = pytest.mark.slow
NAMES = [
    # One process builds a model for all its tests.
    pytest.param(name, marks=[pytest.mark.xdist_group(name), *[SLOW] * (name != "lambda_resnet14")])
    for name in NETWORKS
    if not any(depth in name for depth in DEPTHS) and not re.fullmatch(PLACEMENTS, name)
]
# Global embeddings are for one size.
FIXED = ["lambda_resnet26rpt_256", "botnet26t_256"]
FIXED += [f"resnet50_{mixer}" for mixer in ("global", "axial", "augmented")]
CLASSES = 5
LINEAR_BETA = r"(block\d+_(project_bn|out)|c\d)/beta"
# Random features stay as they are drawn, and a softmax does not see what all its logits share.
CONSTANT = r".*/random_features|.*/(content|query_position|key_position)_batch_norm/beta"
# The scale and shift of values in axial attention, and the shift of its outputs, are taken away by
# the batch normalizations that follow.
NORMALIZED_AWAY = r".*/value_batch_norm/(gamma|beta)|.*/(content|position)_output_batch_norm/beta"
# So is what double attention adds to its features and outputs; its logits share the other bias.
NORMALIZED_AWAY += r"|.*_double_attention/(features|gather|project)/bias"


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
    return 16 if NETWORKS[name].image_size == 32 else 64


def create(name: str, channels: int = 3, **overrides) -> keras.Model:
    row = NETWORKS[name]
    size = size_of(name) if name in FIXED else None
    with pytest.MonkeyPatch.context() as patch:
        for other in NETWORKS.values():  # rows of one constructor are built by the first of them
            if other.constructor == row.constructor and isinstance(row.spec, ResNetSpec):
                small = replace(other, spec=networks.shrunk(other.spec))
                patch.setitem(NETWORKS, other.name, small)
        return create_model(name, **{"input_shape": (size, size, channels), **overrides})


def images(name: str, channels: int = 3, seed: int = 0) -> np.ndarray:
    return networks.images(4, size_of(name), size_of(name), channels, seed=seed)


def test_round_trips(name, model, tmp_path):
    """Config, `.keras` file and weights file give the same outputs, as a call on a tensor does."""
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
        outputs = networks.predict(copy, keras.ops.convert_to_tensor(data))
        np.testing.assert_allclose(outputs, expected, atol=1e-6, err_msg=kind)


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
    changes = zip(model.variables, before, after, strict=False)
    unchanged = {one.path for one, old, new in changes if np.array_equal(old, new)}
    # The next normalization takes away what is added to a linear bottleneck (MobileNetV2).
    known = f"{LINEAR_BETA}|{CONSTANT}|{NORMALIZED_AWAY}"
    assert {path for path in unchanged if not re.fullmatch(known, path)} == set()
    assert all(np.all(np.isfinite(array)) for array in after)


def test_features_of_other_channels(name):
    """By name at their strides, of the same layers and weights as the pooled backbone."""
    model = create(name, channels=4, include_top=False, pooling="max")
    data = images(name, channels=4)
    features = feature_extractor(model)
    outputs = features(data, training=False)
    strides = [size_of(name) // output.shape[1] for output in outputs.values()]
    assert strides == ([1, 2, 4, 8] if size_of(name) == 16 else [4, 8, 16, 32])
    assert [*outputs] == list(networks.STAGES)
    last = keras.ops.convert_to_numpy(outputs["c5"])
    assert np.all(np.isfinite(last))
    own, shared = ([id(weight) for weight in one.weights] for one in (model, features))
    assert shared == own[: len(shared)]
    if last.shape[-1] == model.output_shape[-1]:  # MobileNetV2 has a convolution after c5
        assert shared == own
        np.testing.assert_allclose(networks.predict(model, data), last.max((1, 2)), rtol=1e-5)


def test_mixed_bfloat16(name, model):
    with precision("mixed_bfloat16"):
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
    # Without AVX-512, outputs of lambda layers differed by 0.0205.
    most = 0.1 if any(layer.endswith("_attention") for layer in errors) else 0.03
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


# Counts

GOLDEN = networks.GOLDEN["resnet_rs_family"]
DEEPEST = "lambda_resnet420"
# The other deep models, by family and size: names and blocks.
DEEP = collections.defaultdict(dict)
for form, (depth, golden) in itertools.product(networks.FORMS, GOLDEN.items()):
    deep = form.format(depth)
    if depth != "50" and deep != DEEPEST:
        DEEP[form, NETWORKS[deep].image_size][deep] = golden["blocks"]
# Mixers in a ResNet-50 are counted in tests/zoo/test_flops.py.
MIXED = {name for name, row in NETWORKS.items() if "mixer" in row.arguments}
BUILT = [name for name in NETWORKS if name not in MIXED.union(*DEEP.values())]
# `make test` counts the first of each constructor.
FIRST = {NETWORKS[name].constructor: name for name in reversed(BUILT) if name != DEEPEST}
COUNTED = [one if one in FIRST.values() else pytest.param(one, marks=SLOW) for one in BUILT]


@pytest.mark.one_backend
@pytest.mark.parametrize("name", COUNTED)
@networks.undrawn()
def test_row_counts_the_built_model(name):
    row = NETWORKS[name]
    model = create_model(name, input_shape=(row.image_size, row.image_size, 3))
    assert model.name == name
    assert networks.trainable_parameters(model) == row.parameters
    assert round(count_flops(model) / 1e9, 3) == row.gflops
    placed = row.arguments.get("placement", "CCCC")
    if name.startswith("resnet50_") and row.spec.mixer == "lambda":  # Table 13
        letters = zip(placed, (3, 4, 6, 3), strict=True)
        blocks = [number if letter == "L" else 0 for letter, number in letters]
        assert networks.lambda_blocks(model) == networks.block_names(blocks)
    excited = {"lambda_resnet50": (3, 4, 0, 0), "resnet_rs50": (3, 4, 6, 3)}
    excited["resnet50_se"] = excited["resnet_rs50"]
    expected = excited.get(name.removesuffix("_c4"), (0, 0, 0, 0))
    if name != DEEPEST:
        assert networks.squeeze_excitation_blocks(model) == networks.block_names(expected)


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize(("form", "size"), DEEP)
def test_rows_of_deep_models_count_their_blocks(form, size):
    depths = DEEP[form, size]
    counts = counts_of_deep(form, size, depths)
    with networks.specs_alone():
        for name, blocks in depths.items():
            assert list(create_model(name).blocks) == blocks
    assert counts == {name: (NETWORKS[name].parameters, NETWORKS[name].gflops) for name in counts}
