"""From images to inputs, and from outputs to names."""

import hashlib
import json
import math
import sys

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

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


def expected(images):
    return (np.asarray(images, "float64") / 255 - MEAN) / STD


def pixels(dtype, shape=(2, 5, 4)):
    return np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(dtype)


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
    target = [int(shorter * side / min(height, width)) for side in (height, width)]
    # Pillow keeps 8 bits between the two directions.
    wide = np.einsum("xw,hwc->hxc", resize_rows(width, target[1], kernel), photo)
    wide = np.clip(np.round(wide), 0, 255)
    resized = np.einsum("yh,hxc->yxc", resize_rows(height, target[0], kernel), wide)
    top, left = (round((side - size) / 2.0) for side in target)
    return np.clip(resized, 0, 255)[top : top + size, left : left + size]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
def test_arrays(dtype):
    """One image, too; values are scaled and never clipped."""
    images = pixels(dtype)
    copy = images.copy()
    outputs = preprocess_input(images)
    assert (outputs.dtype, outputs.shape) == ("float32", images.shape)
    np.testing.assert_allclose(outputs, expected(images), atol=2e-6)
    np.testing.assert_array_equal(preprocess_input(images[0]), outputs[0])
    np.testing.assert_array_equal(images, copy)
    beyond = np.float32([[[-255.0, 0.0, 300.0]]])
    np.testing.assert_allclose(preprocess_input(beyond), expected(beyond), atol=2e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_tensors(dtype):
    images = pixels("uint8")
    if dtype == "bfloat16":
        images //= 2  # above 256, it has even numbers only
    tensor = ops.convert_to_tensor(images, dtype)
    inputs = keras.Input(images.shape[1:], dtype=dtype)
    model = keras.Model(inputs, preprocess_input(inputs))
    for outputs in (preprocess_input(tensor), model(tensor)):
        assert ops.is_tensor(outputs)
        assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
        np.testing.assert_allclose(ops.convert_to_numpy(outputs), expected(images), atol=2e-6)


@pytest.mark.needs("tensorflow")
def test_within_tf_data():
    """On every backend. TensorFlow does not know the shape of what it decodes."""
    import tensorflow as tf

    images = pixels("uint8")[0]
    (outputs,) = tf.data.Dataset.from_tensors(images).map(preprocess_input).as_numpy_iterator()
    assert outputs.dtype == "float32"
    np.testing.assert_allclose(outputs, expected(images), atol=2e-6)
    dataset = tf.data.Dataset.from_tensors(tf.io.encode_png(images))
    for decode in (tf.io.decode_image, tf.io.decode_png):
        (outputs,) = dataset.map(lambda file, decode=decode: preprocess_input(decode(file)))
        np.testing.assert_allclose(outputs, expected(images), atol=2e-6)


@pytest.mark.needs("PIL")
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
    photo = pixels("uint8", shape)
    got = Preprocessing(size, crop_fraction, interpolation)(photo)
    assert (got.shape, got.dtype) == ((size, size, 3), "float32")
    expected_image = resized_and_cropped(photo, size, crop_fraction, interpolation)
    # Where a half is rounded in between, Pillow's fixed-point weights decide.
    np.testing.assert_allclose(got, expected_image, rtol=0, atol=1.5)
    assert np.abs(got - expected_image).mean() < 0.3


@pytest.mark.needs("PIL")
def test_images_are_not_changed_and_may_be_pillow_images():
    from PIL import Image

    photo = pixels("uint8", (20, 31))
    copy, preprocessing = photo.copy(), Preprocessing(12, 0.9)
    image = preprocessing(photo)
    np.testing.assert_array_equal(photo, copy)
    np.testing.assert_array_equal(preprocessing(Image.fromarray(photo)), image)
    grey = preprocessing(Image.fromarray(photo[..., 0]))
    np.testing.assert_array_equal(grey, np.repeat(image[..., :1], 3, axis=-1))


@pytest.mark.needs("PIL")
def test_of_very_thin_images_only_the_middle_is_resized():
    photo = np.zeros((2, 40_000, 3), "uint8")
    photo[:, 19_999:20_001] = 255
    image = Preprocessing(300, 0.5)(photo)
    assert image.shape == (300, 300, 3)
    assert image.min() > 127


@pytest.mark.needs("PIL")
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


def test_missing_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        Preprocessing(8, 0.9)(np.zeros((9, 9, 3), "uint8"))


def test_preprocessing_of_published_weights():
    for row in ROWS:
        found = preprocessing_of(row.name, 320)
        published = row.published("imagenet")
        fraction = published.crop_fraction if published else None
        assert found == Preprocessing(320, fraction or 320 / 352, "bicubic", (*MEAN,), (*STD,))
        # Weights of a file are seen as the published ones of their network.
        assert preprocessing_of(row.name, 320, "mine.safetensors") == found
    assert preprocessing_of("lambda_resnet26t", 320, "mine.safetensors").crop_fraction == 0.94


@pytest.mark.needs("PIL")
@pytest.mark.parametrize("size", [32, 68, 83, 224])
def test_networks_of_the_paper_see_all_but_16_pixels_at_each_border(size):
    """Among the sizes are those that `size / crop_fraction` misses in floating point."""
    photo = pixels("uint8", (size + 32, size + 32))
    image = preprocessing_of("lambda_resnet50", size)(photo)
    np.testing.assert_array_equal(image, photo[16:-16, 16:-16])


def test_classes_are_those_of_keras():
    """`keras.applications` downloads a file with this hash, which it checks."""
    classes = imagenet_classes()
    as_in_keras = json.dumps({str(i): row for i, row in enumerate(classes)}).encode()
    digest = hashlib.md5(as_in_keras, usedforsecurity=False).hexdigest()
    assert digest == "c2c37ea517e94d9795004a39431a14cb"
    names = {0: "tench", 207: "golden_retriever", 285: "Egyptian_cat", 386: "African_elephant"}
    assert {index: classes[index][1] for index in names} == names
    assert classes[999] == ("n15075141", "toilet_tissue")


def test_decode_predictions_answers_as_keras_does(monkeypatch):
    from keras.src.applications import imagenet_utils

    table = {str(index): list(row) for index, row in enumerate(imagenet_classes())}
    monkeypatch.setattr(imagenet_utils, "CLASS_INDEX", table)
    scores = np.random.default_rng(0).random((3, 1000), "float32")
    for top in (1, 1000):
        assert decode_predictions(scores, top) == imagenet_utils.decode_predictions(scores, top)
    expected = imagenet_utils.decode_predictions(scores)
    assert decode_predictions(ops.convert_to_tensor(scores)) == expected


def test_equal_scores_keep_the_order_of_the_classes():
    scores = np.random.default_rng(0).integers(0, 2, (3, 1000)).astype("float32")
    names = [name for _, name in imagenet_classes()]
    for row, found in zip(scores, decode_predictions(scores, top=1000), strict=True):
        ordered = sorted(range(1000), key=lambda index: (-row[index], index))
        assert [name for _, name, _ in found] == [names[index] for index in ordered]


def test_padding_rounds_the_shorter_side_up():
    padded = Preprocessing(32, 1.0, resize="pad")
    assert [padded.resized(side, side, 1000) for side in (1, 31, 32, 1000)] == [1, 1, 2, 32]
