"""Arguments that all constructors share, and their checks."""

import inspect
import os
from collections.abc import Callable, Set
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import wraps
from typing import Any, ParamSpec

import keras

from lambda_keras.layers.arguments import check_bools, check_number, is_positive_integer
from lambda_keras.models import specs
from lambda_keras.models.mixers import HYPER_PARAMETERS, MIXERS, check_mixer
from lambda_keras.models.mobilenet import build_mobilenet
from lambda_keras.models.resnet import build_resnet
from lambda_keras.weights import load_weights
from lambda_keras.weights.files import check_classes, find_weights, load_adapted

Spec = specs.ResNetSpec | specs.MobileNetSpec
Shape = tuple[int | None, int | None, int]
Weights = str | os.PathLike | None
P = ParamSpec("P")


@dataclass(frozen=True)
class Arguments:
    """Arguments of every constructor, those of `keras.applications` first.

    Args:
        include_top: bool, whether there is a classifier.
        weights: `None` (random initialisation, E.1), `"imagenet"` where weights were published,
            the path of a `.weights.h5` or `.safetensors` file of this network, or
            `"hf://owner/repo"` for a repository of the Hugging Face hub.
        input_tensor: Keras tensor to build the network on, in place of a new `keras.Input`.
        input_shape: `(height, width, channels)` of an image, channels last; height and width may
            be `None`. Three channels of any size unless given.
        pooling: without a classifier, `None` (the last feature map), `"avg"` or `"max"`.
        classes: int, number of classes.
        classifier_activation: activation of the classifier, `None` for logits.
        name: str, name of the model.
        dropout_rate: float, of the pooled features before the classifier (Table 20).
        batch_norm_momentum: float in [0, 1), momentum of the moving statistics of all batch
            normalizations. Inference is near chance until they have followed the batches, which
            takes some 20 steps with 0.9, 200 with 0.99 and 2000 with 0.999.
        adapt_weights: bool, whether weights of another number of classes or channels are taken,
            too: a classifier of other classes stays random then, and for other channels the first
            convolution is summed over its own for one, else repeated and scaled, as in timm.
    """

    include_top: bool = True
    weights: Weights = None
    input_tensor: Any = None
    input_shape: Shape | None = None
    pooling: str | None = None
    classes: int = 1000
    classifier_activation: Any = "softmax"
    name: str | None = None
    _: KW_ONLY
    dropout_rate: float = 0.0
    batch_norm_momentum: float = 0.9
    adapt_weights: bool = False


DOCUMENTATION = """{summary}

Args:
{arguments}

Call arguments:
    inputs: float tensor of shape `(batch, height, width, channels)`, RGB images that passed
        `lambda_keras.applications.preprocess_input`.

Returns:
    A functional `keras.Model` whose layers `"c2"`, `"c3"`, `"c4"` and `"c5"` are the features at
    strides 4, 8, 16 and 32. Its output has shape `(batch, classes)`, or without classifier
    `(batch, channels)` if pooled and `(batch, height / 32, width / 32, channels)` if not.
    `import lambda_keras` comes first where `keras.models.load_model` loads it in a new process.

Raises:
    ValueError: if an argument is out of its range, or the weights do not fit.

Example:

>>> from lambda_keras.applications import {name}
>>> model = {name}(classes=10)
>>> model.output_shape
(None, 10)

Reference:
    LambdaNetworks: Modeling Long-Range Interactions Without Attention
    (Bello, ICLR 2021, arXiv:2102.08602)."""


def constructor(
    arguments: Callable[P, Arguments], architecture: str, spec: Spec, **defaults: Any
) -> Callable[[Callable[[], None]], Callable[P, keras.Model]]:
    """Makes the constructor of a network out of a function that is a name and a docstring.

    Args:
        arguments: class of the arguments that it takes. Defaults are those of the spec.
        architecture: name of the network in the zoo, and of the models unless another is given.
        spec: the network.
        **defaults: of arguments that differ from those of the class, and are not in the spec.
    """
    of_mixer = {**vars(spec.lambda_layer), **getattr(spec, "mixer_arguments", {})}
    defaults = {**of_mixer, **vars(spec), "name": architecture, **defaults}
    taken = inspect.signature(arguments).parameters.values()
    signature = inspect.Signature(
        [one.replace(default=defaults.get(one.name, one.default)) for one in taken],
        return_annotation=keras.Model,
    )

    def decorate(function: Callable[[], None]) -> Callable[P, keras.Model]:
        @wraps(function)
        def construct(*args: P.args, **kwargs: P.kwargs) -> keras.Model:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            names = set(bound.arguments)
            bound.apply_defaults()
            given = arguments(*bound.args, **bound.kwargs)
            return build(architecture, _specified(spec, given, names), given)

        construct.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        construct.__doc__ = DOCUMENTATION.format(
            name=function.__name__,
            summary=inspect.getdoc(function),
            arguments=_documented(arguments),
        )
        return construct

    return decorate


def _documented(arguments: Any) -> str:
    """Argument descriptions of a class and, before them, of its bases."""
    docstrings = [inspect.cleandoc(one.__doc__ or "") for one in reversed(arguments.__mro__[:-1])]
    return "\n".join(docstring.partition("Args:\n")[2] for docstring in docstrings)


def _specified(spec: Spec, given: Arguments, names: Set[str]) -> Spec:
    """The spec with what the arguments say of it, and of its mixers.

    Defaults of hyper-parameters are those of the network's own mixer. Another one keeps its own, so
    that only those of `names`, which were given, say something of it.
    """
    mixer = getattr(given, "mixer", "lambda")
    hyper_parameters = {name: getattr(given, name) for name in sorted(names & HYPER_PARAMETERS)}
    check_mixer(mixer, hyper_parameters)
    said: dict[str, Any] = {
        one.name: getattr(given, one.name) for one in fields(spec) if hasattr(given, one.name)
    }
    if isinstance(spec, specs.ResNetSpec):
        said["mixer_arguments"] = spec.mixer_arguments if mixer == spec.mixer else {}
    if MIXERS[mixer].is_lambda_layer:
        said["lambda_layer"] = replace(spec.lambda_layer, **hyper_parameters)
    else:
        said["mixer_arguments"] = {**said["mixer_arguments"], **hyper_parameters}
    spec = replace(spec, **said)
    letters = getattr(given, "placement", None)
    if letters is None or not isinstance(spec, specs.ResNetSpec):
        return spec
    return replace(spec, mixer_blocks=specs.placement(spec.blocks, letters))


def build(architecture: str, spec: Spec, given: Arguments) -> keras.Model:
    """Checks the arguments that all constructors share, builds the network, loads weights.

    Args:
        architecture: its name in the zoo, whatever the model is called.
        spec: the network, with what the arguments say of it.
        given: the arguments.
    """
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "expected keras.config.image_data_format() to be 'channels_last', the only format of "
            f"these networks. Received: {keras.config.image_data_format()!r}"
        )
    if given.pooling not in (None, "avg", "max"):
        raise ValueError(
            f"expected pooling to be None, 'avg' or 'max'. Received: {given.pooling!r}"
        )
    check_bools(include_top=given.include_top, adapt_weights=given.adapt_weights)
    if not is_positive_integer(given.classes):
        raise ValueError(
            f"expected classes to be a positive integer. Received: classes={given.classes!r}"
        )
    for field in ("dropout_rate", "stochastic_depth_rate", "batch_norm_momentum"):
        value = getattr(spec, field, 0)
        check_number(lambda x: 0 <= x < 1, "a number from 0 to 1, below 1", **{field: value})
    name = given.name
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        raise ValueError(f"expected a name without a slash. Received: name={name!r}")
    try:
        keras.activations.get(given.classifier_activation)
    except Exception as error:
        raise ValueError(
            "expected classifier_activation to be None, or a function of keras.activations or its "
            f"name. Received: {given.classifier_activation!r}"
        ) from error
    minimum = 8 if isinstance(spec, specs.ResNetSpec) and spec.stem == "small" else 32
    inputs = _inputs(given.input_tensor, given.input_shape, minimum)
    weights = given.weights
    if weights is not None:  # before the network is built
        if given.include_top and not given.adapt_weights:
            check_classes(weights, architecture, given.classes)
        weights = find_weights(weights, architecture)
    function: Callable = build_mobilenet if isinstance(spec, specs.MobileNetSpec) else build_resnet
    arguments = {
        "include_top": given.include_top,
        "pooling": given.pooling,
        "classes": int(given.classes),
        "classifier_activation": given.classifier_activation,
        "name": name,
    }
    model = function(spec, inputs, **arguments)
    if weights is not None and given.adapt_weights:
        rgb = function(spec, keras.Input((*inputs.shape[1:3], 3)), **arguments)
        load_adapted(model, rgb, weights, architecture)
    elif weights is not None:
        load_weights(model, weights, architecture)
    return model


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
