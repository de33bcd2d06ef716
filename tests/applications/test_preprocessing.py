"""From images to inputs, and from outputs to names."""

import hashlib
import json
import math
import re
import sys
from importlib.util import find_spec

import keras
import numpy as np
import pytest
from keras import ops

from lambda_keras.applications import decode_predictions, preprocess_input
from lambda_keras.applications.preprocessing import (
    Preprocessing,
    imagenet_classes,
    preprocessing_of,
)
from lambda_keras.models.specs import ROWS
from lambda_keras.weights import find_published

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])

needs_pillow = pytest.mark.skipif(find_spec("PIL") is None, reason="the extra train has Pillow")


def expected(images):
    return (np.asarray(images, "float64") / 255 - MEAN) / STD


def pixels(dtype, low=0):
    return np.random.default_rng(0).integers(low, 256, (2, 5, 4, 3)).astype(dtype)


def cubic(x):
    """Keys' cubic convolution with a = -1/2, in two pieces."""
    x = np.abs(x)
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def triangle(x):
    return np.maximum(0, 1 - np.abs(x))


def resize_rows(length: int, target: int, kernel) -> np.ndarray:
    """Matrix that resizes `length` pixels to `target`, the kernel widened if that is fewer."""
    scale = length / target
    centres = (np.arange(target)[:, None] + 0.5) * scale
    weights = kernel((np.arange(length) + 0.5 - centres) / max(scale, 1))
    return weights / weights.sum(-1, keepdims=True)


def resized_and_cropped(photo, size, crop_fraction, interpolation):
    """timm's evaluation by its definition: resize the shorter side, crop the centre."""
    kernel = {"bilinear": triangle, "bicubic": cubic}[interpolation]
    height, width = photo.shape[:2]
    shorter = math.floor(size / crop_fraction)
    if height < width:
        target = shorter, int(shorter * width / height)
    else:
        target = int(shorter * height / width), shorter
    # Pillow keeps 8 bits between the two directions.
    wide = np.einsum("xw,hwc->hxc", resize_rows(width, target[1], kernel), photo)
    wide = np.clip(np.round(wide), 0, 255)
    resized = np.einsum("yh,hxc->yxc", resize_rows(height, target[0], kernel), wide)
    top, left = (round((side - size) / 2.0) for side in target)
    return np.clip(resized, 0, 255)[top : top + size, left : left + size]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
def test_arrays(dtype):
    images = pixels(dtype)
    copy = images.copy()
    outputs = preprocess_input(images)
    assert (outputs.dtype, outputs.shape) == ("float32", images.shape)
    np.testing.assert_allclose(outputs, expected(images), atol=2e-6)
    np.testing.assert_array_equal(images, copy)


def test_one_image():
    images = pixels("uint8")
    np.testing.assert_array_equal(preprocess_input(images[0]), preprocess_input(images)[0])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16", "float32"])
def test_tensors(dtype):
    images = pixels("uint8")
    if dtype == "bfloat16":
        images //= 2  # above 256, it has even numbers only
    outputs = preprocess_input(ops.convert_to_tensor(images, dtype))
    assert ops.is_tensor(outputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(outputs), expected(images), atol=2e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_keras_tensor(dtype):
    inputs = keras.Input((4, 4, 3), dtype=dtype)
    model = keras.Model(inputs, preprocess_input(inputs))
    images = pixels(dtype)[:, :4]
    np.testing.assert_allclose(model.predict(images, verbose=0), expected(images), atol=2e-6)


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="tf.data is TensorFlow's")
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_within_tf_data(dtype):
    """On every backend; JAX's environment has TensorFlow, too."""
    import tensorflow as tf

    images = pixels(dtype)
    dataset = tf.data.Dataset.from_tensors(images)
    (outputs,) = dataset.map(preprocess_input).as_numpy_iterator()
    assert outputs.dtype == "float32"
    np.testing.assert_allclose(outputs, expected(images), atol=2e-6)


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="tf.data is TensorFlow's")
def test_files_within_tf_data():
    """TensorFlow does not know the shape of what it decodes."""
    import tensorflow as tf

    images = pixels("uint8")[0]
    dataset = tf.data.Dataset.from_tensors(tf.io.encode_png(images))
    for decode in (tf.io.decode_image, tf.io.decode_png):
        (outputs,) = dataset.map(lambda file, decode=decode: preprocess_input(decode(file)))
        np.testing.assert_allclose(outputs, expected(images), atol=2e-6)


@pytest.mark.parametrize("value", [-255.0, -1.0, 0.0, 255.0, 300.0])
def test_values_are_scaled_and_never_clipped(value):
    outputs = preprocess_input(np.full((1, 1, 3), value, "float32"))
    np.testing.assert_allclose(outputs, expected(np.full((1, 1, 3), value)), atol=2e-6)


def test_bounds():
    black = preprocess_input(np.zeros((1, 1, 3), "uint8"))
    white = preprocess_input(np.full((1, 1, 3), 255, "uint8"))
    np.testing.assert_allclose(black[0, 0], -MEAN / STD, atol=2e-6)
    np.testing.assert_allclose(white[0, 0], (1 - MEAN) / STD, atol=2e-6)


@needs_pillow
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("shape", "size", "crop_fraction"),
    [
        ((20, 31), 12, 0.875),
        ((31, 20), 13, 0.94),
        ((45, 46), 32, 1.0),
        ((3, 150), 16, 0.8),  # wide
        ((150, 3), 15, 0.5),  # tall
        ((1, 1), 8, 0.95),
        ((2, 3), 9, 9 / 41),
    ],
)
def test_images(shape, size, crop_fraction, interpolation):
    photo = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype("uint8")
    got = Preprocessing(size, crop_fraction, interpolation)(photo)
    assert (got.shape, got.dtype) == ((size, size, 3), "float32")
    expected_image = resized_and_cropped(photo, size, crop_fraction, interpolation)
    # Where a half is rounded in between, Pillow's fixed-point weights decide.
    np.testing.assert_allclose(got, expected_image, rtol=0, atol=1.5)
    assert np.abs(got - expected_image).mean() < 0.3


@needs_pillow
def test_images_are_not_changed_and_may_be_pillow_images():
    from PIL import Image

    photo = np.random.default_rng(0).integers(0, 256, (20, 31, 3)).astype("uint8")
    copy, preprocessing = photo.copy(), Preprocessing(12, 0.9)
    image = preprocessing(photo)
    np.testing.assert_array_equal(photo, copy)
    np.testing.assert_array_equal(preprocessing(Image.fromarray(photo)), image)
    grey = preprocessing(Image.fromarray(photo[..., 0]))
    np.testing.assert_array_equal(grey, np.repeat(image[..., :1], 3, axis=-1))


@needs_pillow
def test_of_very_thin_images_only_the_middle_is_resized():
    photo = np.zeros((2, 40_000, 3), "uint8")
    photo[:, 19_999:20_001] = 255
    image = Preprocessing(300, 0.5)(photo)
    assert image.shape == (300, 300, 3)
    assert image.min() > 127


@needs_pillow
@pytest.mark.parametrize(
    ("resize", "rows"),
    [("crop", [[50, 50], [50, 50]]), ("pad", [[0, 0], [10, 90]]), ("squash", [[10, 90], [10, 90]])],
)
@pytest.mark.parametrize("turn", [0, 1])
def test_of_a_wide_image(resize, rows, turn):
    """From left to right 10, 50, 50 and 90; pad puts it between two black rows."""
    photo = np.repeat(np.uint8([10, 10, 50, 50, 50, 50, 90, 90]), 12).reshape(1, 8, 4, 3)
    photo = np.ascontiguousarray(np.repeat(photo.reshape(1, 32, 3), 16, 0))
    got = Preprocessing(16, 1.0, resize=resize)(np.rot90(photo, turn))
    got = np.rot90(got, -turn)[..., 0]
    edges = got[[1, 8]][:, [1, 14]]
    np.testing.assert_allclose(edges, rows, atol=1)


@needs_pillow
@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_pillow_images_of_more_than_8_bits_are_refused(mode):
    from PIL import Image

    with pytest.raises(ValueError, match="expected an image of 8 bits per channel"):
        Preprocessing(8, 0.9)(Image.new(mode, (9, 9)))


@needs_pillow
@pytest.mark.parametrize(
    "photo",
    [
        "cat.jpg",
        [[[0, 0, 0]]],
        np.zeros((4, 4, 3), "float32"),
        np.zeros((4, 4), "uint8"),
        np.zeros((4, 4, 4), "uint8"),
        np.zeros((1, 4, 4, 3), "uint8"),
        np.zeros((0, 4, 3), "uint8"),
    ],
    ids=lambda photo: f"{type(photo).__name__}{getattr(photo, 'shape', '')}",
)
def test_what_is_no_image(photo):
    with pytest.raises(ValueError, match=r"expected an? .*Received: "):
        Preprocessing(8, 0.9)(photo)


def test_missing_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        Preprocessing(8, 0.9)(np.zeros((9, 9, 3), "uint8"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.9), "image_size to be a positive integer. Received: image_size=0"),
        ((True, 0.9), "image_size to be a positive integer. Received: image_size=True"),
        ((8.0, 0.9), "image_size to be a positive integer. Received: image_size=8.0"),
        ((8, 0), "crop_fraction above 0, up to 1. Received: crop_fraction=0"),
        ((8, 1.1), "crop_fraction above 0, up to 1. Received: crop_fraction=1.1"),
        ((8, float("nan")), "crop_fraction above 0, up to 1. Received: crop_fraction=nan"),
        ((8, "0.9"), "crop_fraction above 0, up to 1. Received: crop_fraction='0.9'"),
        ((8, 1, "bicubic", (0.5, 0.5)), "mean to be three numbers, those of std above 0. Received"),
        ((8, 1, "bicubic", (0, 0, 0), (1, 0, 1)), "Received: std=(1, 0, 1)"),
        ((8, 1, "bicubic", (0, 0, 0), (1, 1, 1), "fit"), "crop, pad, squash. Received: resize="),
        ((8, 0.9, "cubic"), "nearest, bilinear, bicubic, lanczos. Received: interpolation='cubic'"),
    ],
)
def test_bad_preprocessing(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Preprocessing(*arguments)


@pytest.mark.parametrize("architecture", [row.name for row in ROWS if row.weights])
def test_preprocessing_of_published_weights(architecture):
    published = find_published(architecture)
    assert preprocessing_of(architecture, 320) == Preprocessing(
        image_size=320,
        crop_fraction=published.crop_fraction or 320 / 352,
        interpolation="bicubic",
        mean=tuple(MEAN),
        std=tuple(STD),
    )


@needs_pillow
@pytest.mark.parametrize("size", [32, 68, 83, 160, 224, 256, 462])
def test_networks_of_the_paper_see_all_but_16_pixels_at_each_border(size):
    """Among the sizes are those that `size / crop_fraction` misses in floating point."""
    photo = np.random.default_rng(0).integers(0, 256, (size + 32, size + 32, 3)).astype("uint8")
    image = preprocessing_of("lambda_resnet50", size)(photo)
    np.testing.assert_array_equal(image, photo[16:-16, 16:-16])


@pytest.mark.parametrize("size", [0, -32, None, 224.0, True])
def test_preprocessing_of_a_bad_size(size):
    with pytest.raises(ValueError, match=r"image_size to be a positive integer\. Received: "):
        preprocessing_of("lambda_resnet50", size)


def test_classes_are_those_of_keras():
    """`keras.applications` downloads a file with this hash, which it checks."""
    classes = imagenet_classes()
    as_in_keras = json.dumps({str(i): row for i, row in enumerate(classes)}).encode()
    digest = hashlib.md5(as_in_keras, usedforsecurity=False).hexdigest()
    assert digest == "c2c37ea517e94d9795004a39431a14cb"
    names = {0: "tench", 207: "golden_retriever", 285: "Egyptian_cat", 386: "African_elephant"}
    assert {index: classes[index][1] for index in names} == names
    assert classes[999] == ("n15075141", "toilet_tissue")


@pytest.mark.parametrize("dtype", ["float32", "float16", "tensor"])
def test_decode_predictions(dtype):
    scores = np.zeros((2, 1000), "float32")
    scores[0, [285, 0]] = 0.75, 0.25
    scores[1, 999] = 1
    tensor = ops.convert_to_tensor(scores) if dtype == "tensor" else scores.astype(dtype)
    assert decode_predictions(tensor, top=2) == [
        [("n02124075", "Egyptian_cat", 0.75), ("n01440764", "tench", 0.25)],
        [("n15075141", "toilet_tissue", 1.0), ("n01440764", "tench", 0.0)],
    ]


def test_decode_predictions_answers_as_keras_does(monkeypatch):
    from keras.src.applications import imagenet_utils

    table = {str(index): list(row) for index, row in enumerate(imagenet_classes())}
    monkeypatch.setattr(imagenet_utils, "CLASS_INDEX", table)
    scores = np.random.default_rng(0).random((3, 1000), "float32")
    for top in (1, 5, 1000):
        assert decode_predictions(scores, top) == imagenet_utils.decode_predictions(scores, top)
    assert decode_predictions(scores) == imagenet_utils.decode_predictions(scores)
