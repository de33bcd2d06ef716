"""The models by name."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

# Without Keras, which takes seconds to import: names are checked and listed before.
from lambda_keras.models.specs import NETWORKS as TABLE
from lambda_keras.models.specs import Network
from zoo.errors import unknown

if TYPE_CHECKING:
    import keras


def list_models(pattern: str = "*", pretrained: bool = False) -> list[str]:
    """Returns the names of the models that match a shell pattern, in the order of the table.

    With `pretrained`, only models whose weights were published, such as `weights="imagenet"`.

    Example:
    >>> from zoo.registry import list_models
    >>> list_models("lambda_resnet1??")
    ['lambda_resnet101', 'lambda_resnet152']
    """
    return [
        name
        for name, row in TABLE.items()
        if fnmatchcase(name, pattern) and (row.weights or not pretrained)
    ]


def find_model(name: str) -> Network:
    """Returns the row of a model, or raises an error with the nearest names."""
    if name not in TABLE:
        raise ValueError(f"expected the name of a model. {unknown(name, TABLE)}")
    return TABLE[name]


def constructor_arguments(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a model's constructor: those of its row, and overrides."""
    given = dict(overrides)
    # Runs and published networks from before December 2026 may have mixers' arguments in a mapping.
    if isinstance(given.get("mixer_arguments"), Mapping):
        given = {**given.pop("mixer_arguments"), **given}
    return {**find_model(name).arguments, **given}


def create_model(name: str, /, **overrides: Any) -> "keras.Model":
    """Builds a model by its name: calls its constructor with `overrides`.

    Returns:
        A `keras.Model`: images of shape `(batch, height, width, 3)`, normalized by
        `lambda_keras.applications.preprocess_input`, to class probabilities.

    Raises:
        ValueError: If there is no such model, or its constructor refuses an argument.

    Example:
    >>> from zoo.registry import create_model
    >>> create_model("lambda_resnet14", classes=10, scope=5).output_shape
    (None, 10)
    """
    constructor, arguments = find_model(name).constructor, constructor_arguments(name, overrides)
    from lambda_keras import applications
    from lambda_keras.applications.build import arguments_of

    known = arguments_of(name)
    for argument in arguments:
        if argument not in known:
            raise ValueError(f"expected an argument of {constructor}. {unknown(argument, known)}")
    return getattr(applications, constructor)(**{"name": name, **arguments})
