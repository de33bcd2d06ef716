"""Wrong arguments of what lambda_keras.applications has."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from support import networks

from lambda_keras.applications import (
    BoTNet26T256,
    HaloNet26T,
    LambdaMobileNetV2,
    LambdaResNet14,
    LambdaResNet26T,
    LambdaResNet50,
    MobileNetV2,
    ResNet50,
    ResNetRS50,
    decode_predictions,
    feature_extractor,
    fold_batch_normalization,
    preprocess_input,
)
from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from lambda_keras.weights import find_published, load_weights, save_safetensors
from zoo.registry import create_model

NAN, INFINITY = float("nan"), float("inf")
SHAPE = "expected input_shape (height, width, channels) of positive integers"
SHAPES = [(0, 32, 3), (32, 32, 0), (32, 32, None), (32.5, 32, 3), (32, 32, True), (32, 32), 32, "a"]
STAGES = ", one for each of the stages ('c2', 'c3', 'c4', 'c5'). Received: "
OF_SMALL = ([1, 2], (0, 0, 0, 0), (1, 1, -1, 1), (1, 1, 0.5, 1), 4)
IMAGENET = {"weights": "imagenet"}
OF_THESE = " with weights='imagenet', which are of these. Received: "
OF_TENSOR = "expected input_tensor of floats, as preprocess_input returns them. Received: dtype="
# What the message has beside the values of the arguments: `name=value`.
CONSTRUCTORS = [
    *((LambdaResNet14, {"input_shape": shape}, SHAPE) for shape in SHAPES),
    (LambdaResNet14, {"input_shape": (None, 7, 3)}, "at least 8 pixels, the stride of the last"),
    (LambdaResNet50, {"input_shape": (31, 64, 3)}, "at least 32 pixels"),
    (MobileNetV2, {"input_shape": (64, 31, 3)}, "at least 32 pixels"),
    (LambdaResNet14, {"input_tensor": "images"}, "Received: input_tensor=<class 'str'>"),
    (LambdaResNet14, {"input_tensor": keras.Input((8, 4, 3))}, "input_shape=(8, 4, 3)"),
    (LambdaResNet14, {"input_tensor": keras.Input((8, 8, 3), dtype="uint8")}, OF_TENSOR),
    (LambdaResNet14, {"include_top": "no"}, "True or False"),
    (LambdaResNet14, {"adapt_weights": None}, "True or False"),
    (LambdaResNet14, {"pooling": "mean"}, "pooling to be one of None, avg, max."),
    *((LambdaResNet14, {"classes": value}, "positive integer") for value in (0, 3.0, True, "10")),
    (LambdaResNet14, {"classifier_activation": "sofmax"}, "classifier_activation to be None"),
    *((LambdaResNet14, {"name": value}, "a name without") for value in ("", "a/b", 5, "a\0b")),
    *(
        (LambdaResNet14, {name: np.zeros((2, 2))}, f"{name}=array([[0., 0.], [0., 0.]])")
        for name in ("pooling", "stem", "mixer", "placement", "blocks", "filters", "classes")
    ),
    (LambdaResNet14, {"classifier_activation": np.zeros((2, 2))}, "=array([[0., 0.], [0., 0.]])"),
    *((LambdaResNet14, {"dropout_rate": value}, "below 1") for value in (1, NAN, "0.1", None)),
    (LambdaResNet14, {"stochastic_depth_rate": -0.1}, "a number from 0 to 1"),
    (MobileNetV2, {"batch_norm_momentum": 1}, "a number from 0 to 1"),
    *((MobileNetV2, {"alpha": value}, "positive number") for value in (0, NAN, INFINITY, True)),
    (LambdaMobileNetV2, {"expand_lambda": "no"}, "True or False"),
    (ResNet50, {"padding": "valid"}, "same, fixed, symmetric"),
    (ResNet50, {"stem": "v2"}, "stem"),
    *((ResNet50, {"placement": value}, "four letters C") for value in ("CCLX", "CCL", 5)),
    (LambdaResNet50, {"placement": list("CCLL")}, "four letters C"),
    *(
        (LambdaResNet14, {"blocks": value}, "four integers, one for each of the stages")
        for value in OF_SMALL
    ),
    *(
        (constructor, {"blocks": value}, f"four positive integers{STAGES}blocks={value!r}")
        for constructor in (LambdaResNet50, ResNet50, BoTNet26T256)
        for value in ((3, 4, 0, 3), (3, 4, 6), 5, "3463", (3, 4, 6.0, 3), (3, 4, True, 3), None, ())
    ),
    (LambdaResNet26T, {"blocks": [2, 2, 3, 2], **IMAGENET}, f"blocks=(2, 2, 2, 2){OF_THESE}bl"),
    *((LambdaResNet14, {"filters": value}, "positive integer") for value in (0, 8.5)),
    (LambdaResNet50, {"num_heads": 3}, "Received: filters=256, num_heads=3"),
    (LambdaMobileNetV2, {"num_heads": 3}, "Received: filters=64, num_heads=3"),
    (LambdaResNet50, {"key_dim": "16"}, "Received: key_dim='16'"),
    (LambdaMobileNetV2, {"intra_depth": 0}, "Received: intra_depth=0"),
    (LambdaResNet50, {"multi_query": "no"}, "True or False"),
    (LambdaResNet50, {"scope": 8}, "odd"),
    (LambdaResNet50, {"scope": [8, 7, 7, 7]}, "Received: scope=8"),
    (LambdaResNet50, {"scope": (7, 7, 7)}, "one for each of the stages ('c2', "),
    (LambdaResNet50, {"scope": None}, "because scope=None"),
    (LambdaResNet50, {"position_embedding": "shared", "scope": [7] * 4}, "one table"),
    (LambdaResNet50, {"position_embedding": ["relation", None, None, None]}, "another"),
    (LambdaResNet50, {"key_normalization": "batch"}, "Received: key_normalization='batch'"),
    (LambdaResNet50, {"implementation": "fourier"}, "a grid of unknown size"),
    (ResNet50, {"mixer": "dilated"}, "favor, relu."),
    (ResNet50, {"mixer": None}, "mixer to be one of lambda, content"),
    (ResNet50, {"scope": 8}, "Received: scope=8"),  # though no layer has it
    (BoTNet26T256, {"scope": 7}, "key_dim, multi_query, output_projection"),
    (ResNet50, {"mixer": "content", "scope": 7}, "Received: scope=7"),
    (ResNet50, {"mixer": "halo", "block_size": 0}, "block_size=0"),
    (HaloNet26T, {"block_size": 7}, "Received: block_size=7, strides=2"),
    (ResNet50, {"mixer": "favor", "seed": -1}, "Received: seed=-1"),
    (ResNet50, {"double_attention": 1}, "True or False. Received: double_attention=1"),
    *(
        (ResNet50, {"squeeze_excitation": value}, "True or False, or one of them for each")
        for value in (1, None, [True] * 3, "1111")
    ),
    (ResNetRS50, {"squeeze_excitation": False, **IMAGENET}, f"{OF_THESE}squeeze_excitation=False"),
    (LambdaResNet14, {"mixer": "axial", "input_shape": (16, None, 3)}, "offset of a map"),
    (LambdaResNet14, {"mixer": "augmented"}, "for AugmentedConvolution"),
    (BoTNet26T256, {"input_shape": (None, None, 3)}, "known height and width for GlobalAttention"),
]

PIXELS = np.zeros((2, 4, 4, 3), "uint8")
SCORES = np.zeros((2, 1000), "float32")
IMAGES = "expected images of shape (..., 3), RGB. Received: shape="
TYPES = "of integers or floats. Received: dtype="
SIZE = "expected image_size to be a positive integer. Received: image_size="
PART = "expected crop_fraction above 0, up to 1. Received: crop_fraction="
PHOTO = "expected a Pillow image or a uint8 array of shape (height, width, 3). Received: "
EXAMPLE = ", such as 'mixed_bfloat16'. Received: dtype="
NAME, FILE, BUILT = "lambda_resnet14", Path("x.safetensors"), "expected a built keras.Model."
CALLS = [
    (lambda: preprocess_input(PIXELS[..., :1]), f"{IMAGES}(2, 4, 4, 1)"),
    (lambda: preprocess_input(np.zeros((4, 4, 4))), f"{IMAGES}(4, 4, 4)"),
    (lambda: preprocess_input(5), f"{IMAGES}()"),
    (lambda: preprocess_input(keras.ops.zeros((4, 4, 1), "uint8")), f"{IMAGES}(4, 4, 1)"),
    (lambda: preprocess_input(keras.Input((4, 4, 1))), f"{IMAGES}(None, 4, 4, 1)"),
    (lambda: preprocess_input("cat.jpg"), f"{TYPES}str"),
    (lambda: preprocess_input(PIXELS > 1), f"{TYPES}bool"),
    (lambda: preprocess_input([PIXELS[0], PIXELS[0, :3]]), "Received: a <class 'list'>"),
    (lambda: decode_predictions(SCORES[0]), "(images, 1000). Received: shape=(1000,)"),
    (lambda: decode_predictions(SCORES[:, 1:]), "Received: shape=(2, 999)"),
    (lambda: decode_predictions(SCORES[None]), "Received: shape=(1, 2, 1000)"),
    (lambda: decode_predictions(SCORES, 1, "digits"), "fashion_mnist. Received: weights='digits'"),
    (lambda: decode_predictions(SCORES, 1, "fashion_mnist"), "of shape (images, 10)"),
    (lambda: decode_predictions(SCORES * NAN), "that are numbers. Received: predictions=nan"),
    (lambda: decode_predictions(SCORES.astype("str")), f"{TYPES}str"),
    *(
        (lambda top=top: decode_predictions(SCORES, top), f"integer. Received: top={top!r}")
        for top in (0, 2.5, True, None)
    ),
    *((lambda size=size: Preprocessing(size, 0.9), f"{SIZE}{size}") for size in (0, True, 8.0)),
    *((lambda part=part: Preprocessing(8, part), PART) for part in (0, 1.1, NAN, "0.9")),
    (lambda: Preprocessing(8, 0.9, "cubic"), "bicubic, lanczos. Received: interpolation='cubic'"),
    (lambda: Preprocessing(8, 0.9, resize="fit"), "crop, pad, squash. Received: resize='fit'"),
    (lambda: Preprocessing(8, 0.9, mean=(0.5, 0.5)), "Received: mean=(0.5, 0.5)"),
    (lambda: Preprocessing(8, 0.9, std=(1, 0, 1)), "above 0. Received: std=(1, 0, 1)"),
    (lambda: preprocessing_of("lambda_resnet50", "224"), f"{SIZE}'224'"),
    *(
        (lambda name=name: preprocessing_of(name, 224), "expected the name of a network")
        for name in (None, "lambda_resnt50", ["lambda_resnet50"])
    ),
    (lambda: Preprocessing(8, 0.9, np.zeros((2, 2))), "Received: interpolation=array("),
    *(
        (lambda photo=photo: Preprocessing(8, 0.9)(photo), PHOTO)
        for photo in ("cat.jpg", [[[0, 0, 0]]], PIXELS[0].astype("float32"), PIXELS[0, :, :, 0])
    ),
    (lambda: Preprocessing(8, 0.9)(PIXELS[:1]), f"{PHOTO}uint8 array of shape (1, 4, 4, 3)"),
    (lambda: Preprocessing(8, 0.9)(np.zeros((4, 4, 4), "uint8")), f"{PHOTO}uint8 array"),
    (lambda: Preprocessing(8, 0.9)(PIXELS[0, :0]), "expected an image with pixels. Received: "),
    *(
        (lambda mode=mode: Preprocessing(8, 0.9)(Image.new(mode, (9, 9))), "an image of 8 bits per")
        for mode in ("I", "F", "I;16")
    ),
    *(
        (lambda dtype=dtype: fold_batch_normalization(tiny(), dtype), f"floats{EXAMPLE}{dtype!r}")
        for dtype in ("x", "", 5, True, [], "int8", "int32", "bool", "int8_from_float32")
    ),
    *(
        (lambda names=names: find_published(*names), "expected the names of a network and of")
        for names in ([None], [["lambda_resnet26t"]], [NAN], ["lambda_resnet26t", None])
    ),
    (lambda: find_published(NAME), f"of {NAME!r}; it has fashion_mnist"),
    (lambda: find_published("resnet50_llll_pytorch"), "; d-li14/lambda.pytorch links a checkpoint"),
    (lambda: find_published("resnet50", "fashion_mnist"), f"of fashion_mnist: {NAME}. Received: "),
    (lambda: find_published(NAME, "fashion_mnist-x"), "to be one of fashion_mnist. Received: "),
    *(
        (lambda model=model: load_weights(model, "x.safetensors", NAME), BUILT)
        for model in (None, "lambda_resnet14", keras.Sequential([]))
    ),
    (lambda: load_weights(tiny(), "imagenet", ["lambda_resnet26t"]), "the names of a network"),
    *((lambda model=model: save_safetensors(model, FILE), BUILT) for model in (None, 5)),
    *(
        (lambda path=path: save_safetensors(tiny(), path), "expected the path of a .safetensors")
        for path in (None, 5, "x.h5", "", Path("x"))
    ),
    *(
        (lambda model=model: feature_extractor(model), "expected a functional keras.Model.")
        for model in (None, keras.Sequential([]))
    ),
    *(
        (lambda names=names: feature_extractor(tiny(), names), f"Received: endpoints={names}")
        for names in ([], ["c2", "C5"], 5, [["c2"]])
    ),
    (lambda: create_model("resnet50", mixer_arguments=[7]), "its entries, such as scope=7"),
]


def tiny() -> keras.Model:
    inputs = keras.Input((8, 8, 3))
    return keras.Model(inputs, keras.layers.Activation("relu", name="c2")(inputs))


def refused(call, part):
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        call()
    assert "eceived: " in str(caught.value)
    assert str(caught.value).isprintable()  # so it is one line


@pytest.mark.parametrize(("constructor", "arguments", "part"), CONSTRUCTORS)
@networks.unbuilt()
def test_constructors(constructor, arguments, part):
    """Before the first layer."""
    refused(lambda: constructor(**arguments), part)


@pytest.mark.parametrize(("call", "part"), CALLS)
def test_calls(call, part):
    refused(call, part)
