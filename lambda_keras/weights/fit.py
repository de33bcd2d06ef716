"""Checks that weights fit a model, before any of them is assigned."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

CLASSIFIER = "predictions"
# NumPy knows bfloat16 through ml_dtypes, which Keras depends on.
PRECISIONS = ("float64", "float32", "float16", "bfloat16")
# Advice in errors for callers of constructors; commands leave it out.
ADVICE = (
    ": adapt_weights=True takes all but the classifier, and adapts the first convolution",
    ", include_top=False or adapt_weights=True (all but the classifier)",
)


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file, its variables, and the function that converts it to their values."""

    key: str
    shape: tuple[int, ...]
    variables: Sequence[Any]
    convert: Callable[[np.ndarray], Sequence[np.ndarray]]


def same(key: str, variable: Any) -> Tensor:
    """A tensor that is the value of one variable."""
    return Tensor(key, tuple(variable.shape), [variable], lambda array: [array])


def reordered(key: str, variable: Any, *axes: int, shape: tuple[int, ...] | None = None) -> Tensor:
    """A tensor with the axes of a variable in another order, and of a shape with axes of size 1."""
    sizes = tuple(variable.shape[axis] for axis in axes)
    back = np.argsort(axes)
    return Tensor(
        key, shape or sizes, [variable], lambda array: [array.reshape(sizes).transpose(back)]
    )


def has_classifier(model: keras.Model) -> bool:
    """Whether the model was built with `include_top=True`."""
    return any(layer.name == CLASSIFIER for layer in model.layers)


def check_fit(
    model: keras.Model, source: str, kind: str, expected: Mapping, received: Mapping
) -> None:
    """Refuses names and shapes that are not the expected ones; the message has the first three."""
    none = f"no such {kind}"
    differences = [
        f"{printable(name)}: expected {expected.get(name, none)}, "
        f"received {received.get(name, none)}"
        for name in sorted(expected.keys() | received.keys())
        if expected.get(name) != received.get(name)
    ]
    if differences:
        others = f" and {len(differences) - 3} more {kind}s" if len(differences) > 3 else ""
        raise ValueError(
            f"the weights in {source!r} do not fit the model {model.name!r} (another network, "
            f"scope, or number of classes or channels{ADVICE[0]}): "
            f"{'; '.join(differences[:3])}{others}"
        )


def preparation(model: keras.Model) -> set[str]:
    """Names of the layers without weights that pad or scale inputs of others."""
    kinds = (keras.layers.ZeroPadding2D, keras.layers.Rescaling)
    return {layer.name for layer in model.layers if isinstance(layer, kinds)}


def assign(
    model: keras.Model,
    tensors: Iterable[Tensor],
    arrays: Mapping[str, np.ndarray],
    source: str,
    kind: str = "tensor",
    prepared: set[str] | None = None,
    head: str = CLASSIFIER,
) -> None:
    """Assigns arrays to the weights of a model, all of them or none.

    If the model has no classifier, arrays of the classifier `head` are left out. `prepared` is the
    `preparation` of the model that the weights come from, where known; `source` and `kind`,
    `"array"` or `"tensor"`, are for messages.

    Raises:
        ValueError: If names or shapes differ, an array is not of floating-point numbers, or one of
            them is not finite in the precision of its variable; it names the first such array. Or
            if names and shapes fit, but inputs of layers were padded or scaled differently.
    """
    if not has_classifier(model):
        arrays = {key: array for key, array in arrays.items() if not re.match(rf"{head}[./]", key)}
    tensors = list(tensors)
    expected = {tensor.key: tensor.shape for tensor in tensors}
    check_fit(model, source, kind, expected, {key: array.shape for key, array in arrays.items()})
    # Version 0.1 named this layer `rescaling`, as a layer before the network may be named.
    prepared = prepared and {re.sub("^rescaling$", "input_rescaling", name) for name in prepared}
    differing = set() if prepared is None else preparation(model) ^ prepared
    if differing:
        raise ValueError(
            f"the weights in {source!r} do not fit the model {model.name!r}: only one of the two "
            f"has the layer {printable(min(differing))!r}. Give the padding= that they were "
            "trained with ('same' for ResNets of lambda_keras 0.1; its MobileNets have to be "
            "trained again)"
        )
    checked = []
    for tensor in tensors:
        converted = tensor.convert(np.asarray(arrays[tensor.key]))
        for variable, array in zip(tensor.variables, converted, strict=True):
            name = variable.path if kind == "array" else tensor.key
            if array.dtype.name not in PRECISIONS:
                raise ValueError(
                    f"expected floating-point weights in {source!r}. Received: {printable(name)} "
                    f"of {array.dtype}"
                )
            with np.errstate(over="ignore"):  # Overflow gives infinity, which is refused.
                value = array.astype(variable.dtype, copy=False)
            check_finite(name, value, source)
            checked.append((variable, value))
    for variable, value in checked:
        variable.assign(value)


def take_layers(model: keras.Model, source: keras.Model) -> list[keras.layers.Layer]:
    """Copies weights of layers of the same name, kind and shapes; returns the other layers."""
    others = {layer.name: layer for layer in source.layers}
    left = []
    for layer in filter(lambda layer: layer.weights, model.layers):
        other: Any = others.get(layer.name)
        shapes = [weight.shape for weight in layer.weights]
        if type(other) is type(layer) and shapes == [weight.shape for weight in other.weights]:
            layer.set_weights(other.get_weights())
        else:
            left.append(layer)
    return left


def check_finite(name: str, array: np.ndarray, source: str) -> None:
    """Refuses NaN and infinity; the message names the weights and their source."""
    finite = np.isfinite(array)
    if not finite.all():
        raise ValueError(
            f"expected finite weights in {source!r}. Received: {array[~finite][0]} in "
            f"{printable(name)}"
        )


def printable(name: str) -> str:
    """A name from a file, without control characters."""
    return name if name.isprintable() else ascii(name)
