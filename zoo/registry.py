"""The models by name: what to build, at which image size, and what was published for it."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from zoo.errors import unknown

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class Row:
    """One model of the zoo.

    Attributes:
        name: The model's name on command lines and in files.
        constructor: Name of its constructor in `lambda_keras.applications`. A name and not the
            function, so that names can be checked without importing Keras.
        image_size: Height and width, in pixels, that `top1` was published for.
        top1: Published ImageNet top-1 accuracy in percent; None if none was published.
        source: Table of the LambdaNetworks paper (arXiv 2102.08602) with `top1`.
    """

    name: str
    constructor: str
    image_size: int
    top1: float | None = None
    source: str = ""


# Where the paper has several image sizes without extra data, the row is its most accurate one.
ROWS = (
    #   name                  constructor         size  top-1  source
    Row("lambda_resnet14", "LambdaResNet14", 32),
    Row("lambda_resnet50", "LambdaResNet50", 160, 79.2, "Table 19"),
    Row("lambda_resnet101", "LambdaResNet101", 192, 81.9, "Table 19"),
    Row("lambda_resnet152", "LambdaResNet152", 256, 83.8, "Table 19"),
    Row("lambda_resnet200", "LambdaResNet200", 256),
    Row("lambda_resnet270", "LambdaResNet270", 256, 84.2, "Table 19"),
    Row("lambda_resnet350", "LambdaResNet350", 320, 84.7, "Table 19"),
    Row("lambda_resnet420", "LambdaResNet420", 320, 84.9, "Table 19"),
    Row("resnet50", "ResNet50", 224, 76.9, "Table 13"),
)


def index(rows: Iterable[Row]) -> dict[str, Row]:
    """Returns the rows by name.

    Raises:
        ValueError: If two rows have the same name.
    """
    table: dict[str, Row] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"expected every model name once. Received twice: {row.name!r}")
        table[row.name] = row
    return table


TABLE = index(ROWS)


def list_models(pattern: str = "*") -> list[str]:
    """Returns the names of the models that match a shell pattern, in the order of the table.

    Args:
        pattern: Shell pattern with `*`, `?` and `[...]`. Defaults to all models.

    Example:

    >>> list_models("lambda_resnet1*")
    ['lambda_resnet14', 'lambda_resnet101', 'lambda_resnet152']
    """
    return [name for name in TABLE if fnmatchcase(name, pattern)]


def find_model(name: str) -> Row:
    """Returns the row of a model.

    Raises:
        ValueError: If there is no such model; the message has the nearest names.
    """
    if name not in TABLE:
        raise ValueError(f"expected the name of a model. {unknown(name, TABLE)}")
    return TABLE[name]


def create_model(name: str, /, **overrides: Any) -> "keras.Model":
    """Builds a model by its name.

    Args:
        name: One of `list_models()`.
        **overrides: Arguments of the model's constructor, e.g. `classes=10`.

    Returns:
        A `keras.Model`: images of shape `(batch, height, width, 3)`, normalised by
        `lambda_keras.applications.preprocess_input`, to class probabilities.

    Raises:
        ValueError: If there is no such model, or its constructor has no such argument.
    """
    row = find_model(name)
    from lambda_keras import applications

    constructor = getattr(applications, row.constructor)
    arguments = inspect.signature(constructor).parameters
    takes_any = any(a.kind is a.VAR_KEYWORD for a in arguments.values())
    for argument in overrides:
        if argument not in arguments and not takes_any:
            raise ValueError(
                f"expected an argument of {row.constructor}. {unknown(argument, arguments)}"
            )
    return constructor(**overrides)
