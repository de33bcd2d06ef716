"""Weights by what a user writes for `weights=`: a path, a repository of the hub, `"imagenet"`.

Both formats, HDF5 and safetensors, hold arrays only, so reading a file from elsewhere runs none of
its code. Those of PyTorch are pickles, which `python -m zoo.convert` turns into `.weights.h5`.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import keras
import numpy as np
from keras.src.utils.naming import to_snake_case

from lambda_keras.weights import hub
from lambda_keras.weights.fit import CLASSIFIER, check_fit, has_classifier
from lambda_keras.weights.published import PUBLISHED
from lambda_keras.weights.pytorch import assign_state_dict

IMAGENET, IMAGENET_CLASSES = "imagenet", 1000
KERAS, SAFETENSORS = ".weights.h5", ".safetensors"
PYTORCH = (".pth", ".pt", ".bin", ".tar")


def load_weights(model: keras.Model, weights: str | os.PathLike, architecture: str) -> None:
    """Loads weights into a model, after comparing every name and shape.

    A model without classifier takes the rest of weights with one.

    Args:
        model: built model; it is left as it was if the weights do not fit.
        weights: `"imagenet"`; `"hf://owner/repo"` or `"hf://owner/repo@revision"`, a repository of
            the Hugging Face hub with `model.safetensors` or `model.weights.h5`; or the path of a
            `.weights.h5` file, as `keras.Model.save_weights` writes it, or of a `.safetensors`
            checkpoint of timm, torchvision or lambda.pytorch.
        architecture: name of the network in the zoo, which `"imagenet"` is looked up by.

    Raises:
        ValueError: if there are no such weights, or the file is damaged, or holds the weights of
            another network or of another number of classes.
        FileNotFoundError: if weights of the hub are not cached, and it cannot be reached.
    """
    if weights == IMAGENET and architecture in PUBLISHED and has_classifier(model):
        classes = model.get_layer(CLASSIFIER).units
        if classes != IMAGENET_CLASSES:
            raise ValueError(
                f"expected classes={IMAGENET_CLASSES} or include_top=False with "
                f"weights={IMAGENET!r}. Received: classes={classes}"
            )
    path = find_weights(weights, architecture)
    if path.name.endswith(KERAS):
        _load_keras(model, path)
    elif path.name.endswith(SAFETENSORS):
        assign_state_dict(model, read_safetensors(path), str(path))
    else:
        raise ValueError(
            "expected a file of arrays: pickles of PyTorch are not read here. Convert it once, "
            f"with `python -m zoo.convert`. Received: weights={str(path)!r}"
        )


def find_weights(weights: str | os.PathLike, architecture: str) -> Path:
    """Path of the file that `weights=` stands for, downloaded if need be.

    Args:
        weights: see `load_weights`; files of PyTorch are found, too.
        architecture: name of the network in the zoo.

    Raises:
        ValueError: if there are no such weights, or the download is damaged.
        FileNotFoundError: if weights of the hub are not cached, and it cannot be reached.
    """
    if weights == IMAGENET:
        return _fetch_published(architecture)
    if isinstance(weights, str) and weights.startswith(hub.PREFIX):
        return hub.fetch_address(weights)
    path = Path(weights) if isinstance(weights, (str, os.PathLike)) else Path(f"{weights!r}")
    if not path.name.endswith((KERAS, SAFETENSORS, *PYTORCH)) or not path.is_file():
        raise ValueError(
            f"expected weights to be None, {IMAGENET!r}, 'hf://owner/repo', or the path of a "
            f"{KERAS} or {SAFETENSORS} file that exists. Received: weights={str(path)!r}"
        )
    return path


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a `.safetensors` file.

    Raises:
        ValueError: if the file is damaged, or no such file.
    """
    # Imported here, because most models are built without such a file.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            keys = file.keys()
            return {key: file.get_tensor(key) for key in keys}
    except (SafetensorError, OSError, TypeError) as error:  # TypeError: a type NumPy lacks
        raise ValueError(
            f"expected an intact safetensors file. Received: {str(path)!r} ({error})"
        ) from error


def _fetch_published(architecture: str) -> Path:
    published = PUBLISHED.get(architecture)
    if published is None:
        raise ValueError(
            f"no pretrained weights of {architecture!r} were ever published, only those of "
            f"{', '.join(PUBLISHED)}. Received: weights={IMAGENET!r}"
        )
    return hub.fetch(
        published.repository, [published.filename], published.revision, published.sha256
    )


def _load_keras(model: keras.Model, path: Path) -> None:
    try:
        received = _shapes_in_file(path)
    except (OSError, KeyError) as error:
        raise ValueError(
            f"expected an intact HDF5 weights file. Received: {str(path)!r} ({error})"
        ) from error
    if not has_classifier(model):
        received.pop(CLASSIFIER, None)
    expected = {
        layer.name: sorted(tuple(weight.shape) for weight in layer.weights)
        for layer in model.layers
        if layer.weights
    }
    check_fit(model, str(path), "layer", expected, received)
    with _in_order_of(model, path) as ordered:
        model.load_weights(ordered)


@contextmanager
def _in_order_of(model: keras.Model, path: Path) -> Iterator[Path]:
    """Path of a weights file whose layers come in the order of the model's.

    Keras numbers the layers of each class in the order of `model.layers`, whatever their names. The
    order is another one with stochastic depth than without, and for part of a network.
    """
    with h5py.File(path, "r") as file:
        layers = file.get("layers", {})
        found = {group["vars"].attrs.get("name"): key for key, group in layers.items()}
        counts, keys = Counter(), {}
        for layer in model.layers:
            kind = to_snake_case(type(layer).__name__)
            keys[layer.name] = f"{kind}_{counts[kind]}" if counts[kind] else kind
            counts[kind] += 1
        if all(
            found.get(layer.name) == keys[layer.name] for layer in model.layers if layer.weights
        ):
            yield path
            return
        with tempfile.TemporaryDirectory() as folder:
            ordered = Path(folder) / f"ordered{KERAS}"
            with h5py.File(ordered, "w") as copy:
                copy.create_group("vars")
                for name, key in keys.items():
                    if name in found:
                        file.copy(layers[found[name]], copy, f"layers/{key}")
                    else:
                        copy.create_group(f"layers/{key}/vars")
            yield ordered


def _shapes_in_file(path: Path) -> dict[str, list[tuple[int, ...]]]:
    """Shapes of the arrays of every layer, by the name of the layer."""
    shapes = {}
    with h5py.File(path, "r") as file:
        layers = file.get("layers")
        for group in layers.values() if isinstance(layers, h5py.Group) else ():
            arrays = []
            group.visititems(lambda _, item, arrays=arrays: arrays.append(item))
            arrays = sorted(item.shape for item in arrays if isinstance(item, h5py.Dataset))
            if arrays:
                shapes[group["vars"].attrs["name"]] = arrays
    return shapes
