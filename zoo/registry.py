"""Models by name: rows of `lambda_keras.models.specs`, found without Keras."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from lambda_keras.models.specs import NETWORKS, Network
from zoo.errors import check_known

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
        for name, row in NETWORKS.items()
        if fnmatchcase(name, pattern) and (row.weights or not pretrained)
    ]


def find_model(name: str) -> Network:
    """Returns the row of a model, or raises an error with the nearest names."""
    check_known(name, NETWORKS, "expected the name of a model")
    return NETWORKS[name]


def constructor_arguments(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a model's constructor: its row's, and overrides."""
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
    from lambda_keras.applications.build import check_names

    try:
        check_names(constructor, arguments)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return getattr(applications, constructor)(**{"name": name, **arguments})
