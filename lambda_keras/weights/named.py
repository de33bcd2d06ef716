"""Safetensors files of `lambda_keras`: weights by the names of layers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.weights.fit import (
    assign,
    preparation,
    same,
    without_head,
)

# Header of such a file; files of PyTorch lack it or have another one.
FORMAT = {"format": "lambda_keras"}
_PREPARATION = "preparation"


def save_safetensors(model: keras.Model, path: Path) -> None:
    """Writes all weights of a model of `lambda_keras.applications`, for `load_weights` to read.

    A file holds arrays alone, in the precision of the model: `"c3_block1_2_lambda/key_kernel"`.

    Args:
        model: Built model.
        path: File to write, `*.safetensors`; it is replaced.

    Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lambda_keras.applications import LambdaResNet14
    >>> from lambda_keras.weights import load_weights, save_safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save_safetensors(LambdaResNet14(classes=3), path)
    ...     load_weights(LambdaResNet14(classes=3), path, "lambda_resnet14")
    """
    # Imported here, because most models are built without such a file.
    from safetensors.numpy import save

    arrays = {
        name: np.ascontiguousarray(keras.ops.convert_to_numpy(variable))
        for name, variable in named_weights(model).items()
    }
    metadata = FORMAT | {_PREPARATION: " ".join(sorted(preparation(model)))}
    # Not `save_file`, whose files are for their owner alone, whatever the umask allows.
    Path(path).write_bytes(save(arrays, metadata))


def named_weights(model: keras.Model) -> dict[str, Any]:
    """Variables of a model by `"layer/name"`."""
    named = {}
    for layer in model.layers:
        for weight in layer.weights:
            _, _, inner = f"/{weight.path}".partition(f"/{layer.name}/")
            name = f"{layer.name}/{inner}"
            if name in named:
                raise ValueError(f"expected weights with names of their own. Received: two {name}")
            named[name] = weight
    return named


def is_named(metadata: Mapping[str, str]) -> bool:
    """Whether the header of a safetensors file is that of `save_safetensors`."""
    return metadata.items() >= FORMAT.items()


def assign_named(
    model: keras.Model, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str], source: str
) -> None:
    """Assigns weights of `save_safetensors`; a model without classifier takes the rest.

    Args:
        model: Built model; it is left as it was if the weights do not fit.
        arrays: By their names in the file.
        metadata: Header of the file.
        source: Where they come from, for messages.

    Raises:
        ValueError: If they are those of another network, or hold numbers that are not finite.
    """
    arrays = without_head(model, arrays)
    tensors = [same(name, variable) for name, variable in named_weights(model).items()]
    prepared = set(metadata.get(_PREPARATION, "").split())
    assign(model, tensors, arrays, source, "array", prepared)
