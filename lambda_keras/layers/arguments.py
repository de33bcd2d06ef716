"""Checks of arguments, with errors of one line: the expected and the received value."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args, get_origin

import keras


def is_integer(value) -> bool:
    """Whether a value is a Python or NumPy integer, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_positive_integer(value) -> bool:
    """Whether a value is a Python or NumPy integer above 0, and not a bool."""
    return is_integer(value) and int(value) >= 1


def is_number(value) -> bool:
    """Whether a value is a Python or NumPy real number, and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def received(**arguments) -> str:
    """`Received: name=value`, on one line whatever the values are."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return " ".join(f"Received: {given}".split())


def check(condition, expected: str, **given):
    """Refuses arguments unless a condition holds."""
    if not condition:
        raise ValueError(f"expected {expected}. {received(**given)}")


def check_bools(**arguments):
    """Checks that all arguments are True or False."""
    for name, value in arguments.items():
        check(isinstance(value, bool), "True or False", **{name: value})


def is_among(value, choices) -> bool:
    """Whether a value is among strings and `None`; arrays, which compare by element, never are."""
    return (value is None or isinstance(value, str)) and value in tuple(choices)


def check_choices(choices, **arguments):
    """Checks that all arguments are among some choices."""
    for name, value in arguments.items():
        among = ", ".join(map(str, choices))
        check(is_among(value, choices), f"{name} to be one of {among}", **{name: value})


def check_number(condition, expected: str, **argument):
    """Checks that an argument is a number that meets a condition; NaN never does."""
    (value,) = argument.values()
    check(is_number(value) and condition(value), expected, **argument)


def check_built(model):
    """Checks that a model is a built `keras.Model`."""
    fits = isinstance(model, keras.Model) and model.built
    check(fits, "a built keras.Model", model=type(model))


def check_functional(model):
    """Checks that a model is functional, or sequential with known inputs."""
    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise ValueError(f"expected a functional keras.Model. Received: a {type(model)}")


def check_tensor(name: str, tensor, kind: Literal["bool", "int"], *shapes):
    """Checks the dtype of a tensor, and that it has one of several shapes, as far as known."""
    given: Any = getattr(tensor, "shape", None)
    check(given is not None, f"{name} to be a tensor", **{name: tensor})
    given, shapes = tuple(given), [tuple(shape) for shape in shapes]
    fits = any(
        len(given) == len(shape)
        and all(None in pair or pair[0] == pair[1] for pair in zip(given, shape, strict=True))
        for shape in shapes
    )
    check(fits, f"{name} of shape {' or '.join(map(str, shapes))}", shape=given)
    expected = {"bool": "dtype bool", "int": "an integer dtype"}[kind]
    check(kind in str(tensor.dtype), f"{name} of {expected}", dtype=tensor.dtype)


class Constraint(NamedTuple):
    """Values that an argument of a layer may have."""

    expected: str
    fits: Callable[[Any], bool]


def number(expected: str, condition: Callable[[Any], bool]) -> Constraint:
    """Real numbers that meet a condition; NaN never does."""
    return Constraint(expected, lambda x: is_number(x) and condition(x))


def one_of(name: str, choices) -> Constraint:
    """Values of an argument that are among some choices."""
    among = ", ".join(map(str, choices))
    return Constraint(f"{name} to be one of {among}", lambda x: is_among(x, choices))


POSITIVE = Constraint("a positive integer", lambda x: type(x) is int and x >= 1)
ODD = Constraint("a positive odd integer", lambda x: type(x) is int and x >= 1 and x % 2 == 1)
COUNT = Constraint("an integer of at least 0", lambda x: type(x) is int and x >= 0)
FLAG = Constraint("True or False", lambda x: isinstance(x, bool))
RATIO = number("a ratio in (0, 1]", lambda x: 0 < x <= 1)
# Arguments of the batch normalizations within a layer.
MOMENTUM = number("a number from 0 to 1", lambda x: 0 <= x <= 1)
EPSILON = number("a positive number", lambda x: 0 < x < math.inf)


def constraint_of(name: str, annotation: Any) -> Constraint | None:
    """Constraint for an annotation: `int` (positive), `int | None`, `bool` or a `Literal`."""
    if get_origin(annotation) is Literal:
        return one_of(name, get_args(annotation))
    if annotation == int | None:
        return Constraint(POSITIVE.expected, lambda x: x is None or POSITIVE.fits(x))
    return {int: POSITIVE, bool: FLAG}.get(annotation)
