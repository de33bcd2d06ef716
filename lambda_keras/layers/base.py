"""Base class of the layers, and functions that several layers share."""

import inspect
import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, get_type_hints

import keras
from keras import initializers, ops, regularizers

from lambda_keras.layers.arguments import Constraint, check, constraint_of, received

# Kinds of operations in the results of `count_flops`; then parts of lambda and attention layers.
CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"


class Layer(keras.layers.Layer):
    """Keras layer that keeps each argument as an attribute, which `get_config` reads.

    `__init__` calls `self.keep(locals())`, which checks the arguments by their annotations and by
    `constraints`: an `int` is a positive integer, a `bool` is True or False.
    """

    # Constraints on arguments that annotations do not express.
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    _kept: tuple[str, ...] = ()  # names; a subclass may have arguments that it does not keep

    @classmethod
    def arguments(cls) -> dict[str, Any]:
        """Arguments and their defaults, without arguments of `keras.layers.Layer`."""
        defaults: dict[str, Any] = {}
        for base in cls.__mro__[: cls.__mro__.index(keras.layers.Layer)]:
            if "__init__" in vars(base):
                _, *parameters = inspect.signature(base.__init__).parameters.values()
                for parameter in parameters:
                    if parameter.kind is not parameter.VAR_KEYWORD:
                        defaults.setdefault(parameter.name, parameter.default)
        return defaults

    def keep(self, given: Mapping[str, Any]):
        """Checks the arguments in `locals()` of an `__init__`, and keeps them as attributes."""
        owner: Any = given.get("__class__", type(self))  # the class that defines this `__init__`
        for name, constraint in constraints_of(owner).items():
            if name not in given:
                continue
            value = given[name]
            if constraint is not None:
                check(constraint.fits(value), constraint.expected, **{name: value})
            for kind, get in (("initializer", initializers.get), ("regularizer", regularizers.get)):
                if name.endswith(f"_{kind}"):
                    value = _look_up(get, f"None, or a Keras {kind} or its name", name, value)
            setattr(self, name, value)
            self._kept = (*self._kept, name)

    def require(self, condition, expected: str, *names: str):
        """Refuses the named arguments unless a condition on them holds."""
        check(condition, expected, **{name: getattr(self, name) for name in names})

    def get_config(self):
        config = {name: getattr(self, name) for name in self._kept}
        for name, value in config.items():
            if name.endswith(("_initializer", "_regularizer")):
                config[name] = keras.saving.serialize_keras_object(value)
        return {**super().get_config(), **config}


@cache
def constraints_of(cls: type[Layer]) -> dict[str, Constraint | None]:
    """Constraints of the arguments of a layer, by name; `None` allows any value."""
    hints: dict[str, Any] = {}
    declared: dict[str, Constraint] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(keras.layers.Layer)]):
        hints |= get_type_hints(vars(base).get("__init__", object))
        declared |= vars(base).get("constraints", {})
    return {
        name: declared.get(name) or constraint_of(name, hints.get(name)) for name in cls.arguments()
    }


def _look_up(get, expected: str, name: str, value):
    """Looks up a value by a function of Keras, with one error in place of its many kinds."""
    try:
        return get(value)
    except Exception:
        raise ValueError(f"expected {expected}. {received(**{name: value})}") from None


def fan_in(scale: float = 1.0):
    """Initializer `N(0, (scale / fan_in)^1/2)` (E.1)."""
    return initializers.VarianceScaling(
        scale=scale, mode="fan_in", distribution="untruncated_normal"
    )


def inner_dense(layer, name: str, depth: int, units: int, **arguments) -> keras.layers.Dense:
    """Builds a dense layer inside another layer, with the dtype policy of that layer."""
    shared = {"trainable": layer.trainable, "dtype": layer.dtype_policy, "name": name}
    dense = keras.layers.Dense(units, **arguments, **shared)
    dense.build((None, depth))
    return dense


def project(inputs, kernels):
    """Projects `(b, *grid, d)` to `(b, n, units)` for each kernel `(d, units)`, in one product."""
    batch, *_, depth = ops.shape(inputs)
    kernel = ops.concatenate([ops.convert_to_tensor(kernel) for kernel in kernels], axis=1)
    projected = ops.matmul(ops.reshape(inputs, (-1, depth)), kernel)
    projected = ops.reshape(projected, (batch, -1, kernel.shape[1]))
    ends = list(itertools.accumulate(kernel.shape[1] for kernel in kernels))
    return ops.split(projected, ends[:-1], axis=-1) if len(kernels) > 1 else [projected]
