"""The models by name: rows of `lambda_keras.models.specs.NETWORKS`, read without Keras."""

import inspect
import math
import re
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import unknown

if TYPE_CHECKING:
    import keras

    from lambda_keras.models.specs import Network

CLASSIFIER = "predictions"  # name of the last layer of every classifier
# Instructions with which TensorFlow's library computes bfloat16 in half of float32's time.
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})

# Run as a file, because importing the package would import Keras, which takes seconds: names are
# checked and listed without it.
_SPECS = Path(__file__).parents[1] / "lambda_keras" / "models" / "specs.py"
_NAMES = runpy.run_path(str(_SPECS))
TABLE: "dict[str, Network]" = _NAMES["NETWORKS"]
is_published_name: Callable[[object], bool] = _NAMES["is_published_name"]


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


def find_model(name: str) -> "Network":
    """Returns the row of a model, or raises an error with the nearest names."""
    if name not in TABLE:
        raise ValueError(f"expected the name of a model. {unknown(name, TABLE)}")
    return TABLE[name]


def create_model(name: str, /, **overrides: Any) -> "keras.Model":
    """Builds a model by its name; `overrides` are arguments of its constructor.

    In residual networks with lambda layers, any `mixer` may be chosen, and its hyper-parameters may
    stand next to the others, as on command lines: `mixer="global", num_heads=4`.

    Returns:
        A `keras.Model`: images of shape `(batch, height, width, 3)`, normalized by
        `lambda_keras.applications.preprocess_input`, to class probabilities.
    """
    row = find_model(name)
    from lambda_keras import applications
    from lambda_keras.applications.build import arguments_of, build, constructor_arguments

    known = arguments_of(row.name)
    for argument in overrides:
        if argument not in known:
            raise ValueError(
                f"expected an argument of {row.constructor}. {unknown(argument, known)}"
            )
    *parameters, _ = inspect.signature(getattr(applications, row.constructor)).parameters.values()
    arguments = {"name": name, **constructor_arguments(name, overrides)}
    network = next(one.default for one in parameters if one.name == "name")
    shared = {one.name: arguments.pop(one.name, one.default) for one in parameters}
    return build(network, **shared, arguments={}, **arguments)


def instruction_sets() -> frozenset[str]:
    """Returns the instruction sets of the CPU, by Linux' names; none on other systems."""
    info = Path("/proc/cpuinfo")
    known = re.search(r"^flags\s*:(.*)", info.read_text() if info.is_file() else "", re.M)
    return frozenset(known[1].split() if known else ())


def resolve_precision(policy: str | None, kind: str | None = None) -> str | None:
    """Replaces `auto` by the dtype policy that is fast on a kind of device, and says which.

    It is mixed_bfloat16 on TPUs, and for TensorFlow on CPUs with AVX-512 BF16 or AMX, else float32.
    The kind is "CPU", "GPU" or "TPU"; None: that of the backend.
    """
    if policy != "auto":
        return policy
    from keras import config

    from lambda_keras.layers.position_lambdas import device_kind

    kind = (kind or device_kind()).upper()
    has = sorted(instruction_sets() & BFLOAT16) if config.backend() == "tensorflow" else []
    fast = kind == "TPU" or (kind == "CPU" and has)
    chosen = "mixed_bfloat16" if fast else "float32"
    print(f"precision: {chosen} ({', '.join(['auto', kind, *has * (kind == 'CPU')])})", flush=True)
    return chosen


@contextmanager
def precision(policy: str) -> Iterator[None]:
    """Sets a dtype policy of Keras in the `with` block."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def set_batch_norm(model: "keras.Model", momentum: float | None, synchronized: bool) -> None:
    """Sets up every batch normalization of a network before its call; momentum None: as it is."""
    import keras

    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = synchronized
            if momentum is not None:
                layer.momentum = momentum


def kernels(model: "keras.Model") -> list[Any]:
    """Returns the trainable kernels, which weight decay is for."""
    return [variable for variable in model.trainable_variables if variable.name.endswith("kernel")]


def trainable_parameters(model: "keras.Model") -> int:
    """Returns how many numbers of a model training changes."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
