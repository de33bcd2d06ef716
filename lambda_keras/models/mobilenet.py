"""MobileNetV2 (Sandler et al., CVPR 2018) with lambda layers: `MobileNetSpec` -> Keras model."""

import math
from bisect import bisect_left

import keras
import numpy as np
from keras import layers

from lambda_keras.layers.arguments import check_bools, check_number
from lambda_keras.models.mixers import MixerFactory
from lambda_keras.models.resnet import batch_norm, conv, head
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD, MobileNetSpec

# Table 2 of MobileNetV2: expansion, channels, number of blocks, stride of the first.
GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
BLOCKS = [
    (expansion, channels, strides if block == 0 else 1)
    for expansion, channels, blocks, strides in GROUPS
    for block in range(blocks)
]
STEM, LAST = 32, 1280  # Channels.
# The last blocks of strides 4, 8, 16 and 32.
ENDPOINTS = {3: "c2", 6: "c3", 13: "c4", 17: "c5"}


def build_mobilenet(spec: MobileNetSpec, inputs: keras.KerasTensor, **top) -> keras.Model:
    """Builds the network of a spec on an input tensor; other arguments go to `head`.

    The last blocks at strides 4, 8, 16 and 32 are `"c2"` to `"c5"`. A model without classifier
    ends with the 1280 channels that the classifier sees.
    """
    check_bools(expand_lambda=spec.expand_lambda)
    check_number(lambda x: 0 < x < math.inf, "a positive number", alpha=spec.alpha)
    widths = [_width(channels, spec.alpha) for _, channels, _ in BLOCKS]
    places = [(_stage(number), widths[number - 2], 1) for number in spec.lambda_blocks]
    lambda_layers = MixerFactory(spec, places, inputs)
    x = inputs
    if inputs.shape[-1] == 3:
        # The authors' network takes [-1, 1], not outputs of `preprocess_input`, and pads with 0.
        scale, offset = 2 * np.array(IMAGENET_STD), 2 * np.array(IMAGENET_MEAN) - 1
        x = layers.Rescaling(scale.tolist(), offset.tolist(), name="input_rescaling")(x)
    x = _conv_bn(x, spec, _width(STEM, spec.alpha), 3, strides=2, name="stem")
    for number, (expansion, _, strides) in enumerate(BLOCKS, start=1):
        x = _inverted_bottleneck(
            x, spec, number, expansion, widths[number - 1], strides, lambda_layers
        )
    # Narrow networks keep the width of the last features.
    x = _conv_bn(x, spec, _width(LAST, max(spec.alpha, 1.0)), 1, name="last")
    return head(spec, inputs, x, **top)


def _stage(block: int) -> int:
    """Number of the stage of a block, which ends at the next endpoint."""
    return bisect_left(list(ENDPOINTS), block)


def _width(channels: int, alpha: float) -> int:
    """Channels times alpha, rounded to a multiple of 8, by no more than 10 % downwards."""
    scaled = channels * alpha
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * scaled else rounded


def _inverted_bottleneck(
    x, spec: MobileNetSpec, number, expansion, filters, strides, lambda_layers: MixerFactory
):
    """Inverted bottleneck: pointwise, depthwise or lambda layer, linear pointwise."""
    name, inputs = f"block{number}", x
    depth = x.shape[-1]
    if number in spec.lambda_blocks:
        # Lightweight (D.3.2): the first pointwise convolution keeps the number of channels.
        if spec.expand_lambda:
            x = _conv_bn(x, spec, depth, 1, name=f"{name}_expand")
        x = lambda_layers(x, depth, _stage(number), strides=strides, name=f"{name}_lambda")
    else:
        if expansion > 1:
            x = _conv_bn(x, spec, expansion * depth, 1, name=f"{name}_expand")
        x = layers.DepthwiseConv2D(
            3,
            strides=strides,
            padding="same",
            use_bias=False,
            depthwise_initializer="he_normal",
            name=f"{name}_depthwise",
        )(x)
    x = _activation(batch_norm(x, spec, f"{name}_middle_bn"), f"{name}_middle")
    name_of_output = ENDPOINTS.get(number, f"{name}_out")
    residual = strides == 1 and depth == filters
    x = conv(x, filters, 1, 1, f"{name}_project_conv")
    x = batch_norm(x, spec, f"{name}_project_bn" if residual else name_of_output)
    return layers.Add(name=name_of_output)([inputs, x]) if residual else x


def _conv_bn(x, spec, filters, kernel_size, strides=1, name=""):
    x = conv(x, filters, kernel_size, strides, f"{name}_conv")
    return _activation(batch_norm(x, spec, f"{name}_bn"), name)


def _activation(x, name):
    return layers.Activation("relu6", name=f"{name}_relu6")(x)
