"""Checks of arguments, with errors of one line: the expected and the received value."""

from numbers import Integral, Real


def is_positive_integer(value) -> bool:
    """Whether a value is an integer above 0, of Python or NumPy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def is_number(value) -> bool:
    """Whether a value is a real number, of Python or NumPy, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def received(**arguments) -> str:
    """`Received: name=value`, on one line whatever the values are."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return " ".join(f"Received: {given}".split())


def check_positive_integers(**arguments):
    """Checks that all arguments are integers above 0."""
    for name, value in arguments.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"expected a positive integer. {received(**{name: value})}")


def check_bools(**arguments):
    """Checks that all arguments are True or False."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise ValueError(f"expected True or False. {received(**{name: value})}")


def check_number(condition, expected: str, **argument):
    """Checks that an argument is a number that meets a condition; NaN never does."""
    ((name, value),) = argument.items()
    if not is_number(value) or not condition(value):
        raise ValueError(f"expected {expected}. {received(**{name: value})}")


def check_mask(name: str, mask, shape):
    """Checks that a mask is a boolean tensor of a shape, as far as the shape is known."""
    given = getattr(mask, "shape", None)
    if given is None:
        raise ValueError(f"expected {name} to be a tensor. {received(**{name: mask})}")
    given, shape = tuple(given), tuple(shape)
    if len(given) != len(shape) or any(
        None not in (n, m) and n != m for n, m in zip(given, shape, strict=True)
    ):
        raise ValueError(f"expected {name} of shape {shape}. Received: shape {given}")
    if "float" in str(mask.dtype) or "complex" in str(mask.dtype):
        raise ValueError(f"expected {name} of dtype bool. Received: dtype {mask.dtype}")
