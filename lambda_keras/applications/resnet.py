"""LambdaResNets and ResNet-50: thin constructors over the specs of `models.specs`."""

import numbers
import os
from dataclasses import replace
from typing import Protocol

import keras

from lambda_keras.models import specs
from lambda_keras.models.resnet import build_resnet
from lambda_keras.weights import load_weights

ARGUMENTS = """
    Args:
        include_top: bool, whether there is a classifier. Defaults to `True`.
        weights: `None` (random initialisation, E.1) or the path of a `.weights.h5` file of this
            network. Defaults to `None`.
        input_tensor: Keras tensor to build the network on. Defaults to a new `keras.Input`.
        input_shape: `(height, width, channels)` of an image, channels last; height and width may
            be `None`. Defaults to `(None, None, 3)`.
        pooling: without a classifier, `None` (the feature map of c5), `"avg"` or `"max"`.
            Defaults to `None`.
        classes: int, number of classes. Defaults to `1000`.
        classifier_activation: activation of the classifier, `None` for logits.
            Defaults to `"softmax"`.
        name: str, name of the model.

    Call arguments:
        inputs: float tensor of shape `(batch, height, width, channels)`, RGB images that passed
            `lambda_keras.applications.preprocess_input`.

    Returns:
        A functional `keras.Model` whose layers `"c2"`, `"c3"`, `"c4"` and `"c5"` are the features
        at strides 4, 8, 16 and 32. Its output has shape `(batch, classes)`, or without classifier
        `(batch, channels)` if pooled and `(batch, height / 32, width / 32, channels)` if not.

    Raises:
        ValueError: if an argument is out of its range, or the weights do not fit.

    Reference:
        LambdaNetworks: Modeling Long-Range Interactions Without Attention
        (Bello, ICLR 2021, arXiv:2102.08602)."""


class Constructor(Protocol):
    """The signature of every constructor."""

    __name__: str

    def __call__(
        self,
        include_top: bool = True,
        weights: str | os.PathLike | None = None,
        input_tensor=None,
        input_shape: tuple[int | None, int | None, int] | None = None,
        pooling: str | None = None,
        classes: int = 1000,
        classifier_activation="softmax",
        name: str = ...,
    ) -> keras.Model: ...


def build(
    spec: specs.ResNetSpec,
    include_top: bool,
    weights: str | os.PathLike | None,
    input_tensor,
    input_shape: tuple[int | None, int | None, int] | None,
    pooling: str | None,
    classes: int,
    classifier_activation,
    name: str,
) -> keras.Model:
    """Checks the arguments that all constructors share, builds the network, loads weights."""
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "expected keras.config.image_data_format() to be 'channels_last', the only format of "
            f"these networks. Received: {keras.config.image_data_format()!r}"
        )
    if pooling not in (None, "avg", "max"):
        raise ValueError(f"expected pooling to be None, 'avg' or 'max'. Received: {pooling!r}")
    if isinstance(classes, bool) or not isinstance(classes, numbers.Integral) or classes < 1:
        raise ValueError(
            f"expected classes to be a positive integer. Received: classes={classes!r}"
        )
    inputs = _inputs(input_tensor, input_shape, minimum=8 if spec.stem == "small" else 32)
    model = build_resnet(
        spec, inputs, include_top, pooling, int(classes), classifier_activation, name
    )
    if weights is not None:
        load_weights(model, weights)
    return model


def _inputs(input_tensor, input_shape, minimum):
    if input_tensor is not None:
        if not keras.utils.is_keras_tensor(input_tensor):
            raise ValueError(
                f"expected input_tensor to be a Keras tensor. Received: a {type(input_tensor)}"
            )
        input_shape = tuple(input_tensor.shape[1:])
    elif input_shape is None:
        input_shape = (None, None, 3)
    if (
        not isinstance(input_shape, (tuple, list))
        or len(input_shape) != 3
        or input_shape[-1] is None
    ):
        raise ValueError(
            "expected input_shape (height, width, channels) with a known number of channels. "
            f"Received: input_shape={input_shape}"
        )
    if any(size is not None and size < minimum for size in input_shape[:2]):
        raise ValueError(
            f"expected height and width of at least {minimum} pixels, the stride of the last "
            f"stage. Received: input_shape={tuple(input_shape)}"
        )
    return keras.Input(input_shape, name="images") if input_tensor is None else input_tensor


def _constructor(display_name: str, name: str, spec: specs.ResNetSpec, summary: str) -> Constructor:
    """A public constructor with a signature and a docstring of its own."""
    default_name = name

    def constructor(
        include_top: bool = True,
        weights: str | os.PathLike | None = None,
        input_tensor=None,
        input_shape: tuple[int | None, int | None, int] | None = None,
        pooling: str | None = None,
        classes: int = 1000,
        classifier_activation="softmax",
        name: str = default_name,
    ) -> keras.Model:
        return build(
            spec,
            include_top,
            weights,
            input_tensor,
            input_shape,
            pooling,
            classes,
            classifier_activation,
            name,
        )

    constructor.__name__ = constructor.__qualname__ = display_name
    constructor.__doc__ = f"{summary}\n{ARGUMENTS}"
    return constructor


def _lambda_resnet(depth: int, summary: str) -> Constructor:
    name = f"lambda_resnet{depth}"
    return _constructor(f"LambdaResNet{depth}", name, specs.LAMBDA_RESNETS[name], summary)


LambdaResNet14 = _constructor(
    "LambdaResNet14",
    "lambda_resnet14",
    specs.LAMBDA_RESNET14,
    "A small LambdaResNet for images of some 32 pixels; not in the paper. Its strides are 1 to 8.",
)
LambdaResNet50 = _lambda_resnet(50, "LambdaResNet-50 (Table 18): 18.96 M parameters.")
LambdaResNet101 = _lambda_resnet(101, "LambdaResNet-101 (Table 18): 36.87 M parameters.")
LambdaResNet152 = _lambda_resnet(152, "LambdaResNet-152 (Table 18): 51.40 M parameters.")
LambdaResNet200 = _lambda_resnet(200, "LambdaResNet-200 (Table 18): 57.99 M parameters.")
LambdaResNet270 = _lambda_resnet(270, "LambdaResNet-270 (Table 18): 81.37 M parameters.")
LambdaResNet350 = _lambda_resnet(350, "LambdaResNet-350 (Table 18): 105.48 M parameters.")
LambdaResNet420 = _lambda_resnet(420, "LambdaResNet-420 (Table 18): 124.44 M parameters.")


def ResNet50(
    include_top: bool = True,
    weights: str | os.PathLike | None = None,
    input_tensor=None,
    input_shape: tuple[int | None, int | None, int] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation="softmax",
    name: str = "resnet50",
    *,
    placement: str = "CCCC",
) -> keras.Model:
    """ResNet-50 (v1) with lambda layers in place of all 3x3 convolutions of some stages (Table 13).

    `placement` has a letter for each of the stages c2, c3, c4 and c5, C for convolutions and L for
    lambda layers: `"CCCC"` (default) is the baseline of the paper, `"LLLL"` its LambdaNetwork.
    The other arguments are those of `LambdaResNet50`.
    """
    spec = specs.ResNetSpec(blocks=(3, 4, 6, 3))
    spec = replace(spec, lambda_blocks=specs.placement(spec.blocks, placement))
    return build(
        spec,
        include_top,
        weights,
        input_tensor,
        input_shape,
        pooling,
        classes,
        classifier_activation,
        name,
    )
