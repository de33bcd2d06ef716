"""Construction of the networks by name: the arguments that all constructors share."""

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Any

import keras

from lambda_keras.layers.arguments import (
    check,
    check_bools,
    check_choices,
    check_number,
    is_positive_integer,
    received,
)
from lambda_keras.models import specs
from lambda_keras.models.mixers import MIXERS, check_mixer
from lambda_keras.models.mobilenet import build_mobilenet
from lambda_keras.models.resnet import build_resnet
from lambda_keras.weights import load_weights
from lambda_keras.weights.files import find_weights, load_adapted

Spec = specs.ResNetSpec | specs.MobileNetSpec

RESNET = ("dropout_rate", "batch_norm_momentum", "stochastic_depth_rate", "padding", "stem")
MOBILENET = ("dropout_rate", "batch_norm_momentum", "alpha")
# Hyper-parameters of all mixers, each with the default of the first mixer that has it.
HYPER_PARAMETERS = {
    name: default for mixer in reversed(MIXERS.values()) for name, default in mixer.defaults.items()
}


def build(
    network: str,
    include_top: bool = True,
    weights: str | os.PathLike | None = None,
    input_tensor: Any = None,
    input_shape: tuple[int | None, int | None, int] | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation: Any = "softmax",
    name: str | None = None,
    *,
    adapt_weights: bool = False,
    **options: Any,
) -> keras.Model:
    """Builds a network of `lambda_keras.models.specs.NETWORKS`.

    Args:
        network: Name of the network.
        include_top: Whether there is a classifier.
        weights: None (random initialization, E.1), `"imagenet"` where weights were published,
            the path of a `.weights.h5` or `.safetensors` file of this network, or
            `"hf://owner/repo"` for a repository of the Hugging Face Hub.
        input_tensor: Keras tensor to build the network on, in place of a new `keras.Input`.
        input_shape: `(height, width, channels)` of an image, channels last; height and width may
            be None. Defaults to three channels of any size.
        pooling: Pooling of a network without a classifier: None (the last feature map), `"avg"` or
            `"max"`.
        classes: Number of classes.
        classifier_activation: Activation of the classifier, None for logits.
        name: Name of the model. Defaults to the name of the network.
        adapt_weights: Whether weights of another number of classes or channels are accepted: a
            classifier of other classes stays random; for other channels the first convolution is
            summed over its channels for one, else repeated and scaled, as in timm.
        **options: Further arguments, as far as the signature of the constructor has them.
            dropout_rate: Dropout of the pooled features before the classifier (Table 20).
            batch_norm_momentum: Momentum in [0, 1) of the moving statistics of all batch
                normalizations. Inference is near chance until they have followed the batches, which
                takes about 20 steps with 0.9, 200 with 0.99 and 2000 with 0.999.
            stochastic_depth_rate: Drop rate of the branches of c5; earlier stages drop less, in
                proportion to the number of the stage (Table 20).
            padding: Padding of strided convolutions, `"same"` (TensorFlow's), or equal on both
                sides: `"fixed"`, with TensorFlow's poolings (ResNet-RS), or `"symmetric"`, with
                PyTorch's. Weights fit the padding that they were trained with.
            stem: Layers before c2: `"v1"`, `"tiered"` or `"rs"` with stride 4, or `"small"` with
                stride 1 (`lambda_keras.models.specs.ResNetSpec`).
            alpha: Width multiplier of MobileNetV2.
            expand_lambda: Whether the blocks with a lambda layer have their first pointwise
                convolution, as the text says. Without it they count the 3.21 M of Table 17.
            blocks: Numbers of blocks of the stages c2, c3, c4 and c5. A stage of 0 blocks is left
                out with its stride and its features.
            filters: Width of the stem and of the bottlenecks of c2; every stage doubles it.
            placement: A letter for each of the stages c2, c3, c4 and c5 (Table 13), such as
                `"CLLL"`: C for convolutions, L for lambda layers in all blocks. None for the
                network's own blocks (Table 18). Squeeze-and-excitation stays in the convolution
                blocks of c2 and c3.
            mixer: Layer in the place of lambda layers: `"lambda"` itself, `"content"` (lambda
                layers without position lambdas), `"global"`, `"local"`, `"halo"`, `"axial"`, or the
                linear attention `"efficient"`, `"linear"`, `"favor"` or `"relu"`
                (`lambda_keras.models.mixers`). `"global"` and `"axial"` need an `input_shape` of
                known height and width.
            num_heads, key_dim, ...: Hyper-parameters of the mixer, arguments of its layer in
                `lambda_keras.layers`; each is one value, or four for the stages c2 to c5. Only
                those that the mixer has may be passed.

    Call arguments:
        inputs: Float tensor of shape `(batch, height, width, channels)`, RGB images that passed
            `lambda_keras.applications.preprocess_input`.

    Returns:
        A functional `keras.Model` whose layers `"c2"`, `"c3"`, `"c4"` and `"c5"` are the features
        at strides 4, 8, 16 and 32. Its output has shape `(batch, classes)`, or without classifier
        `(batch, channels)` if pooled and `(batch, height / 32, width / 32, channels)` if not.
        `import lambda_keras` comes first where `keras.models.load_model` loads it in a new process.

    Raises:
        ValueError: If an argument is out of its range, or the weights do not fit.
        TypeError: If the network has no such argument.

    Example:
    >>> from lambda_keras.applications import LambdaResNet50
    >>> model = LambdaResNet50(classes=10)
    >>> model.output_shape
    (None, 10)

    Reference:
        LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602).
    """
    row = specs.NETWORKS[network]
    spec = _changed(row, options)
    top = {
        "include_top": include_top,
        "pooling": pooling,
        "classes": classes,
        "classifier_activation": classifier_activation,
        "name": network if name is None else name,
    }
    _check(spec, adapt_weights=adapt_weights, **top)
    minimum = 8 if isinstance(spec, specs.ResNetSpec) and spec.stem == "small" else 32
    inputs = _inputs(input_tensor, input_shape, minimum)
    if weights is not None:  # Found before the network is built, which takes seconds.
        is_whole = include_top and not adapt_weights
        weights = find_weights(weights, network, classes if is_whole else None)
    model = build_spec(spec, inputs, **top)
    if weights is not None and adapt_weights:
        rgb = build_spec(spec, keras.Input((*inputs.shape[1:3], 3)), **top)
        load_adapted(model, rgb, weights, network)
    elif weights is not None:
        load_weights(model, weights, network)
    return model


def build_spec(spec: Spec, inputs: keras.KerasTensor, **top: Any) -> keras.Model:
    """Builds the network of a spec; the arguments are those of `build_resnet`."""
    if isinstance(spec, specs.ResNetSpec):
        return build_resnet(spec, inputs, **top)
    return build_mobilenet(spec, inputs, **top)


def options_of(row: specs.Network) -> dict[str, Any]:
    """Defaults of the arguments that not all networks have."""
    spec, lambda_layer = row.spec, asdict(row.spec.lambda_layer)
    if isinstance(spec, specs.MobileNetSpec):
        options = {name: getattr(spec, name) for name in MOBILENET}
        return options | ({"expand_lambda": True} | lambda_layer if spec.lambda_blocks else {})
    options = {name: getattr(spec, name) for name in RESNET}
    if spec.stem == "small":
        options |= {"blocks": spec.blocks, "filters": spec.filters}
    if spec.mixer is None:
        return options
    of_mixer = {**HYPER_PARAMETERS, **lambda_layer, **spec.mixer_arguments}
    return {**options, "placement": None, "mixer": spec.mixer, **of_mixer}


def describe(constructor: Callable[..., keras.Model]) -> None:
    """Completes what `help` shows of a constructor: arguments, counts, and the text of `build`."""
    row = next(row for row in specs.ROWS if row.constructor == constructor.__name__)
    parameters = {
        **inspect.signature(build).parameters,
        **{
            key: inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=value)
            for key, value in options_of(row).items()
        },
        **inspect.signature(constructor).parameters,
    }
    parameters["name"] = parameters["name"].replace(default=row.name)
    passed_on = ("network", "options", "args", "kwargs")
    constructor.__signature__ = inspect.Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [one for key, one in parameters.items() if key not in passed_on],
        return_annotation=keras.Model,
    )
    if constructor.__doc__ and build.__doc__:  # python -OO removes docstrings.
        summary = inspect.cleandoc(constructor.__doc__)
        counts = f"{row.parameters:,} parameters"
        if not row.arguments:
            counts += f", {row.gflops} GFLOPs for an image of {row.image_size}x{row.image_size}"
        text = inspect.cleandoc(build.__doc__)
        arguments, options, others = re.split(r"\n    \*\*options: .*\n|\n\n(?=Call)", text)
        shared = arguments[arguments.index("    include_top: ") :]
        options = textwrap.indent(textwrap.dedent(options), "    ")
        for option in re.split(r"\n(?=    \w)", options):
            if re.findall(r"\w+", option)[0] in parameters:
                shared += f"\n{option}"
        constructor.__doc__ = f"{summary}\n\n{counts}.\n\nArgs:\n{shared}\n\n{others}"


def _changed(row: specs.Network, options: Mapping[str, Any]) -> Spec:
    """The spec of a network with options; another mixer than its own keeps the other's defaults."""
    known = options_of(row)
    for name in options.keys() - known.keys():
        nearest = ", ".join(map(repr, get_close_matches(name, known))) or "see its help"
        raise TypeError(
            f"{row.constructor}() got an unexpected keyword argument {name!r}: expected one that "
            f"the network has ({nearest}). {received(**{name: options[name]})}"
        )
    spec, changes = row.spec, dict(options)
    hyper_parameters = {name: changes.pop(name) for name in options if name in HYPER_PARAMETERS}
    if isinstance(spec, specs.MobileNetSpec):
        return replace(spec, **changes, lambda_layer=replace(spec.lambda_layer, **hyper_parameters))
    if spec.mixer is None:
        return replace(spec, **changes)
    letters, mixer = changes.pop("placement", None), changes.get("mixer", spec.mixer)
    check_mixer(mixer, hyper_parameters)
    changes["mixer_arguments"] = spec.mixer_arguments if mixer == spec.mixer else {}
    if MIXERS[mixer].is_lambda_layer:
        changes["lambda_layer"] = replace(spec.lambda_layer, **hyper_parameters)
    else:
        changes["mixer_arguments"] = {**changes["mixer_arguments"], **hyper_parameters}
    spec = replace(spec, **changes)
    if letters is None:
        return spec
    return replace(spec, mixer_blocks=specs.placement(spec.blocks, letters))


def _check(spec: Spec, pooling: Any, classes: Any, classifier_activation: Any, name: Any, **flags):
    """Checks the arguments that all networks share."""
    data_format = keras.config.image_data_format()
    expected = "keras.config.image_data_format() to be 'channels_last', as these networks need"
    check(data_format == "channels_last", expected, image_data_format=data_format)
    check_choices((None, "avg", "max"), pooling=pooling)
    check_bools(**flags)
    check(is_positive_integer(classes), "classes to be a positive integer", classes=classes)
    for field in ("dropout_rate", "stochastic_depth_rate", "batch_norm_momentum"):
        rate = {field: getattr(spec, field, 0)}
        check_number(lambda x: 0 <= x < 1, "a number from 0 to 1, below 1", **rate)
    is_name = isinstance(name, str) and name and "/" not in name
    check(is_name, "a name without a slash", name=name)
    try:
        keras.activations.get(classifier_activation)
    except Exception as error:
        raise ValueError(
            "expected classifier_activation to be None, or a function of keras.activations or its "
            f"name. Received: {classifier_activation!r}"
        ) from error


def _inputs(input_tensor, input_shape, minimum):
    if input_tensor is not None:
        is_tensor = keras.utils.is_keras_tensor(input_tensor)
        check(is_tensor, "input_tensor to be a Keras tensor", input_tensor=type(input_tensor))
        dtype, expected = input_tensor.dtype, "of floats, as preprocess_input returns them"
        check(keras.backend.is_float_dtype(dtype), f"input_tensor {expected}", dtype=dtype)
        input_shape = tuple(input_tensor.shape[1:])
    elif input_shape is None:
        input_shape = (None, None, 3)
    is_shape = (
        isinstance(input_shape, (tuple, list))
        and len(input_shape) == 3
        and all(size is None or is_positive_integer(size) for size in input_shape)
        and input_shape[-1] is not None
    )
    expected = "(height, width, channels) of positive integers, with a known number of channels"
    check(is_shape, f"input_shape {expected}", input_shape=input_shape)
    large = all(size is None or size >= minimum for size in input_shape[:2])
    expected = f"height and width of at least {minimum} pixels, the stride of the last stage"
    check(large, expected, input_shape=tuple(input_shape))
    return keras.Input(input_shape, name="images") if input_tensor is None else input_tensor
