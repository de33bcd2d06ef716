"""Wrong arguments of what lambda_keras.applications has, and of zoo.convert."""

import keras
import numpy as np
import pytest
from support import commands

from lambda_keras.applications import (
    BoTNet26T256,
    HaloNet26T,
    LambdaMobileNetV2,
    LambdaResNet14,
    LambdaResNet50,
    MobileNetV2,
    ResNet50,
    decode_predictions,
    feature_extractor,
    preprocess_input,
)
from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from zoo.convert import __main__ as convert

NAN, INFINITY = float("nan"), float("inf")
AXIAL = {"mixer": "axial", "input_shape": (64, 64, 3)}
SHAPE = "expected input_shape (height, width, channels) of positive integers"
SMALL = "at least 8 pixels, the stride of the last stage. Received: input_shape="
CONSTRUCTORS = [
    ("letters", LambdaResNet14, {"input_shape": ("a", "b", 3)}, SHAPE),
    ("no_pixels", LambdaResNet14, {"input_shape": (0, 32, 3)}, SHAPE),
    ("no_channels", LambdaResNet14, {"input_shape": (32, 32, 0)}, SHAPE),
    ("negative_channels", LambdaResNet14, {"input_shape": (32, 32, -3)}, SHAPE),
    ("unknown_channels", LambdaResNet14, {"input_shape": (32, 32, None)}, SHAPE),
    ("halves", LambdaResNet14, {"input_shape": (32.5, 32, 3)}, SHAPE),
    ("floats", LambdaResNet14, {"input_shape": (32.0, 32.0, 3)}, SHAPE),
    ("bool", LambdaResNet14, {"input_shape": (32, 32, True)}, SHAPE),
    ("nan_pixels", LambdaResNet14, {"input_shape": (NAN, 32, 3)}, SHAPE),
    ("two_sizes", LambdaResNet14, {"input_shape": (32, 32)}, SHAPE),
    ("with_batch", LambdaResNet14, {"input_shape": (1, 32, 32, 3)}, SHAPE),
    ("one_size", LambdaResNet14, {"input_shape": 32}, "Received: input_shape=32"),
    ("text", LambdaResNet14, {"input_shape": "abc"}, "Received: input_shape='abc'"),
    ("too_small", LambdaResNet14, {"input_shape": (None, 7, 3)}, f"{SMALL}(None, 7, 3)"),
    ("too_small_for_50", LambdaResNet50, {"input_shape": (31, 64, 3)}, "at least 32 pixels"),
    ("small_mobilenet", MobileNetV2, {"input_shape": (31, 64, 3)}, "at least 32 pixels"),
    ("array_as_tensor", LambdaResNet14, {"input_tensor": np.zeros((1, 8, 8, 3))}, "ndarray"),
    (
        "name_as_tensor",
        LambdaResNet14,
        {"input_tensor": "images"},
        "Received: input_tensor=<class 'str'>",
    ),
    ("small_tensor", LambdaResNet14, {"input_tensor": ((8, 4, 3), {})}, f"{SMALL}(8, 4, 3)"),
    ("flat_tensor", LambdaResNet14, {"input_tensor": ((8, 8), {})}, SHAPE),
    (
        "integer_tensor",
        LambdaResNet14,
        {"input_tensor": ((8, 8, 3), {"dtype": "uint8"})},
        "expected input_tensor of floats, as preprocess_input returns them. Received: dtype=",
    ),
    ("top_is_text", LambdaResNet14, {"include_top": "no"}, "Received: include_top='no'"),
    ("top_is_none", LambdaResNet14, {"include_top": None}, "Received: include_top=None"),
    (
        "pooling",
        LambdaResNet14,
        {"pooling": "mean"},
        "pooling to be one of None, avg, max. Received: pooling='mean'",
    ),
    ("pooling_is_true", LambdaResNet14, {"pooling": True}, "Received: pooling=True"),
    ("pooling_list", LambdaResNet14, {"pooling": ["avg"]}, "Received: pooling=['avg']"),
    ("no_classes", LambdaResNet14, {"classes": 0}, "positive integer. Received: classes=0"),
    ("negative_classes", LambdaResNet14, {"classes": -5}, "Received: classes=-5"),
    ("half_a_class", LambdaResNet14, {"classes": 2.5}, "Received: classes=2.5"),
    ("float_classes", LambdaResNet14, {"classes": 3.0}, "Received: classes=3.0"),
    ("true_classes", LambdaResNet14, {"classes": True}, "Received: classes=True"),
    ("text_classes", LambdaResNet14, {"classes": "10"}, "Received: classes='10'"),
    ("names_of_classes", LambdaResNet14, {"classes": ["a", "b"]}, "Received: classes=['a', 'b']"),
    ("activation", LambdaResNet14, {"classifier_activation": "sofmax"}, "Received: 'sofmax'"),
    ("activation_5", LambdaResNet14, {"classifier_activation": 5}, "classifier_activation to be"),
    ("empty_name", LambdaResNet14, {"name": ""}, "Received: name=''"),
    ("path_as_name", LambdaResNet14, {"name": "a/b"}, "without a slash. Received: name='a/b'"),
    ("number_as_name", LambdaResNet14, {"name": 5}, "Received: name=5"),
    ("dropout_1", LambdaResNet14, {"dropout_rate": 1}, "Received: dropout_rate=1"),
    ("dropout_nan", LambdaResNet14, {"dropout_rate": NAN}, "Received: dropout_rate=nan"),
    ("dropout_text", LambdaResNet14, {"dropout_rate": "0.1"}, "Received: dropout_rate='0.1'"),
    ("dropout_none", LambdaResNet14, {"dropout_rate": None}, "Received: dropout_rate=None"),
    ("depth_below_0", LambdaResNet14, {"stochastic_depth_rate": -0.1}, "_rate=-0.1"),
    ("dropout_true", MobileNetV2, {"dropout_rate": True}, "Received: dropout_rate=True"),
    ("momentum_1", LambdaResNet14, {"batch_norm_momentum": 1}, "Received: batch_norm_momentum=1"),
    ("momentum_nan", ResNet50, {"batch_norm_momentum": NAN}, "batch_norm_momentum=nan"),
    ("momentum_none", MobileNetV2, {"batch_norm_momentum": None}, "batch_norm_momentum=None"),
    ("alpha_0", MobileNetV2, {"alpha": 0}, "positive number. Received: alpha=0"),
    ("alpha_nan", MobileNetV2, {"alpha": NAN}, "positive number. Received: alpha=nan"),
    ("alpha_infinite", MobileNetV2, {"alpha": INFINITY}, "positive number. Received: alpha=inf"),
    ("alpha_text", LambdaMobileNetV2, {"alpha": "1"}, "positive number. Received: alpha='1'"),
    ("alpha_true", LambdaMobileNetV2, {"alpha": True}, "Received: alpha=True"),
    ("expand", LambdaMobileNetV2, {"expand_lambda": "no"}, "Received: expand_lambda='no'"),
    (
        "padding",
        ResNet50,
        {"padding": "valid"},
        "same, fixed, symmetric. Received: padding='valid'",
    ),
    ("placement_letter", ResNet50, {"placement": "CCLX"}, "Received: placement='CCLX'"),
    ("placement_length", ResNet50, {"placement": "CCL"}, "Received: placement='CCL'"),
    ("placement_number", ResNet50, {"placement": 5}, "Received: placement=5"),
    ("placement_of_lambda", LambdaResNet50, {"placement": "CXLL"}, "Received: placement='CXLL'"),
    ("two_stages", LambdaResNet14, {"blocks": [1, 2]}, "four integers, one for each of the stages"),
    ("no_blocks", LambdaResNet14, {"blocks": (0, 0, 0, 0)}, "not all 0. Received: blocks=(0, 0, 0"),
    ("negative_blocks", LambdaResNet14, {"blocks": (1, 1, -1, 1)}, "blocks=(1, 1, -1, 1)"),
    ("half_a_block", LambdaResNet14, {"blocks": (1, 1, 0.5, 1)}, "blocks=(1, 1, 0.5, 1)"),
    ("number_of_blocks", LambdaResNet14, {"blocks": 4}, "Received: blocks=4"),
    ("text_of_blocks", LambdaResNet14, {"blocks": "1111"}, "Received: blocks='1111'"),
    ("no_filters", LambdaResNet14, {"filters": 0}, "positive integer. Received: filters=0"),
    ("half_a_filter", LambdaResNet14, {"filters": 8.5}, "Received: filters=8.5"),
    ("heads", LambdaResNet50, {"num_heads": 3}, "num_heads. Received: filters=256, num_heads=3"),
    ("heads_mobile", LambdaMobileNetV2, {"num_heads": 3}, "Received: filters=64, num_heads=3"),
    ("key_dim", LambdaResNet50, {"key_dim": "16"}, "Received: key_dim='16'"),
    ("intra_depth", LambdaMobileNetV2, {"intra_depth": 0}, "Received: intra_depth=0"),
    ("multi_query", LambdaResNet50, {"multi_query": "no"}, "Received: multi_query='no'"),
    ("even_scope", LambdaResNet50, {"scope": 8}, "Received: scope=8"),
    ("even_scope_unused", ResNet50, {"scope": 8}, "Received: scope=8"),
    ("half_a_scope", LambdaResNet50, {"scope": 7.5}, "Received: scope=7.5"),
    ("three_scopes", LambdaResNet50, {"scope": (7, 7, 7)}, "one for each of the stages ('c2', "),
    ("even_scope_of_c2", LambdaResNet50, {"scope": [8, 7, 7, 7]}, "Received: scope=8"),
    ("global_scope", LambdaResNet50, {"scope": None}, "because scope=None"),
    ("shared", LambdaResNet50, {"position_embedding": "shared", "scope": [7] * 4}, "one table"),
    ("embedding", LambdaResNet50, {"position_embedding": "rotary"}, "'rotary'"),
    ("relation", LambdaResNet50, {"position_embedding": ["relation", None, None, None]}, "another"),
    ("keys", LambdaResNet50, {"key_normalization": "batch"}, "key_normalization='batch'"),
    ("fast", LambdaResNet50, {"implementation": "fast"}, "implementation='fast'"),
    ("fourier", LambdaResNet50, {"implementation": "fourier"}, "a grid of unknown size"),
    ("mixer", ResNet50, {"mixer": "dilated"}, "favor, relu. Received: mixer='dilated'"),
    ("mixer_none", LambdaResNet50, {"mixer": None}, "Received: mixer=None"),
    ("mixer_list", LambdaResNet50, {"mixer": ["global"]}, "Received: mixer=['global']"),
    (
        "scope_of_global",
        ResNet50,
        {"mixer": "global", "scope": 7},
        "has: num_heads, key_dim, multi_query, output_projection, scale_positions. Received: scope",
    ),
    ("scope_of_content", ResNet50, {"mixer": "content", "scope": 7}, "Received: scope=7"),
    (
        "blocks_of_lambda",
        LambdaResNet50,
        {"mixer_arguments": {"block_size": 8}},
        "Received: block_size=8",
    ),
    ("heads_of_axial", LambdaResNet50, {**AXIAL, "num_heads": 3}, "filters=256, num_heads=3"),
    ("two_heads", ResNet50, {**AXIAL, "num_heads": (8, 8)}, "Received: num_heads=(8, 8)"),
    (
        "block_size",
        ResNet50,
        {"mixer": "halo", "mixer_arguments": {"block_size": 0}},
        "Received: block_size=0",
    ),
    (
        "strided_blocks",
        HaloNet26T,
        {"mixer_arguments": {"block_size": 7}},
        "Received: block_size=7, strides=2",
    ),
    ("seed", ResNet50, {"mixer": "favor", "mixer_arguments": {"seed": -1}}, "Received: seed=-1"),
    (
        "axial_of_unknown_size",
        LambdaResNet14,
        {"mixer": "axial", "input_shape": (16, None, 3)},
        "known height and width for AxialAttention, which has embeddings for every offset",
    ),
    (
        "global_of_unknown_size",
        BoTNet26T256,
        {"input_shape": (None, None, 3)},
        "GlobalAttention",
    ),
    ("placement_list", ResNet50, {"placement": list("CCLL")}, "Received: placement=['C', 'C'"),
]

PIXELS = np.zeros((2, 4, 4, 3), "uint8")
SCORES = np.zeros((2, 1000), "float32")
IMAGES = "expected images of shape (..., 3), RGB. Received: shape="
TOP = "expected top to be a positive integer. Received: top="
CALLS = [
    ("grey", lambda: preprocess_input(PIXELS[..., :1]), f"{IMAGES}(2, 4, 4, 1)"),
    ("transparent", lambda: preprocess_input(np.zeros((4, 4, 4))), f"{IMAGES}(4, 4, 4)"),
    ("channels_first", lambda: preprocess_input(np.zeros((2, 3, 4, 4))), f"{IMAGES}(2, 3, 4, 4)"),
    ("number", lambda: preprocess_input(5), f"{IMAGES}()"),
    ("tensor", lambda: preprocess_input(keras.ops.zeros((4, 4, 1), "uint8")), f"{IMAGES}(4, 4, 1)"),
    ("keras_tensor", lambda: preprocess_input(keras.Input((4, 4, 1))), f"{IMAGES}(None, 4, 4, 1)"),
    ("file_name", lambda: preprocess_input("cat.jpg"), "integers or floats. Received: dtype=str"),
    ("nothing", lambda: preprocess_input(None), "integers or floats. Received: dtype=object"),
    ("bools", lambda: preprocess_input(PIXELS > 1), "integers or floats. Received: dtype=bool"),
    ("complex", lambda: preprocess_input(PIXELS * 1j), "Received: dtype=complex128"),
    ("ragged", lambda: preprocess_input([PIXELS[0], PIXELS[0, :3]]), "Received: a <class 'list'>"),
    ("one_row", lambda: decode_predictions(SCORES[0]), "(images, 1000). Received: shape=(1000,)"),
    ("999", lambda: decode_predictions(SCORES[:, 1:]), "Received: shape=(2, 999)"),
    ("1001", lambda: decode_predictions(np.zeros((2, 1001))), "Received: shape=(2, 1001)"),
    ("three_axes", lambda: decode_predictions(SCORES[None]), "Received: shape=(1, 2, 1000)"),
    ("no_images", lambda: decode_predictions(np.zeros(0)), "Received: shape=(0,)"),
    ("no_scores", lambda: decode_predictions(None), "Received: shape=()"),
    (
        "nan_scores",
        lambda: decode_predictions(SCORES * NAN),
        "that are numbers. Received: predictions=nan",
    ),
    (
        "texts",
        lambda: decode_predictions(SCORES.astype("str")),
        "predictions of integers or floats. Received: dtype=str",
    ),
    ("top_0", lambda: decode_predictions(SCORES, 0), f"{TOP}0"),
    ("top_-1", lambda: decode_predictions(SCORES, -1), f"{TOP}-1"),
    ("top_2.5", lambda: decode_predictions(SCORES, 2.5), f"{TOP}2.5"),
    ("top_true", lambda: decode_predictions(SCORES, True), f"{TOP}True"),
    ("top_none", lambda: decode_predictions(SCORES, None), f"{TOP}None"),
    ("top_text", lambda: decode_predictions(SCORES, "5"), f"{TOP}'5'"),
    (
        "size_0",
        lambda: Preprocessing(0, 0.9),
        "image_size to be a positive integer. Received: image_size=0",
    ),
    (
        "crop_text",
        lambda: Preprocessing(8, "0.9"),
        "above 0, up to 1. Received: crop_fraction='0.9'",
    ),
    ("crop_nan", lambda: Preprocessing(8, NAN), "above 0, up to 1. Received: crop_fraction=nan"),
    ("filter", lambda: Preprocessing(8, 0.9, "cubic"), "Received: interpolation='cubic'"),
    ("one_mean", lambda: Preprocessing(8, 0.9, mean=0.5), "Received: mean=0.5"),
    ("std_0", lambda: Preprocessing(8, 0.9, std=(1, 0, 1)), "Received: std=(1, 0, 1)"),
    ("size_text", lambda: preprocessing_of("lambda_resnet50", "224"), "Received: image_size='224'"),
    ("features_of_nothing", lambda: feature_extractor(None), "Received: a <class 'NoneType'>"),
    ("features_of_a_layer", lambda: feature_extractor(keras.layers.Dense(1)), "functional keras"),
    ("features_unbuilt", lambda: feature_extractor(keras.Sequential([])), "functional keras.Model"),
    ("no_endpoints", lambda: feature_extractor(tiny(), []), "Received: endpoints=[]"),
    ("endpoint", lambda: feature_extractor(tiny(), ["c1"]), "such as ('c2', 'c3', 'c4', 'c5')"),
    ("endpoint_case", lambda: feature_extractor(tiny(), ["c2", "C5"]), "=['c2', 'C5']"),
    ("endpoint_text", lambda: feature_extractor(tiny(), "c2"), "Received: endpoints='c2'"),
    ("endpoint_5", lambda: feature_extractor(tiny(), 5), "Received: endpoints=5"),
    ("endpoint_list", lambda: feature_extractor(tiny(), [["c2"]]), "Received: endpoints=[['c2']]"),
]

OK = ("--model", "lambda_resnet14", "--weights", "text.pth", "--output", "out.weights.h5")
COMMANDS = [
    ("no_arguments", (), "model"),
    ("model", (*OK, "--model", "lambda_resnet14x"), "did you mean 'lambda_resnet14'"),
    ("unpublished", (*OK, "--weights", "imagenet"), "weights='imagenet' of 'lambda_resnet14'"),
    ("missing", (*OK, "--weights", "none.pth"), "that exists. Received: weights='none.pth'"),
    ("folder", (*OK, "--weights", "folder.pth"), "that exists. Received: weights='folder.pth'"),
    ("suffix", (*OK, "--weights", "text.zip"), "that exists. Received: weights='text.zip'"),
    ("repository", (*OK, "--weights", "hf://a"), "'hf://owner/repo@revision'. Received: 'hf://a'"),
    ("no_hdf5", (*OK, "--weights", "text.weights.h5"), "expected an intact HDF5 weights file"),
    ("no_safetensors", (*OK, "--weights", "text.safetensors"), "expected an intact safetensors"),
    ("output", (*OK, "--output", "out.h5"), "expected a file named .weights.h5"),
    ("no_output_name", (*OK, "--output", ".weights.h5"), "expected a file named .weights.h5"),
    ("bucket", (*OK, "--output", "gs://b/out.weights.h5"), "expected a path of this machine"),
    ("output_is_there", (*OK, "--output", "text.weights.h5"), "expected an output that is not"),
    ("unknown_option", (*OK, "--outputs", "a"), "outputs"),
]


def tiny() -> keras.Model:
    inputs = keras.Input((8, 8, 3))
    return keras.Model(inputs, keras.layers.Activation("relu", name="c2")(inputs))


def refused(call, part):
    with pytest.raises(ValueError, match=r"\S") as caught:
        call()
    assert part in str(caught.value)
    assert "eceived: " in str(caught.value)
    assert str(caught.value).isprintable()  # so it is one line


@pytest.mark.parametrize(
    ("constructor", "arguments", "part"),
    [row[1:] for row in CONSTRUCTORS],
    ids=[row[0] for row in CONSTRUCTORS],
)
def test_constructors(constructor, arguments, part, monkeypatch):
    """Before the first layer."""
    if isinstance(arguments.get("input_tensor"), tuple):
        shape, keywords = arguments["input_tensor"]
        arguments = {"input_tensor": keras.Input(shape, **keywords)}
    built = lambda *_, **__: pytest.fail("the network came first")  # noqa: E731
    monkeypatch.setattr(keras.layers.Layer, "__call__", built)
    refused(lambda: constructor(**arguments), part)


@pytest.mark.parametrize(("call", "part"), [r[1:] for r in CALLS], ids=[row[0] for row in CALLS])
def test_calls(call, part):
    refused(call, part)


@pytest.mark.parametrize(
    ("arguments", "part"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS]
)
def test_convert(arguments, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("text.pth", "text.zip", "text.weights.h5", "text.safetensors"):
        (tmp_path / name).write_text("text")
    (tmp_path / "folder.pth").mkdir()
    before = sorted(tmp_path.iterdir())
    assert part in commands.fail(convert.main, monkeypatch, capsys, *arguments)
    assert sorted(tmp_path.iterdir()) == before
