"""Residual networks with lambda or attention layers: `ResNetSpec` -> functional Keras model."""

import keras
from keras import layers

from lambda_keras.layers import (
    BatchNormalization,
    DoubleAttention,
    LambdaLayer,
    SqueezeExcitation,
    StochasticDepth,
)
from lambda_keras.layers.arguments import check_choices
from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from lambda_keras.models.mixers import MixerFactory
from lambda_keras.models.specs import STAGES, MobileNetSpec, ResNetSpec

# Convolutions of the stems: width relative to c2, kernel size, strides.
STEMS = {
    "v1": ((1, 7, 2),),
    "tiered": ((3 / 8, 3, 2), (1 / 2, 3, 1), (1, 3, 1)),
    "rs": ((1 / 2, 3, 2), (1 / 2, 3, 1), (1, 3, 1), (1, 3, 2)),
    "small": ((1, 3, 1),),
}


def build_resnet(spec: ResNetSpec, inputs: keras.KerasTensor, **top) -> keras.Model:
    """Builds the network of a spec on an input tensor; other arguments go to `head`.

    The last activations of the stages are layers named `"c2"`, `"c3"`, `"c4"` and `"c5"`: features
    at strides 4, 8, 16 and 32 (1, 2, 4 and 8 with the small stem).
    """
    check_choices(("same", "fixed", "symmetric"), padding=spec.padding)
    check_choices(STEMS, stem=spec.stem)
    places = [
        (stage, spec.filters * 2**stage, 2 if stage and 1 in blocks else 1)
        for stage, blocks in enumerate(spec.mixer_blocks)
        if blocks
    ]
    mixers = MixerFactory(spec, places, inputs) if spec.mixer else None
    x = _stem(inputs, spec)
    for number in range(len(STAGES)):
        for block in range(1, spec.blocks[number] + 1):
            x = _bottleneck(x, spec, number, block, mixers)
    return head(spec, inputs, x, **top)


def head(
    spec: ResNetSpec | MobileNetSpec,
    inputs: keras.KerasTensor,
    x,
    include_top: bool = True,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation=None,
    name: str | None = None,
) -> keras.Model:
    """Adds pooling and classifier to a feature map; constructors have the same arguments."""
    if include_top or pooling == "avg":
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
    elif pooling == "max":
        x = layers.GlobalMaxPooling2D(name="max_pool")(x)
    if include_top:
        x = layers.Dropout(spec.dropout_rate, name="dropout")(x)
        # In float32, probabilities and the loss are exact enough under mixed precision.
        x = layers.Dense(
            int(classes), activation=classifier_activation, dtype="float32", name="predictions"
        )(x)
    # A single input must not be a list: Keras would warn at every call on an array.
    sources = keras.utils.get_source_inputs(inputs)
    return keras.Model(sources[0] if len(sources) == 1 else sources, x, name=name)


def _stem(x, spec):
    convolutions = STEMS[spec.stem]
    for number, (width, kernel_size, strides) in enumerate(convolutions, start=1):
        name = "stem" if len(convolutions) == 1 else f"stem{number}"
        x = _conv_bn(x, spec, int(width * spec.filters), kernel_size, strides, name)
    if spec.stem not in ("v1", "tiered"):
        return x
    if spec.padding == "symmetric":
        return SymmetricMaxPooling2D(3, 2, name="stem_pool")(x)
    return layers.MaxPooling2D(3, strides=2, padding="same", name="stem_pool")(x)


def _bottleneck(x, spec: ResNetSpec, number: int, block: int, mixers):
    """1x1, 3x3 or mixer, 1x1; the stride is in the middle (ResNet v1, E.1)."""
    name = f"{STAGES[number]}_block{block}"
    filters = spec.filters * 2**number
    strides = 2 if block == 1 and number > 0 else 1
    has_mixer = block in spec.mixer_blocks[number]
    residual = x
    if block == 1:
        residual = _shortcut(x, spec, 4 * filters, strides, name)
    x = _conv_bn(x, spec, filters, 1, name=f"{name}_1")
    if has_mixer:
        x = _mixer_bn(x, spec, mixers, number, strides, name=f"{name}_2")
    else:
        x = _conv_bn(x, spec, filters, 3, strides=strides, name=f"{name}_2")
    x = _conv(x, spec, 4 * filters, 1, 1, f"{name}_3")
    # A block starts as the identity: gamma of its last batch normalization is 0 (E.1).
    x = batch_norm(x, spec, f"{name}_3_bn", gamma_initializer="zeros")
    if spec.squeeze_excitation[number] and not has_mixer:
        x = SqueezeExcitation(spec.squeeze_ratio, name=f"{name}_se")(x)
    rate = spec.stochastic_depth_rate * (number + 2) / 5
    x = StochasticDepth(rate, name=f"{name}_drop")(x)
    x = layers.Add(name=f"{name}_add")([residual, x])
    last = block == spec.blocks[number]
    x = layers.Activation(spec.activation, name=STAGES[number] if last else f"{name}_out")(x)
    # Every other block of c3 and c4, but the last.
    if spec.double_attention and number in (1, 2) and block % 2 and not last:
        x = DoubleAttention(
            momentum=spec.batch_norm_momentum,
            epsilon=spec.batch_norm_epsilon,
            name=f"{name}_double_attention",
        )(x)
    return x


def _shortcut(x, spec, filters, strides, name):
    name = f"{name}_shortcut"
    if spec.shortcut == "pool" and strides > 1:
        x = layers.AveragePooling2D(2, strides, padding="same", name=f"{name}_pool")(x)
        strides = 1
    return batch_norm(_conv(x, spec, filters, 1, strides, name), spec, f"{name}_bn")


def _mixer_bn(x, spec: ResNetSpec, mixers, number, strides, name):
    own_strides = spec.padding != "symmetric" and spec.mixer_pool_size == 3
    own_strides |= mixers.arguments[number].get("strided_queries", False)
    kind = "lambda" if mixers.layer is LambdaLayer else "attention"
    layer_arguments = {"strides": strides if own_strides else 1, "name": f"{name}_{kind}"}
    x = mixers(x, spec.filters * 2**number, number, **layer_arguments)
    if strides > 1 and not own_strides:
        x = _torch_average_pool(x, spec.mixer_pool_size, strides, name)
    return _norm_and_activation(x, spec, name)


def _torch_average_pool(x, pool_size, strides, name):
    """Average pooling as in PyTorch: zeros on both sides count in the means."""
    padding = "same"  # For odd sizes, which PyTorch's networks refuse.
    if pool_size % 2:
        x, padding = _zero_pad(x, pool_size, f"{name}_pool_pad"), "valid"
    return layers.AveragePooling2D(pool_size, strides, padding=padding, name=f"{name}_pool")(x)


def _conv_bn(x, spec, filters, kernel_size, strides=1, name=""):
    return _norm_and_activation(_conv(x, spec, filters, kernel_size, strides, name), spec, name)


def _norm_and_activation(x, spec, name):
    x = batch_norm(x, spec, f"{name}_bn")
    return layers.Activation(spec.activation, name=f"{name}_{spec.activation}")(x)


def _conv(x, spec, filters, kernel_size, strides, name):
    padding = "same"
    if spec.padding != "same" and strides > 1:
        padding = "valid"
        if kernel_size > 1:
            x = _zero_pad(x, kernel_size, f"{name}_pad")
    return conv(x, filters, kernel_size, strides, f"{name}_conv", padding)


def _zero_pad(x, size, name):
    return layers.ZeroPadding2D(size // 2, name=name)(x)


def conv(x, filters, kernel_size, strides, name, padding="same"):
    """Convolution without bias, before a batch normalization, in Keras' default data format."""
    return layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding=padding,
        use_bias=False,
        kernel_initializer="he_normal",
        name=name,
    )(x)


def batch_norm(x, spec: ResNetSpec | MobileNetSpec, name, gamma_initializer="ones"):
    """A batch normalization with the momentum and epsilon of a network."""
    return BatchNormalization(
        momentum=spec.batch_norm_momentum,
        epsilon=spec.batch_norm_epsilon,
        gamma_initializer=gamma_initializer,
        name=name,
    )(x)
