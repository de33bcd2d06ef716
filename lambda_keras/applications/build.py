"""Construction of the networks by name, and the documentation of their constructors."""

import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import keras

from lambda_keras.applications import arguments as groups
from lambda_keras.layers.arguments import (
    check,
    check_bools,
    check_choices,
    check_number,
    is_positive_integer,
    received,
)
from lambda_keras.models import specs
from lambda_keras.models.mixers import MIXERS, MixerArguments, check_mixer
from lambda_keras.models.mobilenet import build_mobilenet
from lambda_keras.models.resnet import build_resnet
from lambda_keras.weights import load_weights
from lambda_keras.weights.files import find_weights, load_adapted
from lambda_keras.weights.fit import take_layers

Spec = specs.ResNetSpec | specs.MobileNetSpec
BUILDERS: dict[type, Any] = {
    specs.ResNetSpec: build_resnet,
    specs.MobileNetSpec: build_mobilenet,
}
HYPER_PARAMETERS = MixerArguments.__annotations__.keys()
# Arguments of keras.applications and timm that have another name here, or none.
ELSEWHERE = {
    "alpha": "only MobileNetV2 and LambdaMobileNetV2 have it",
    "backbone": "feature_extractor(model) returns feature maps",
    "data_format": "channels last, whatever it is in keras.config",
    "depth": "blocks=(3, 4, 6, 3) of residual networks",
    "drop_path_rate": "stochastic_depth_rate of residual networks",
    "drop_rate": "dropout_rate",
    "dtype": "keras.config.set_dtype_policy('mixed_bfloat16') before it is built",
    "dtype_policy": "keras.config.set_dtype_policy('mixed_bfloat16') before it is built",
    "features_only": "feature_extractor(model) returns feature maps",
    "global_pool": "pooling with include_top=False",
    "image_size": "input_shape=(224, 224, 3)",
    "img_size": "input_shape=(224, 224, 3)",
    "in_chans": "input_shape=(224, 224, 3), channels last",
    "include_preprocessing": "lambda_keras.applications.preprocess_input, before the network",
    "input_size": "input_shape=(224, 224, 3)",
    "mixer_arguments": "its entries, such as scope=7, stand next to the others",
    "model_name": "name",
    "num_classes": "classes",
    "pretrained": "weights='imagenet' where weights are published, else the path of a file",
    "width": "filters of LambdaResNet14, alpha of MobileNetV2",
}


def build(
    network: str,
    *,
    include_top: bool,
    weights: groups.Weights,
    input_tensor: Any,
    input_shape: groups.Shape,
    pooling: groups.Pooling,
    classes: int | None,
    classifier_activation: Any,
    name: str | None,
    arguments: Mapping[str, Any],
) -> keras.Model:
    """Builds a network of `lambda_keras.models.specs.NETWORKS` by the arguments of a constructor.

    `arguments` are those of the constructor's group (`lambda_keras.applications.arguments`).
    """
    row = specs.NETWORKS[network]
    check_names(row.constructor, arguments)
    spec = _changed(row.spec, arguments)
    for changed in arguments.keys() & {"blocks", "squeeze_excitation"}:
        published, value = (getattr(owner, changed) for owner in (row.spec, spec))
        expected = f"{changed}={published} with weights={weights!r}, which are of these"
        fits = (*value,) == published or not specs.is_published_name(weights)
        check(fits, expected, **{changed: arguments[changed]})
    adapt_weights = arguments.get("adapt_weights", False)
    classes = specs.class_count(weights) if classes is None else classes
    top = {
        "include_top": include_top,
        "pooling": pooling,
        "classes": classes,
        "classifier_activation": classifier_activation,
        "name": network if name is None else name,
    }
    _check(spec, adapt_weights=adapt_weights, **top)
    minimum = 8 if str(getattr(spec, "stem", None)) == "small" else 32
    inputs = _inputs(input_tensor, input_shape, minimum)
    if weights is not None:  # Found before the network is built, which takes seconds.
        is_whole = include_top and not adapt_weights
        weights = find_weights(weights, network, classes if is_whole else None)
    builder = BUILDERS[type(spec)]
    model = builder(spec, inputs, **top)
    if weights is None:
        return model

    def twin(channels: int) -> keras.Model:
        return builder(spec, keras.Input((*inputs.shape[1:3], channels)), **top)

    if adapt_weights:
        load_adapted(model, twin, inputs.shape[-1], weights, network)
    elif isinstance(inputs._keras_history.operation, keras.layers.InputLayer):
        load_weights(model, weights, network)
    else:  # the model also has layers before the network
        source = twin(inputs.shape[-1])
        load_weights(source, weights, network)
        take_layers(model, source)
    return model


# Arguments of all networks, spelled out in the signatures of constructors.
SHARED = inspect.signature(build).parameters.keys() - {"network", "arguments"}
GROUPS: dict[str, Any] = {}  # keyword arguments, by the names of constructors


def check_names(constructor: str, arguments: Mapping[str, Any]) -> None:
    """Raises a `TypeError` that says what to use in place of an argument that is not known."""
    known = {*SHARED, *GROUPS[constructor].__annotations__}
    for argument in arguments.keys() - known:
        near = ", ".join(map(repr, get_close_matches(argument, sorted(known))))
        raise TypeError(
            f"{constructor}() got an unexpected keyword argument {argument!r}: expected one that "
            f"the network has ({ELSEWHERE.get(argument, near) or 'see its help'}). "
            f"{received(**{argument: arguments[argument]})}"
        )


def document(names: Iterable[str], module: Mapping[str, Any]) -> None:
    """Adds the documentation of arguments to the docstrings of constructors, as Keras does."""
    for constructor in names:
        row = next(row for row in specs.ROWS if row.constructor == constructor)
        parameters = inspect.signature(module[constructor]).parameters
        (group,) = parameters["arguments"].annotation.__args__
        GROUPS[constructor] = group
        if text := inspect.getdoc(module[constructor]):  # python -OO removes docstrings.
            reference = (name for name in groups.REFERENCES if constructor.startswith(name))
            more = (groups.TEXTS[group] + groups.RESULT).format(
                constructor=constructor,
                spec=row.spec,
                published=_published(row),
                input_shape=parameters["input_shape"].default or (None, None, 3),
                hyper_parameters=_hyper_parameters(row.spec),
                reference=groups.REFERENCES[next(reference)],
            )
            module[constructor].__doc__ = f"{text}\n\n{more}"


def _published(row: specs.Network) -> str:
    """Formats the names of a network's published weights."""
    imagenet = [specs.IMAGENET] if row.published(specs.IMAGENET) else []
    names = [f'`"{name}"`' for name in dict.fromkeys((*imagenet, *row.weights))]
    return f"; published weights: {', '.join(names)}" if names else ""


def _hyper_parameters(spec: Spec) -> str:
    """Formats the hyper-parameters of lambda layers, and of another mixer that a network has."""
    lines = []
    for mixer in dict.fromkeys(("lambda", spec.mixer or "lambda")):
        values = {**MIXERS[mixer].defaults, **spec.arguments.get(mixer, {})}
        text = ", ".join(f"{name}={value!r}" for name, value in values.items()) + "."
        lines.append(
            text if mixer == "lambda" else f"The {mixer} attention of this network: {text}"
        )
    return textwrap.fill(" ".join(lines), 88, subsequent_indent=" " * 8)


def _changed(spec: Spec, arguments: Mapping[str, Any]) -> Spec:
    """Applies arguments of a constructor to a spec; a new mixer starts from its own ones."""
    elsewhere = {"adapt_weights", "placement", *HYPER_PARAMETERS}
    changes = {name: value for name, value in arguments.items() if name not in elsewhere}
    if spec.mixer is not None:
        mixer: Any = arguments.get("mixer", spec.mixer)
        mixer_arguments = {name: arguments[name] for name in arguments.keys() & HYPER_PARAMETERS}
        check_mixer(mixer, mixer_arguments)
        mixer_arguments = {**spec.arguments.get(mixer, {}), **mixer_arguments}
        changes["arguments"] = {mixer: mixer_arguments} if mixer_arguments else {}
    if isinstance(spec, specs.MobileNetSpec):
        return replace(spec, **changes)
    if "squeeze_excitation" in changes:
        changes["squeeze_excitation"] = _by_stage(changes["squeeze_excitation"])
    if "blocks" in changes:
        spec = _with_blocks(spec, changes.pop("blocks"))
    spec = replace(spec, **changes)
    check_bools(double_attention=spec.double_attention)
    letters = arguments.get("placement")
    if letters is None:
        return spec
    return replace(spec, mixer_blocks=specs.placement(spec.blocks, letters))


def _by_stage(excited: Any) -> tuple[bool, ...]:
    """Squeeze-and-excitation by stage, from one value or four."""
    stages = excited if isinstance(excited, (tuple, list)) else (excited,) * len(specs.STAGES)
    fits = len(stages) == len(specs.STAGES) and all(isinstance(flag, bool) for flag in stages)
    expected = f"True or False, or one of them for each of the stages {specs.STAGES}"
    check(fits, expected, squeeze_excitation=excited)
    return tuple(stages)


def _with_blocks(spec: specs.ResNetSpec, blocks: Any) -> specs.ResNetSpec:
    """Changes the depth of a spec; only the small stem lets stages be left out."""
    if spec.stem != "small":
        is_four = isinstance(blocks, (tuple, list)) and len(blocks) == 4
        fits = is_four and all(type(number) is int and number > 0 for number in blocks)
        expected = f"blocks to be four positive integers, one for each of the stages {specs.STAGES}"
        check(fits, expected, blocks=blocks)
    return specs.with_blocks(spec, blocks)


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
    is_name = isinstance(name, str) and name.isprintable() and name and "/" not in name
    check(is_name, "a name without a slash or control characters", name=name)
    try:
        keras.activations.get(classifier_activation)
    except Exception as error:
        raise ValueError(
            "expected classifier_activation to be None, or a function of keras.activations or its "
            f"name. {received(classifier_activation=classifier_activation)}"
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
