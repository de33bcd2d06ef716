"""Residual networks with lambda layers: `ResNetSpec` -> functional Keras model."""

import keras
from keras import layers

from lambda_keras.layers import LambdaLayer, SqueezeExcitation
from lambda_keras.models.specs import STAGES, LambdaSpec, ResNetSpec

# Values of the ResNet implementations of TensorFlow; the paper names none but the decay of E.2.
MOMENTUM = 0.99
EPSILON = 1e-5


def build_resnet(
    spec: ResNetSpec,
    inputs: keras.KerasTensor,
    include_top: bool = True,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation=None,
    name: str | None = None,
) -> keras.Model:
    """Builds the network of a spec on an input tensor.

    The last activations of the stages are layers named `"c2"`, `"c3"`, `"c4"` and `"c5"`: features
    at strides 4, 8, 16 and 32 (1, 2, 4 and 8 with the small stem).

    Args:
        spec: the network.
        inputs: Keras tensor of shape `(batch, height, width, channels)`.
        include_top: bool, whether there is a classifier.
        pooling: without a classifier: `None` (features of c5), `"avg"` or `"max"`.
        classes: int, number of classes.
        classifier_activation: activation of the classifier, `None` for logits.
        name: name of the model.

    Returns:
        A functional `keras.Model`.
    """
    x = _stem(inputs, spec)
    for number, stage in enumerate(STAGES):
        filters = spec.filters * 2**number
        for block in range(1, spec.blocks[number] + 1):
            x = _bottleneck(
                x,
                filters=filters,
                strides=2 if block == 1 and number > 0 else 1,
                shortcut=spec.shortcut if block == 1 else None,
                lambda_spec=spec.lambda_layer if block in spec.lambda_blocks[number] else None,
                squeeze_excitation=spec.squeeze_excitation[number],
                name=f"{stage}_block{block}",
                output_name=stage if block == spec.blocks[number] else None,
            )
    if include_top or pooling == "avg":
        x = layers.GlobalAveragePooling2D(data_format="channels_last", name="avg_pool")(x)
    elif pooling == "max":
        x = layers.GlobalMaxPooling2D(data_format="channels_last", name="max_pool")(x)
    if include_top:
        # float32, so that probabilities and the loss are exact enough under mixed precision.
        x = layers.Dense(
            classes, activation=classifier_activation, dtype="float32", name="predictions"
        )(x)
    # A single input must not be a list: Keras would warn at every call on an array.
    sources = keras.utils.get_source_inputs(inputs)
    return keras.Model(sources[0] if len(sources) == 1 else sources, x, name=name)


def _stem(x, spec):
    if spec.stem == "v1":
        x = _conv_bn(x, spec.filters, 7, strides=2, name="stem")
        return layers.MaxPooling2D(
            3, strides=2, padding="same", data_format="channels_last", name="stem_pool"
        )(x)
    if spec.stem == "rs":
        x = _conv_bn(x, spec.filters // 2, 3, strides=2, name="stem1")
        x = _conv_bn(x, spec.filters // 2, 3, name="stem2")
        x = _conv_bn(x, spec.filters, 3, name="stem3")
        return _conv_bn(x, spec.filters, 3, strides=2, name="stem4")
    if spec.stem == "small":
        return _conv_bn(x, spec.filters, 3, name="stem")
    raise ValueError(f"expected stem to be 'v1', 'rs' or 'small'. Received: stem={spec.stem!r}")


def _bottleneck(
    x,
    filters: int,
    strides: int,
    shortcut: str | None,
    lambda_spec: LambdaSpec | None,
    squeeze_excitation: bool,
    name: str,
    output_name: str | None,
):
    """1x1, 3x3 or lambda layer, 1x1; the stride is in the middle (ResNet v1, E.1)."""
    residual = x
    if shortcut is not None:
        if shortcut == "pool" and strides > 1:
            residual = layers.AveragePooling2D(
                2,
                strides,
                padding="same",
                data_format="channels_last",
                name=f"{name}_shortcut_pool",
            )(residual)
        residual = _conv_bn(
            residual,
            4 * filters,
            1,
            strides=strides if shortcut == "conv" else 1,
            activation=None,
            name=f"{name}_shortcut",
        )
    x = _conv_bn(x, filters, 1, name=f"{name}_1")
    if lambda_spec is None:
        x = _conv_bn(x, filters, 3, strides=strides, name=f"{name}_2")
    else:
        x = _lambda_bn(x, filters, lambda_spec, strides=strides, name=f"{name}_2")
    # A block starts as the identity: gamma of its last batch normalization is 0 (E.1).
    x = _conv_bn(x, 4 * filters, 1, activation=None, gamma_initializer="zeros", name=f"{name}_3")
    if squeeze_excitation and lambda_spec is None:
        x = SqueezeExcitation(0.25, name=f"{name}_se")(x)
    x = layers.Add(name=f"{name}_add")([residual, x])
    return layers.Activation("relu", name=output_name or f"{name}_out")(x)


def _lambda_bn(x, filters, spec, strides, name):
    x = LambdaLayer(
        filters,
        num_heads=spec.num_heads,
        key_dim=spec.key_dim,
        intra_depth=spec.intra_depth,
        scope=spec.scope,
        strides=strides,
        momentum=MOMENTUM,
        epsilon=EPSILON,
        name=f"{name}_lambda",
    )(x)
    return _bn(x, "relu", "ones", name)


def _conv_bn(
    x,
    filters,
    kernel_size,
    strides=1,
    activation: str | None = "relu",
    gamma_initializer="ones",
    name="",
):
    x = layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        data_format="channels_last",
        name=f"{name}_conv",
    )(x)
    return _bn(x, activation, gamma_initializer, name)


def _bn(x, activation, gamma_initializer, name):
    x = layers.BatchNormalization(
        momentum=MOMENTUM, epsilon=EPSILON, gamma_initializer=gamma_initializer, name=f"{name}_bn"
    )(x)
    return layers.Activation(activation, name=f"{name}_{activation}")(x) if activation else x
