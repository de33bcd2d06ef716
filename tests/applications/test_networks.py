"""The constructors, as the users of keras.applications know them."""

import doctest
import inspect
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from support import networks

from lambda_keras import applications
from lambda_keras.applications import LambdaMobileNetV2, LambdaResNet14, arguments, build
from lambda_keras.layers import LambdaLayer, RelativePositionEmbedding
from lambda_keras.models import specs
from lambda_keras.models.mixers import MIXERS
from zoo.registry import create_model

ROOT = Path(__file__).resolve().parents[2]
ROWS = {row.constructor: row for row in reversed(specs.ROWS)}  # the first row of each
CONSTRUCTORS = [getattr(applications, name) for name in applications.__all__ if name in ROWS]
every_constructor = pytest.mark.parametrize("constructor", CONSTRUCTORS)


# What constructors show


@every_constructor
@networks.specs_alone()
def test_signature_of_keras_applications(constructor):
    """Names and positions are Keras', and so are the defaults but for weights and classes."""
    row = ROWS[constructor.__name__]
    *parameters, _ = inspect.signature(constructor).parameters.values()
    of_keras = inspect.signature(keras.applications.ResNet50).parameters
    assert [one.name for one in parameters] == [*of_keras]
    defaults = {one.name: one.default for one in parameters}
    differing = {name: one for name, one in defaults.items() if one != of_keras[name].default}
    at_256 = {"input_shape": (256, 256, 3)} if constructor.__name__.endswith("256") else {}
    named = {"name": row.name} if row.name != "resnet50" else {}
    # Packaged weights have other classes than ImageNet's.
    packaged = any(one.is_packaged for one in row.weights.values())
    of_weights = {"classes": None} if packaged else {}
    assert differing == {"weights": None} | named | at_256 | of_weights
    with pytest.raises(ValueError, match=r"at least (32|8) pixels, .* Received: .*\(7, 64, 3\)"):
        constructor(input_shape=(7, 64, 3))
    assert constructor() == create_model(row.name)


@every_constructor
def test_help_names_every_argument_and_no_other(constructor):
    row = ROWS[constructor.__name__]
    head, _, text = constructor.__doc__.partition("Args:")
    text, _, _ = text.partition("Call arguments")
    documented = re.findall(r"(?:^    |, |^        )(\w+)(?=[,:] ?)(?=[^\n]*:|,)", text, re.M)
    names = {*inspect.signature(constructor).parameters} - {"arguments"}
    names |= build.GROUPS[row.constructor].__annotations__.keys()
    assert names - {*documented} == set()
    assert {*re.findall(r"^    (\w+): ", text, re.M)} <= names
    counts = f"{row.parameters:,} parameters, {row.gflops} GFLOPs for an image of {row.image_size}x"
    assert f"{blocks_of(row.spec)}{counts}" in " ".join(head.split())
    mixers = {row.spec.mixer} & MIXERS.keys() if "num_heads" in names else ()
    for mixer in mixers:
        defaults = {**MIXERS[mixer].defaults, **row.spec.arguments.get(mixer, {})}
        words = ", ".join(f"{name}={value!r}" for name, value in defaults.items())
        assert words in " ".join(text.split())


def blocks_of(spec) -> str:
    """The sentence about a residual network's blocks."""
    if not isinstance(spec, specs.ResNetSpec):
        return ""
    stages = []
    for stage, count, mixed in zip(specs.STAGES, spec.blocks, spec.mixer_blocks, strict=True):
        every = mixed == tuple(range(1, count + 1))
        numbers = f"block{'s'[: len(mixed) - 1]} {', '.join(map(str, mixed))}"
        stages += [f"{'all' if every else numbers} of {stage}"] if mixed else []
    names = {"lambda": "lambda layers", "global": "global attention", "halo": "halo attention"}
    mixers = f"; {names[spec.mixer]} in {' and '.join(stages)}" if stages else ""
    return f"Blocks of c2 to c5: {', '.join(map(str, spec.blocks))}{mixers}. "


def test_example_in_the_docstrings():
    example = doctest.DocTestFinder().find(LambdaResNet14, "LambdaResNet14", module=False)
    results = [doctest.DocTestRunner().run(test) for test in example]
    assert [sum(column) for column in zip(*results, strict=True)][:2] == [0, 3]


# A value of every argument that networks show, other than its default.
SHOWN = {"adapt_weights": True, "dropout_rate": 0.5, "batch_norm_momentum": 0.5}
SHOWN |= {"stochastic_depth_rate": 0.5, "padding": "symmetric", "stem": "tiered"}
SHOWN |= {"num_heads": 2, "key_dim": 8, "intra_depth": 2, "scope": 7, "multi_query": False}
SHOWN |= {"use_content": False, "position_embedding": "shared", "query_normalization": "softmax"}
SHOWN |= {"key_normalization": "l2", "value_normalization": None, "use_bias": True}
SHOWN |= {"implementation": "einsum", "strided_queries": True, "placement": "CLCL"}
SHOWN |= {"blocks": [1, 2, 1, 1], "squeeze_excitation": (False, True, False, True)}
SHOWN |= {"double_attention": True, "filters": 8, "alpha": 0.5, "expand_lambda": False}
FIRSTS = {build.GROUPS[row.constructor]: ROWS[row.constructor] for row in reversed(specs.ROWS)}
GROUPS = [
    pytest.param(row, mixer, id=f"{row.constructor}-{mixer}")
    for group, row in FIRSTS.items()
    for mixer in (MIXERS if "mixer" in group.__annotations__ else [None])
]


@pytest.mark.parametrize(("row", "mixer"), GROUPS)
@networks.specs_alone()
def test_every_shown_argument_works_with_every_mixer(row, mixer):
    """Each is accepted and arrives in the spec that the network is built by."""
    constructor, chosen = getattr(applications, row.constructor), {"mixer": mixer} if mixer else {}
    plain = asdict(constructor(**chosen))
    known = build.GROUPS[row.constructor].__annotations__.keys()
    of_mixers = known & arguments.MixerArguments.__annotations__.keys()
    for name in known - of_mixers - {"mixer"}:
        spec = constructor(**{name: SHOWN[name]}, **chosen)
        if name == "placement":
            assert spec.mixer_blocks == specs.placement(spec.blocks, SHOWN[name])
        elif name != "adapt_weights":
            assert getattr(spec, name) == SHOWN[name] != plain[name]
    own = of_mixers & MIXERS[mixer or "lambda"].defaults.keys()
    for name in own:
        spec = constructor(**{name: (1, 2, 3, 4)}, **chosen)
        assert spec.arguments[spec.mixer][name] == (1, 2, 3, 4)
        assert create_model(row.name, **{name: (1, 2, 3, 4)}, **chosen) == spec
    for other in of_mixers - own:
        with pytest.raises(ValueError, match=f"that mixer='{mixer}' has: .*{other}=1"):
            constructor(**{other: 1}, **chosen)


@networks.specs_alone()
def test_another_mixer_has_its_own_arguments():
    """The network's own ones are changed one by one."""
    halonet = specs.NETWORKS["halonet26t"].spec
    changed = {"halo": {**halonet.arguments["halo"], "halo_size": 1}}
    assert applications.HaloNet26T(halo_size=1).arguments == changed
    local = applications.HaloNet26T(mixer="local", num_heads=4)
    assert (local.mixer, local.arguments) == ("local", {"local": {"num_heads": 4}})
    assert applications.HaloNet26T(mixer="lambda") == specs.NETWORKS["lambda_resnet26t"].spec
    hybrid = applications.LambdaResNet420(mixer="halo", num_heads=2, block_size=8)
    assert hybrid.arguments == {"halo": {"num_heads": 2, "block_size": 8}}
    assert hybrid.mixer_blocks == specs.lambda_resnet(420).mixer_blocks
    with_bias = create_model("resnet50_llll_pytorch", scope=7).arguments
    assert with_bias == {"lambda": {"scope": 7, "use_bias": True}}


@pytest.mark.parametrize(
    ("row", "constructor", "arguments"),
    [
        ("lambda_resnet50_c4", "LambdaResNet50", {"placement": "CCLL"}),
        ("resnet_rs50_no_se", "ResNetRS50", {"squeeze_excitation": False}),
        ("resnet50_se", "ResNet50", {"squeeze_excitation": True}),
        ("resnet50_double_attention", "ResNet50", {"double_attention": True}),
    ],
)
@networks.specs_alone()
def test_forms_are_arguments_of_their_depth(row, constructor, arguments):
    """The changelog tells users of the constructors that were there before."""
    constructor = getattr(applications, constructor)
    assert create_model(row) == constructor(**arguments) != constructor()
    (name, value), *_ = arguments.items()
    wanted = f"{name}={value!r}".replace("'", '"')
    assert f"({wanted})" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "argument", "hint"),
    [
        ("ResNetRS50", {"placement": "CCLL"}, "expected one that the network has ("),
        ("MobileNetV2", {"scope": 5}, "see its help"),
        ("LambdaResNet50", {"scop": 7}, "scope"),
        ("ResNet50", {"mixer_arguments": {"scope": 7}}, "such as scope=7, stand next to"),
        ("LambdaResNet50", {"poolin": "avg"}, "'pooling'"),
        ("LambdaResNet50", {"dtype": "mixed_bfloat16"}, "set_dtype_policy('mixed_bfloat16')"),
        ("LambdaMobileNetV2", {"dtype": "float16"}, "keras.config.set_dtype_policy("),
        ("ResNetRS50", {"dtype_policy": "float16"}, "keras.config.set_dtype_policy("),
        ("ResNet50", {"include_preprocessing": True}, "applications.preprocess_input, before"),
        ("ResNet50", {"alpha": 0.5}, "only MobileNetV2 and LambdaMobileNetV2"),
        ("ResNet50", {"data_format": "channels_first"}, "channels last"),
        ("ResNetRS50", {"num_classes": 10}, "(classes)"),
        ("LambdaResNet26T", {"pretrained": True}, "weights='imagenet'"),
        ("LambdaResNet14", {"input_size": 32}, "input_shape="),
        ("MobileNetV2", {"blocks": (1, 2, 3, 4)}, "see its help"),
    ],
)
def test_arguments_of_other_networks_are_refused(name, argument, hint):
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected .* Received: ") as caught:
        getattr(applications, name)(**argument)
    assert hint in str(caught.value)


@networks.specs_alone()
def test_blocks_of_another_depth():
    """Of a depth of the family, in every family, it is that network."""
    for family in specs.FAMILIES:
        for depth, (blocks, _) in specs.DEPTHS.items():
            other = create_model(family.format(depth))
            for row in (family.format(50), family.format(420)):
                assert create_model(row, blocks=blocks) == other, (row, depth)
    for network, blocks, expected in (
        ("lambda_resnet50", [3, 4, 12, 3], ((), (), (3, 6, 9), (1, 2, 3))),
        ("lambda_resnet50", (1, 1, 2, 1), ((), (), (), (1,))),
        ("lambda_resnet50_c4", (1, 1, 2, 1), ((), (), (1, 2), (1,))),
        ("lambda_resnet50ts", (2, 8, 9, 5), ((), (4, 8), (2, 4, 6, 8), (2, 4))),
        ("resnet50_cccl", [1, 1, 1, 2], ((), (), (), (1, 2))),
    ):
        assert create_model(network, blocks=blocks).mixer_blocks == expected
    placed = applications.LambdaResNet50(blocks=(1, 1, 2, 1), placement="LCCL")
    assert placed.mixer_blocks == ((1,), (), (), (1,))


def test_a_network_of_another_depth_is_saved_and_its_weights_fit_no_other(tmp_path):
    tiny = {"filters": 4, "classes": 3, "scope": 3}
    model = create_model("lambda_resnet14", blocks=[0, 0, 0, 2], **tiny)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert networks.lambda_blocks(loaded) == ["c5_block1", "c5_block2"]
    weights = str(tmp_path / "model.weights.h5")
    again = create_model("lambda_resnet14", blocks=[0, 0, 0, 2], weights=weights, **tiny)
    networks.assert_same(again, model)
    for blocks in ([0, 0, 0, 1], [0, 0, 1, 2]):
        with pytest.raises(ValueError, match="do not fit the model") as caught:
            create_model("lambda_resnet14", blocks=blocks, weights=weights, **tiny)
        assert "\n" not in str(caught.value)


# What they build


@pytest.mark.one_backend
def test_positional_arguments_and_the_size_of_the_small_network():
    blocks = {"blocks": [0, 1, 2, 0], "filters": 4, "placement": "CLCC"}
    model = LambdaResNet14(False, None, None, (32, 24, 3), "avg", 1000, None, "mine", **blocks)
    assert (model.name, model.output_shape) == ("mine", (None, 64))
    maps = {layer.name: layer.output.shape[1:] for layer in model.layers if len(layer.name) == 2}
    assert maps == {"c3": (16, 12, 32), "c4": (8, 6, 64)}
    assert networks.lambda_blocks(model) == ["c3_block1"]
    default = LambdaResNet14(blocks=[1, 1, 2, 1], filters=4)
    assert networks.lambda_blocks(default) == ["c4_block1", "c4_block2", "c5_block1"]
    assert default.output_shape == (None, 1000)


@pytest.mark.one_backend
@pytest.mark.parametrize("network", ["lambda_resnet14", "lambda_mobilenet_v2"])
def test_hyper_parameters_reach_all_lambda_layers_and_normalizations(network):
    given = {name: SHOWN[name] for name in arguments.LambdaArguments.__annotations__}
    del given["position_embedding"], given["intra_depth"]
    model = create_model(network, batch_norm_momentum=0.5, **given)
    lambda_layers = networks.inner_layers(model, LambdaLayer)
    assert len(lambda_layers) == 2
    for layer in lambda_layers:
        assert {name: getattr(layer, name) for name in given} == given
    norms = networks.inner_layers(model, layers.BatchNormalization)
    assert {layer.momentum for layer in norms} == {0.5}


@pytest.mark.one_backend
def test_scopes_of_stages_and_a_shared_table():
    by_stage = create_model("lambda_resnet14", scope=[9, 7, 5, 3], placement="LLCL")
    assert [layer.scope for layer in networks.inner_layers(by_stage, LambdaLayer)] == [9, 7, 3]
    mobile = LambdaMobileNetV2(scope=(9, 7, 5, None), input_shape=(32, 32, 3), alpha=0.35)
    assert [layer.scope for layer in networks.inner_layers(mobile, LambdaLayer)] == [5, None]
    shared = create_model("lambda_resnet14", position_embedding="shared", num_heads=2)
    assert len(networks.inner_layers(shared, RelativePositionEmbedding)) == 1


def small(**options) -> keras.Model:
    """A LambdaResNet14 with five classes and few channels whose weights are all at work."""
    model = LambdaResNet14(**{"classes": 5, "filters": 4, **options})
    networks.randomize(model)
    return model


@pytest.mark.parametrize("pooling", ["avg", "max"])
def test_pooling_of_odd_sizes_from_an_input_tensor(pooling):
    """The model begins where the tensor comes from, so the scaling is part of it."""
    inputs = keras.Input((19, 13, 4))
    data = networks.images(2, 19, 13, 4)
    features = small(include_top=False, input_shape=(None, None, 4))
    assert features.output_shape == (None, None, None, 128)
    scaled = layers.Rescaling(2.0)(inputs)
    pooled = LambdaResNet14(include_top=False, pooling=pooling, input_tensor=scaled, filters=4)
    pooled.set_weights(features.get_weights())
    assert pooled.inputs[0] is inputs
    maps = networks.predict(features, 2 * data)
    assert maps.shape == (2, 3, 2, 128)
    expected = {"avg": np.mean, "max": np.max}[pooling](maps, (1, 2))
    np.testing.assert_allclose(networks.predict(pooled, data), expected, rtol=1e-5, atol=1e-6)


def test_classifier_activation_and_classes_as_numpy_integer():
    """`labels.max() + 1` is a usual number of classes."""
    data = networks.images(2, 16, 16, 3)
    probabilities = small(classes=np.int64(3))
    logits = LambdaResNet14(classes=3, classifier_activation=None, filters=4)
    logits.set_weights(probabilities.get_weights())
    exact = networks.predict(logits, data)
    assert np.ptp(exact, axis=-1).max() < 10, "a saturated softmax would hide differences"
    expected = np.exp(exact - exact.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    received = networks.predict(probabilities, data)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-7)


def test_channels_first_raises():
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(ValueError, match=r"expected .* 'channels_last'.*'channels_first'"):
            LambdaResNet14()
    finally:
        keras.config.set_image_data_format("channels_last")


FRESH = """
import importlib, pkgutil
import {packages}, numpy as np
names = set(keras.saving.get_custom_objects())
model = keras.saving.load_model('model.keras')
np.save('outputs.npy', keras.ops.convert_to_numpy(model(np.load('images.npy'))))
for module in pkgutil.walk_packages(lambda_keras.__path__, "lambda_keras."):
    importlib.import_module(module.name)
assert "lambda_keras>LambdaLayer" in names
assert names == set(keras.saving.get_custom_objects()), names
"""


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize("packages", ["lambda_keras, keras", "keras, lambda_keras"])
def test_load_in_a_fresh_process(packages, tmp_path):
    """The import of the package registers every layer, before Keras is imported and after."""
    model, data = small(), networks.images(2, 13, 16, 3)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "images.npy", data)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = FRESH.format(packages=packages)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    outputs = np.load(tmp_path / "outputs.npy")
    np.testing.assert_allclose(outputs, networks.predict(model, data), atol=1e-6)


def test_random_features_for_other_classes_and_channels(tmp_path):
    """They are weights, too; tests/weights/test_files.py adapts convolutions."""
    path, favor = tmp_path / "small.weights.h5", {"mixer": "favor", "num_features": 8}
    model = small(seed=3, **favor)
    model.save_weights(path)
    shape = {"classes": 2, "input_shape": (16, 16, 1)}
    adapted = LambdaResNet14(weights=path, adapt_weights=True, filters=4, **shape, **favor)
    layers = [one.get_layer("c5_block1_2_attention") for one in (adapted, model)]
    networks.assert_same(*([one.query_kernel, one.random_features] for one in layers))
    assert adapted.output_shape == (None, 2)
