"""One compiled function answers as Keras does."""

import keras
import numpy as np
from support import backends, networks

from lambda_keras.applications import LambdaResNet14
from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.layers import LambdaLayer
from zoo.inference.classifier import Classifier


def compiled(model):
    return Classifier("mine", model, Preprocessing(16, 1), "abcde").infer


@backends.slow_elsewhere
def test_batches_of_every_size():
    model = LambdaResNet14(input_shape=(16, 16, 3), classes=5, filters=8, scope=7)
    networks.randomize(model)
    infer = compiled(model)
    for count in (1, 3):
        images = networks.images(count, 16, 16, 3)
        answers = infer(images)
        assert isinstance(answers, np.ndarray)
        np.testing.assert_allclose(answers, networks.predict(model, images), atol=1e-5)


def test_weights_are_those_of_the_first_moment():
    """The model may be trained on; what was compiled stays as it is."""
    model = keras.Sequential([keras.Input((4, 4, 2)), LambdaLayer(4, scope=3, num_heads=2)])
    model = keras.Model(model.inputs, model.outputs)
    images = networks.images(2, 4, 4, 2)
    infer = compiled(model)
    before = infer(images)
    model.set_weights([2 * weight for weight in model.get_weights()])
    np.testing.assert_array_equal(infer(images), before)
