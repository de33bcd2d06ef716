"""What all constructors share: their arguments, and how these are checked."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import keras

from lambda_keras.layers.arguments import check_bools, check_number, is_positive_integer
from lambda_keras.models import specs
from lambda_keras.models.mobilenet import build_mobilenet
from lambda_keras.models.resnet import build_resnet
from lambda_keras.weights import load_weights

Spec = specs.ResNetSpec | specs.MobileNetSpec
Shape = tuple[int | None, int | None, int]
Weights = str | os.PathLike | None

ARGUMENTS = """
    Args:
        include_top: bool, whether there is a classifier. Defaults to `True`.
        weights: `None` (random initialisation, E.1), `"imagenet"` where weights were published,
            the path of a `.weights.h5` or `.safetensors` file of this network, or
            `"hf://owner/repo"` for a repository of the Hugging Face hub. Defaults to `None`.
        input_tensor: Keras tensor to build the network on. Defaults to a new `keras.Input`.
        input_shape: `(height, width, channels)` of an image, channels last; height and width may
            be `None`. Defaults to `(None, None, 3)`.
        pooling: without a classifier, `None` (the last feature map), `"avg"` or `"max"`.
            Defaults to `None`.
        classes: int, number of classes. Defaults to `1000`.
        classifier_activation: activation of the classifier, `None` for logits.
            Defaults to `"softmax"`.
        name: str, name of the model.
        dropout_rate: float, of the pooled features before the classifier (Table 20).
            Defaults to `0.0`.
        stochastic_depth_rate: float, of the branches of c5; those of the stages before drop less,
            in proportion to the number of the stage (Table 20). Defaults to `0.0`.

    Call arguments:
        inputs: float tensor of shape `(batch, height, width, channels)`, RGB images that passed
            `lambda_keras.applications.preprocess_input`.

    Returns:
        A functional `keras.Model` whose layers `"c2"`, `"c3"`, `"c4"` and `"c5"` are the features
        at strides 4, 8, 16 and 32. Its output has shape `(batch, classes)`, or without classifier
        `(batch, channels)` if pooled and `(batch, height / 32, width / 32, channels)` if not.
        `import lambda_keras` comes first where `keras.models.load_model` loads it in a new process.

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
        weights: Weights = None,
        input_tensor=None,
        input_shape: Shape | None = None,
        pooling: str | None = None,
        classes: int = 1000,
        classifier_activation="softmax",
        name: str = ...,
        *,
        dropout_rate: float = 0.0,
        stochastic_depth_rate: float = 0.0,
    ) -> keras.Model: ...


def build(
    spec: Spec,
    architecture: str,
    include_top: bool,
    weights: Weights,
    input_tensor,
    input_shape: Shape | None,
    pooling: str | None,
    classes: int,
    classifier_activation,
    name: str,
) -> keras.Model:
    """Checks the arguments that all constructors share, builds the network, loads weights.

    Args:
        spec: the network.
        architecture: its name in the zoo, whatever the model is called.
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
            name: see `ARGUMENTS`.
    """
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "expected keras.config.image_data_format() to be 'channels_last', the only format of "
            f"these networks. Received: {keras.config.image_data_format()!r}"
        )
    if pooling not in (None, "avg", "max"):
        raise ValueError(f"expected pooling to be None, 'avg' or 'max'. Received: {pooling!r}")
    check_bools(include_top=include_top)
    if not is_positive_integer(classes):
        raise ValueError(
            f"expected classes to be a positive integer. Received: classes={classes!r}"
        )
    for field in ("dropout_rate", "stochastic_depth_rate"):
        rate = getattr(spec, field, 0)
        check_number(lambda x: 0 <= x < 1, "a rate from 0 to 1, below 1", **{field: rate})
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        raise ValueError(f"expected a name without a slash. Received: name={name!r}")
    try:
        keras.activations.get(classifier_activation)
    except Exception as error:
        raise ValueError(
            "expected classifier_activation to be None, or a function of keras.activations or its "
            f"name. Received: {classifier_activation!r}"
        ) from error
    inputs = _inputs(input_tensor, input_shape, _minimum_size(spec))
    function: Callable = build_mobilenet if isinstance(spec, specs.MobileNetSpec) else build_resnet
    model = function(spec, inputs, include_top, pooling, int(classes), classifier_activation, name)
    if weights is not None:
        load_weights(model, weights, architecture)
    return model


def _minimum_size(spec: Spec) -> int:
    return 8 if isinstance(spec, specs.ResNetSpec) and spec.stem == "small" else 32


def _inputs(input_tensor, input_shape, minimum):
    if input_tensor is not None:
        if not keras.utils.is_keras_tensor(input_tensor):
            raise ValueError(
                f"expected input_tensor to be a Keras tensor. Received: a {type(input_tensor)}"
            )
        if not keras.backend.is_float_dtype(input_tensor.dtype):
            raise ValueError(
                "expected input_tensor of floats, as preprocess_input returns them. Received: "
                f"{input_tensor.dtype}"
            )
        input_shape = tuple(input_tensor.shape[1:])
    elif input_shape is None:
        input_shape = (None, None, 3)
    if (
        not isinstance(input_shape, (tuple, list))
        or len(input_shape) != 3
        or not all(size is None or is_positive_integer(size) for size in input_shape)
        or input_shape[-1] is None
    ):
        raise ValueError(
            "expected input_shape (height, width, channels) of positive integers, with a known "
            f"number of channels. Received: input_shape={input_shape}"
        )
    if any(size is not None and size < minimum for size in input_shape[:2]):
        raise ValueError(
            f"expected height and width of at least {minimum} pixels, the stride of the last "
            f"stage. Received: input_shape={tuple(input_shape)}"
        )
    return keras.Input(input_shape, name="images") if input_tensor is None else input_tensor


def constructor(
    display_name: str,
    name: str,
    spec: specs.ResNetSpec,
    summary: str,
    default_shape: Shape | None = None,
) -> Constructor:
    """A public constructor with a signature and a docstring of its own.

    Args:
        display_name: name of the function.
        name: name of the network in the zoo, and of the models unless another is given.
        spec: the network.
        summary: first lines of the docstring.
        default_shape: `input_shape` of networks that are for one size of images.
    """
    default_name = name

    def construct(
        include_top: bool = True,
        weights: Weights = None,
        input_tensor=None,
        input_shape: Shape | None = default_shape,
        pooling: str | None = None,
        classes: int = 1000,
        classifier_activation="softmax",
        name: str = default_name,
        *,
        dropout_rate: float = 0.0,
        stochastic_depth_rate: float = 0.0,
    ) -> keras.Model:
        return build(
            replace(spec, dropout_rate=dropout_rate, stochastic_depth_rate=stochastic_depth_rate),
            default_name,
            include_top,
            weights,
            input_tensor,
            input_shape,
            pooling,
            classes,
            classifier_activation,
            name,
        )

    construct.__name__ = construct.__qualname__ = display_name
    construct.__doc__ = f"{summary}\n{ARGUMENTS}"
    return construct
