"""From images to the inputs of a network, and from its outputs to names."""

import numpy as np
from keras import ops
from keras.applications import imagenet_utils

# Channel statistics of ImageNet on the scale [0, 1].
MEAN = np.array([0.485, 0.456, 0.406], "float32")
STD = np.array([0.229, 0.224, 0.225], "float32")

decode_predictions = imagenet_utils.decode_predictions


def preprocess_input(images):
    """Normalises images by the channel means and deviations of ImageNet.

    It runs on arrays and on tensors of any backend, within `tf.data` too.

    Args:
        images: float array or tensor of shape `(..., 3)`, RGB, values in `[0, 255]`; NumPy arrays
            may have any dtype.

    Returns:
        `(images / 255 - mean) / std`, of the shape of `images`.
    """
    offset, scale = 255 * MEAN, 1 / (255 * STD)
    if isinstance(images, np.ndarray):
        images = images.astype("float32")
    elif ops.is_tensor(images):
        offset, scale = ops.convert_to_tensor(offset), ops.convert_to_tensor(scale)
    return (images - offset) * scale
