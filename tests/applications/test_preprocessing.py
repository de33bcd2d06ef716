"""From images to inputs, and from outputs to names."""

import keras
import numpy as np
import pytest
from keras import ops

from lambda_keras.applications import decode_predictions, preprocess_input

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


def expected(images):
    return (np.asarray(images, "float64") / 255 - MEAN) / STD


def pixels(dtype, low=0):
    return np.random.default_rng(0).integers(low, 256, (2, 5, 4, 3)).astype(dtype)


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


def test_tensors():
    images = pixels("float32")
    outputs = preprocess_input(ops.convert_to_tensor(images))
    assert ops.is_tensor(outputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(outputs), expected(images), atol=2e-6)


def test_keras_tensor():
    inputs = keras.Input((4, 4, 3))
    model = keras.Model(inputs, preprocess_input(inputs))
    images = pixels("float32")[:, :4]
    np.testing.assert_allclose(model.predict(images, verbose=0), expected(images), atol=2e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data is TensorFlow's")
def test_within_tf_data():
    import tensorflow as tf

    images = pixels("float32")
    (outputs,) = tf.data.Dataset.from_tensors(images).map(preprocess_input).as_numpy_iterator()
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


def test_decode_predictions(monkeypatch):
    """The names are those of Keras; the file that it would download stands here in small."""
    names = {str(index): [f"n{index:08}", f"name {index}"] for index in range(1000)}
    monkeypatch.setattr("keras.src.applications.imagenet_utils.CLASS_INDEX", names)
    scores = np.zeros((1, 1000), "float32")
    scores[0, 7], scores[0, 3] = 0.75, 0.25
    (top,) = decode_predictions(scores, top=2)
    assert top == [("n00000007", "name 7", 0.75), ("n00000003", "name 3", 0.25)]
