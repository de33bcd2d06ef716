"""The constructors, as the users of keras.applications know them."""

import doctest
import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from support import networks

from lambda_keras import applications
from lambda_keras.applications import (
    LambdaMobileNetV2,
    LambdaResNet14,
    LambdaResNet50,
    ResNet50,
    build,
    feature_extractor,
)
from lambda_keras.applications import (
    arguments as groups,
)
from lambda_keras.layers import (
    GlobalAttention,
    HaloAttention,
    LambdaLayer,
    RelativePositionEmbedding,
)
from lambda_keras.models import specs
from lambda_keras.models.mixers import MIXERS
from zoo.registry import create_model

ROOT = Path(__file__).resolve().parents[2]
FAMILY = networks.GOLDEN["resnet_rs_family"]
CONSTRUCTORS = [getattr(applications, name) for name in applications.__all__ if name[0].isupper()]
# The others are the same code with more blocks.
SHALLOW = [LambdaResNet14, LambdaResNet50, ResNet50]
shallow = pytest.mark.parametrize("constructor", SHALLOW, ids=lambda item: item.__name__)


def small(**arguments) -> keras.Model:
    """A LambdaResNet14 with five classes whose weights are all at work."""
    model = LambdaResNet14(**{"classes": 5, **arguments})
    networks.randomize(model)
    return model


# Sizes and structure


@pytest.mark.one_backend
@pytest.mark.parametrize(("placement", "lambda_layers"), [("CCLL", 2), ("CLCC", 1), ("CCCC", 0)])
def test_size_of_the_small_network_may_be_chosen(placement, lambda_layers):
    arguments = {"blocks": [0, 1, 2, 0], "filters": 12, "placement": placement}
    model = LambdaResNet14(input_shape=(32, 24, 3), **arguments)
    maps = {layer.name: layer.output.shape[1:] for layer in model.layers if len(layer.name) == 2}
    assert maps == {"c3": (16, 12, 96), "c4": (8, 6, 192)}
    assert sum(isinstance(layer, LambdaLayer) for layer in model.layers) == lambda_layers


FORMS = {  # constructor, name of the model, column of golden.json
    "LambdaResNet{}": ("lambda_resnet{}", "lambda_resnet"),
    "LambdaResNet{}C4": ("lambda_resnet{}_c4", "lambda_resnet_c4"),
    "ResNetRS{}": ("resnet_rs{}", "resnet_rs_se"),
    "ResNetRS{}NoSE": ("resnet_rs{}_no_se", "resnet_rs_no_se"),
}


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "form"),
    [("101", "LambdaResNet{}"), *(("50", form) for form in FORMS)],
)
def test_networks_of_tables_14_and_18(depth, form, monkeypatch):
    """Strides, and what each block holds; the rows of the registry have the sizes of them all."""
    networks.skip_drawing(monkeypatch)
    row, (name, column) = FAMILY[depth], FORMS[form]
    model = getattr(applications, form.format(depth))(input_shape=(96, 160, 3))
    assert networks.trainable_parameters(model) == row[column]["trainable_params"]
    assert model.name == name.format(depth)
    assert model.output_shape == (None, 1000)
    for number, stage in enumerate(networks.STAGES):
        stride = 4 * 2**number
        assert model.get_layer(stage).output.shape == (
            None,
            96 // stride,
            160 // stride,
            256 * 2**number,
        )
    c2, c3, c4, c5 = row["blocks"]
    lambda_c4 = row["lambda_blocks_c4"] if form == "LambdaResNet{}" else range(1, c4 + 1)
    excited = {"resnet_rs_se": row["blocks"], "resnet_rs_no_se": (0, 0, 0, 0)}
    assert networks.lambda_blocks(model) == (
        []
        if column in excited
        else [
            *(f"c4_block{block}" for block in lambda_c4),
            *(f"c5_block{block}" for block in range(1, c5 + 1)),
        ]
    )
    assert networks.squeeze_excitation_blocks(model) == networks.block_names(
        excited.get(column, (c2, c3, 0, 0))
    )


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "constructor",
    [
        applications.LambdaResNet26T,
        applications.LambdaResNet26RPT256,
        applications.LambdaResNet50TS,
        applications.BoTNet26T256,
        applications.HaloNet26T,
        applications.HaloNet50TS,
    ],
    ids=lambda item: item.__name__,
)
def test_networks_of_timm(constructor, monkeypatch):
    networks.skip_drawing(monkeypatch)
    model = constructor()
    parameters = specs.NETWORKS[model.name].parameters
    assert networks.trainable_parameters(model) == parameters
    assert networks.GOLDEN["timm"].get(model.name, parameters) == parameters
    with_mixer = ["c4_block2", "c5_block1", "c5_block2"]
    if model.name.endswith("50ts"):
        with_mixer = ["c3_block4", "c4_block2", "c4_block4", "c4_block6", "c5_block2"]
    mixers = (LambdaLayer, GlobalAttention, HaloAttention)
    assert networks.blocks_with(model, mixers) == with_mixer
    halos = [layer for layer in model.layers if isinstance(layer, HaloAttention)]
    if model.name == "halonet50ts":
        assert [layer.num_heads for layer in halos] == [4, 8, 8, 8, 8]


@pytest.mark.parametrize(
    "arguments",
    [
        {"use_content": False},
        {"position_embedding": None},
        {"position_embedding": "shared"},
        {"multi_query": False, "intra_depth": 2},
        {"query_normalization": "softmax"},
        {"key_normalization": "l2"},
        {"value_normalization": None},
        {"use_bias": True},
        {"implementation": "einsum"},
    ],
    ids=str,
)
@pytest.mark.parametrize("constructor", [LambdaResNet14, LambdaMobileNetV2])
def test_hyper_parameters_reach_all_lambda_layers(constructor, arguments):
    model = constructor(key_dim=4, num_heads=2, **arguments)
    layers = [layer for layer in model.layers if isinstance(layer, LambdaLayer)]
    assert len(layers) == 2
    for layer in layers:
        received = {name: getattr(layer, name) for name in (*arguments, "key_dim", "num_heads")}
        assert received == {"key_dim": 4, "num_heads": 2, **arguments}
    tables = sum(isinstance(layer, RelativePositionEmbedding) for layer in model.layers)
    assert tables == ("shared" in arguments.values())


@pytest.mark.parametrize(
    ("constructor", "arguments", "scopes"),
    [
        (LambdaResNet14, {"scope": 5}, [5, 5]),
        (LambdaResNet14, {"scope": [9, 7, 5, 3], "placement": "LLCL"}, [9, 7, 3]),
        (LambdaMobileNetV2, {"scope": (9, 7, 5, None), "input_shape": (32, 32, 3)}, [5, None]),
    ],
)
def test_scope_of_each_stage(constructor, arguments, scopes):
    layers = constructor(**arguments).layers
    assert [layer.scope for layer in layers if isinstance(layer, LambdaLayer)] == scopes


def test_placement_of_a_lambda_resnet():
    """Squeeze-and-excitation stays where c2 and c3 have convolutions."""
    model = LambdaResNet50(placement="CLLC")
    assert networks.lambda_blocks(model) == networks.block_names((0, 4, 6, 0))
    assert networks.squeeze_excitation_blocks(model) == networks.block_names((3, 0, 0, 0))
    own = networks.lambda_blocks(LambdaResNet50())
    assert own == ["c4_block3", *networks.block_names((0, 0, 0, 3))]


@pytest.mark.parametrize("name", ["ResNetRS50", "ResNetRS50NoSE", "MobileNetV2"])
def test_arguments_of_other_networks_are_refused(name):
    for argument in ("placement", "scope"):
        with pytest.raises(TypeError, match=rf"{name}\(\) got .* keyword argument '{argument}'"):
            getattr(applications, name)(**{argument: "CCLL"})


def test_another_mixer_has_its_own_arguments(monkeypatch):
    """Not those of the network's own one, unless they are given."""
    networks.skip_building(monkeypatch)
    halonet = specs.NETWORKS["halonet26t"].spec
    assert applications.HaloNet26T() == halonet
    changed = {**halonet.mixer_arguments, "halo_size": 1}
    assert applications.HaloNet26T(mixer_arguments={"halo_size": 1}).mixer_arguments == changed
    local = applications.HaloNet26T(mixer="local", num_heads=4)
    assert (local.mixer, local.mixer_arguments) == ("local", {"num_heads": 4})
    assert applications.HaloNet26T(mixer="lambda") == specs.NETWORKS["lambda_resnet26t"].spec
    assert applications.LambdaResNet50(mixer="lambda") == specs.lambda_resnet(50)


def test_lambda_resnet14_has_strides_1_to_8():
    model = LambdaResNet14(input_shape=(32, 40, 3))
    shapes = [model.get_layer(stage).output.shape for stage in networks.STAGES]
    sizes = [(32, 40), (16, 20), (8, 10), (4, 5)]
    assert shapes == [(None, *size, 64 * 2**number) for number, size in enumerate(sizes)]
    assert networks.lambda_blocks(model) == ["c4_block1", "c5_block1"]


every_constructor = pytest.mark.parametrize(
    "constructor", CONSTRUCTORS, ids=lambda item: item.__name__
)


@every_constructor
def test_signature_of_keras_applications(constructor):
    """Names and positions are Keras', and so are the defaults but for the weights."""
    row = next(row for row in specs.ROWS if row.constructor == constructor.__name__)
    *parameters, others = inspect.signature(constructor).parameters.values()
    of_keras = inspect.signature(keras.applications.ResNet50).parameters
    assert [one.name for one in parameters] == [*of_keras]
    differing = {
        one.name: one.default for one in parameters if one.default != of_keras[one.name].default
    }
    at_256 = {"input_shape": (256, 256, 3)} if constructor.__name__.endswith("256") else {}
    assert differing == {"weights": None, "name": row.name} | at_256 or row.name == "resnet50"
    assert others.kind is others.VAR_KEYWORD
    assert others.annotation.__args__ == (build.group_of(row.spec),)


@every_constructor
def test_help_names_every_argument_and_no_other(constructor):
    row = next(row for row in specs.ROWS if row.constructor == constructor.__name__)
    text, _, _ = constructor.__doc__.partition("Call arguments")
    documented = re.findall(r"(?:^    |, |^        )(\w+)(?=[,:] ?)(?=[^\n]*:|,)", text, re.M)
    names = {*build.arguments_of(row.name)}
    assert names - {*documented} == set()
    listed = re.findall(r"^    (\w+): ", text, re.M)
    assert {*listed} <= names
    counts = f"{row.parameters:,} parameters, {row.gflops} GFLOPs for an image of {row.image_size}x"
    assert row.arguments or counts in constructor.__doc__


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_hyper_parameter_of_a_mixer_arrives(mixer, monkeypatch):
    networks.skip_building(monkeypatch)
    defaults = MIXERS[mixer].defaults
    shown = defaults.keys() & groups.LambdaArguments.__annotations__.keys()
    given = {name: defaults[name] for name in shown}
    further = {name: value for name, value in defaults.items() if name not in shown}
    spec = LambdaResNet50(mixer=mixer, mixer_arguments=further, **given)
    arrived = asdict(spec.lambda_layer) if MIXERS[mixer].is_lambda_layer else spec.mixer_arguments
    assert {name: arrived[name] for name in defaults} == defaults
    by_name = create_model("lambda_resnet50", mixer=mixer, **defaults)  # as on command lines
    assert by_name == spec


RIGHT = """
from lambda_keras.applications import LambdaMobileNetV2, LambdaResNet50, ResNet50
LambdaResNet50(True, None, None, (224, 224, 3), "avg", 10, None, "mine")
LambdaResNet50(weights="imagenet", classes=7, scope=7, num_heads=(4, 4, 8, 8), dropout_rate=0.2)
ResNet50(placement="CLLL", mixer="halo", mixer_arguments={"block_size": 8})
LambdaMobileNetV2(alpha=0.5, expand_lambda=False).summary()
"""
WRONG = """
from lambda_keras.applications import LambdaResNet50, MobileNetV2, ResNetRS50
LambdaResNet50(scop=7)
LambdaResNet50(classes="ten")
LambdaResNet50(pooling="mean")
LambdaResNet50(block_size=8)
ResNetRS50(placement="CCLL")
MobileNetV2(scope=5)
"""


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize(("calls", "errors"), [(RIGHT, []), (WRONG, range(2, 8))])
def test_types_of_calls(tmp_path, calls, errors):
    """What an editor shows: pyright accepts right calls, and refuses each of the wrong ones."""
    pytest.importorskip("pyright")
    (tmp_path / "calls.py").write_text(calls)
    settings = {"extraPaths": [str(ROOT)], "include": ["calls.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = [
        one["range"]["start"]["line"] for one in json.loads(found.stdout)["generalDiagnostics"]
    ]
    assert lines == list(errors)


def test_further_positional_arguments_are_those_of_keras_applications():
    model = LambdaResNet14(False, None, None, (32, 32, 3), "avg", 1000, None, "mine")
    assert (model.name, model.output_shape) == ("mine", (None, 512))


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("constructor", "arguments"),
    [(LambdaResNet14, {}), (LambdaResNet14, {"mixer": "axial"}), (LambdaMobileNetV2, {})],
)
def test_momentum_of_every_batch_normalization(constructor, arguments):
    """Norms within lambda layers and axial attention, too."""
    model = constructor(input_shape=(32, 32, 3), batch_norm_momentum=0.5, **arguments)
    norms, outer = (
        [layer for layer in one if isinstance(layer, keras.layers.BatchNormalization)]
        for one in (model._flatten_layers(), model.layers)
    )
    assert {layer.momentum for layer in norms} == {0.5}
    assert len(norms) > len(outer)


def test_example_in_the_docstrings():
    example = doctest.DocTestFinder().find(LambdaResNet14, "LambdaResNet14", module=False)
    results = [doctest.DocTestRunner().run(test) for test in example]
    assert sum(result.attempted for result in results) == 3
    assert sum(result.failed for result in results) == 0


# Arguments


@shallow
@pytest.mark.one_backend
@pytest.mark.parametrize("channels", [1, 4])
def test_no_top_of_unknown_size(constructor, channels):
    model = constructor(include_top=False, input_shape=(None, None, channels))
    width = 512 if constructor is LambdaResNet14 else 2048
    assert model.input_shape == (None, None, None, channels)
    assert model.output_shape == (None, None, None, width)


@shallow
@pytest.mark.one_backend
@pytest.mark.parametrize("pooling", ["avg", "max"])
def test_pooling_of_a_custom_input_tensor(constructor, pooling):
    inputs = keras.Input((123, 123, 3), name="images")
    model = constructor(include_top=False, input_tensor=inputs, pooling=pooling)
    assert model.inputs[0] is inputs
    assert model.output_shape == (None, 512 if constructor is LambdaResNet14 else 2048)


@pytest.mark.parametrize("pooling", ["avg", "max"])
def test_pooling_pools_the_features(pooling):
    data = networks.images(2, 17, 19, 3)
    features = small(include_top=False)
    pooled = LambdaResNet14(include_top=False, pooling=pooling)
    pooled.set_weights(features.get_weights())
    expected = {"avg": np.mean, "max": np.max}[pooling](networks.predict(features, data), (1, 2))
    np.testing.assert_allclose(networks.predict(pooled, data), expected, rtol=1e-5, atol=1e-6)


def test_odd_size():
    model = small(include_top=False, input_shape=(123, 123, 3))
    assert model.output_shape == (None, 16, 16, 512)
    features = networks.predict(model, networks.images(1, 123, 123, 3))
    assert features.shape == (1, 16, 16, 512)
    assert np.all(np.isfinite(features))


def test_input_tensor_in_the_middle_of_a_network():
    """The model begins where the tensor comes from, so the scaling is part of it."""
    inputs = keras.Input((16, 16, 3))
    model = small(input_tensor=keras.layers.Rescaling(2.0)(inputs))
    plain = LambdaResNet14(classes=5)
    plain.set_weights(model.get_weights())
    assert model.inputs[0] is inputs
    data = networks.images(2, 16, 16, 3)
    np.testing.assert_allclose(
        networks.predict(model, data), networks.predict(plain, 2 * data), rtol=1e-5, atol=1e-6
    )


def test_classifier_activation():
    data = networks.images(2, 16, 16, 3)
    probabilities = small()
    logits = LambdaResNet14(classes=5, classifier_activation=None)
    logits.set_weights(probabilities.get_weights())
    exact = networks.predict(logits, data)
    assert np.ptp(exact, axis=-1).max() < 10, "a saturated softmax would hide differences"
    expected = np.exp(exact - exact.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    assert expected.shape == (2, 5)
    np.testing.assert_allclose(
        networks.predict(probabilities, data), expected, rtol=1e-5, atol=1e-7
    )


def test_classes_and_name():
    model = LambdaResNet14(classes=7, name="mine")
    assert (model.name, model.output_shape) == ("mine", (None, 7))
    assert LambdaResNet14().output_shape == (None, 1000)
    assert (LambdaResNet14().name, ResNet50().name) == ("lambda_resnet14", "resnet50")


@pytest.mark.parametrize("constructor", [c for c in CONSTRUCTORS if c is not LambdaResNet14])
def test_too_small_an_image_raises(constructor):
    with pytest.raises(ValueError, match=r"at least 32 pixels, .* Received: .*\(31, 64, 3\)"):
        constructor(input_shape=(31, 64, 3))


def test_classes_as_numpy_integer():
    """`labels.max() + 1` is a usual number of classes."""
    assert small(classes=np.int64(3)).output_shape == (None, 3)


def test_channels_first_raises():
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(ValueError, match=r"expected .* 'channels_last'.*'channels_first'"):
            LambdaResNet14()
    finally:
        keras.config.set_image_data_format("channels_last")


# Use


@pytest.fixture
def mixed_bfloat16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy(before)


def test_call_on_an_array_or_a_tensor():
    """Without a warning about the structure of the inputs, and as `predict` does."""
    model = small()
    data = networks.images(2, 16, 16, 3)
    assert model.input_shape == (None, None, None, 3)
    for inputs in (data, ops.convert_to_tensor(data)):
        outputs = ops.convert_to_numpy(model(inputs, training=False))
        np.testing.assert_allclose(outputs, networks.predict(model, data), rtol=1e-5, atol=1e-7)


def test_config_round_trip():
    model = small(include_top=False, pooling="max")
    copy = keras.Model.from_config(model.get_config())
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    copy.set_weights(model.get_weights())
    data = networks.images(2, 13, 16, 3)
    np.testing.assert_array_equal(networks.predict(copy, data), networks.predict(model, data))


def test_save_and_load(tmp_path):
    model, data = small(), networks.images(2, 13, 16, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        networks.predict(loaded, data), networks.predict(model, data), atol=1e-6
    )


REGISTERED = """
import importlib, pkgutil
import keras, lambda_keras
names = set(keras.saving.get_custom_objects())
for module in pkgutil.walk_packages(lambda_keras.__path__, "lambda_keras."):
    importlib.import_module(module.name)
assert "lambda_keras>LambdaLayer" in names
assert names == set(keras.saving.get_custom_objects()), names
"""


@pytest.mark.one_backend
def test_import_of_the_package_registers_every_layer():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", REGISTERED], env=environment, check=True)


@pytest.mark.one_backend
def test_load_in_a_fresh_process(tmp_path):
    model, data = small(), networks.images(2, 13, 16, 3)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "images.npy", data)
    program = (
        "import keras, lambda_keras, numpy as np\n"
        "model = keras.saving.load_model('model.keras')\n"
        "np.save('outputs.npy', model(np.load('images.npy')))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    outputs = np.load(tmp_path / "outputs.npy")
    np.testing.assert_allclose(outputs, networks.predict(model, data), atol=1e-6)


def test_weights_of_attention_for_other_classes_and_channels(tmp_path):
    """Random features are weights, too."""
    model = small(mixer="favor", mixer_arguments={"num_features": 8, "seed": 3})
    model.save_weights(tmp_path / "small.weights.h5")
    adapted = LambdaResNet14(
        classes=2,
        input_shape=(16, 16, 1),
        weights=tmp_path / "small.weights.h5",
        adapt_weights=True,
        mixer="favor",
        mixer_arguments={"num_features": 8},
    )
    for name in ("query_kernel", "random_features"):
        expected, received = (
            networks.values([getattr(one.get_layer("c5_block1_2_attention"), name)])[0]
            for one in (model, adapted)
        )
        np.testing.assert_array_equal(received, expected)
    assert adapted.output_shape == (None, 2)
    features = feature_extractor(adapted)(networks.images(1, 16, 16, 1), training=False)
    assert {name: tuple(array.shape) for name, array in features.items()} == {
        "c2": (1, 16, 16, 64),
        "c3": (1, 8, 8, 128),
        "c4": (1, 4, 4, 256),
        "c5": (1, 2, 2, 512),
    }


def test_weights_file_round_trip(tmp_path):
    model, data = small(), networks.images(2, 13, 16, 3)
    model.save_weights(tmp_path / "small.weights.h5")
    loaded = LambdaResNet14(classes=5, weights=tmp_path / "small.weights.h5")
    np.testing.assert_allclose(
        networks.predict(loaded, data), networks.predict(model, data), atol=1e-6
    )


@pytest.mark.usefixtures("mixed_bfloat16")
def test_mixed_bfloat16():
    model = LambdaResNet14(classes=5, classifier_activation=None)
    keras.config.set_dtype_policy("float32")
    data = networks.images(2, 16, 16, 3)
    exact = small(classifier_activation=None)
    networks.calibrate(exact, data)
    model.set_weights(exact.get_weights())
    outputs = model(data, training=False)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    assert model.get_layer("c5").compute_dtype == "bfloat16"
    assert {variable.dtype for variable in model.variables} == {"float32"}
    errors = networks.layer_errors(exact, model, data)
    assert {layer: error for layer, error in errors.items() if not error < 0.02} == {}


@pytest.mark.usefixtures("mixed_bfloat16")
def test_training_step_in_mixed_bfloat16():
    model = LambdaResNet14(classes=5)
    networks.randomize(model)
    assert np.isfinite(networks.fit_one_step(model, networks.images(5, 16, 16, 3), classes=5))
    assert all(np.all(np.isfinite(array)) for array in model.get_weights())


def test_training_step():
    model = LambdaResNet14(classes=5)
    before = model.get_weights()
    loss = networks.fit_one_step(model, networks.images(5, 16, 16, 3), classes=5)
    assert 0 < loss < 10
    assert any(
        not np.array_equal(old, new) for old, new in zip(before, model.get_weights(), strict=True)
    )
