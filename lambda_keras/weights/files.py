"""Weights by the values of `weights=`: a path, a repository of the Hub, `"imagenet"`.

Both formats, HDF5 and safetensors, hold arrays only, so reading a file from elsewhere runs none of
its code. Those of PyTorch are pickles, which `python -m zoo.convert` turns into `.weights.h5`.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from lambda_keras.models.specs import NETWORKS, find_published, is_published_name
from lambda_keras.weights import hub
from lambda_keras.weights.fit import (
    CLASSIFIER,
    assign,
    check_fit,
    has_classifier,
    same,
    take_layers,
    without_head,
)
from lambda_keras.weights.named import assign_named, is_named
from lambda_keras.weights.state_dicts import assign_in_order, assign_state_dict, is_recognized

IMAGENET_CLASSES = 1000
KERAS, SAFETENSORS = ".weights.h5", ".safetensors"
TF_KERAS = ".h5"  # without .weights: layers by their names, as Keras 2 wrote them
PYTORCH = (".pth", ".pt", ".bin", ".tar")


def load_weights(model: keras.Model, weights: str | os.PathLike, architecture: str) -> None:
    """Loads weights into a model, after comparing every name and shape and reading every number.

    A model without classifier takes the rest of weights with one. Files have no checksums: a number
    that was damaged and is still finite is not noticed, but in published weights, whose are known.

    Args:
        model: Built model; it is left as it was if the weights do not fit.
        weights: `"imagenet"`, or another name in `PUBLISHED`; `"hf://owner/repo"` or
            `"hf://owner/repo@revision"`, a repository of the Hugging Face Hub with
            `model.safetensors` or `model.weights.h5`; the path of a folder with one of these; or
            that of a `.weights.h5` file, as `keras.Model.save_weights` writes it, of a
            `.safetensors` file of `save_safetensors`, of a `.safetensors` checkpoint of timm,
            torchvision or lambda.pytorch, or of an `.h5` file of Keras 2 with the weights of
            `keras.applications.MobileNetV2` or `tf_keras.applications.resnet_rs`.
        architecture: Name of the network in the zoo, which `"imagenet"` is looked up by.

    Raises:
        ValueError: If there are no such weights, or the file is damaged, or holds numbers that are
            not finite, or the weights of another network or of another number of classes.
        FileNotFoundError: If weights of the hub are not cached, and it cannot be reached.
    """
    if has_classifier(model):
        check_classes(weights, architecture, model.get_layer(CLASSIFIER).units)
    path = find_weights(weights, architecture)
    if path.name.endswith(KERAS):
        _load_keras(model, path)
    elif path.name.endswith(TF_KERAS):
        arrays = read_tf_keras(path)
        assign = assign_state_dict if is_recognized(arrays) else assign_in_order
        assign(model, arrays, str(path))
    elif path.name.endswith(SAFETENSORS):
        arrays, metadata = read_safetensors(path)
        if is_named(metadata):
            assign_named(model, arrays, metadata, str(path))
        else:
            assign_state_dict(model, arrays, str(path))
    else:
        raise ValueError(
            "expected a file of arrays: pickles of PyTorch are not read here. Convert it once, "
            f"with `python -m zoo.convert`. Received: weights={str(path)!r}"
        )


def check_classes(weights: str | os.PathLike, architecture: str, classes: int) -> None:
    """Refuses published weights for a classifier of other classes, before they are downloaded.

    Raises:
        ValueError: If there are such weights, and these are not the classes of ImageNet.
    """
    has_published = architecture in NETWORKS and NETWORKS[architecture].weights
    if is_published_name(weights) and has_published and classes != IMAGENET_CLASSES:
        raise ValueError(
            f"expected classes={IMAGENET_CLASSES}, include_top=False or adapt_weights=True (all "
            f"but the classifier) with weights={weights!r}. Received: classes={classes}"
        )


def load_any_classes(
    model: keras.Model, weights: str | os.PathLike, architecture: str
) -> keras.Model:
    """Loads weights like `load_weights`; of other classes, all but the classifier.

    Returns:
        What was loaded: the model, or its part before the classifier.
    """
    try:
        load_weights(model, weights, architecture)
        return model
    except ValueError as error:
        if not has_classifier(model):
            raise
        backbone = keras.Model(model.inputs, model.get_layer(CLASSIFIER).input, name=model.name)
        try:
            load_weights(backbone, weights, architecture)
        except ValueError:
            raise error from None
        return backbone


def load_adapted(
    model: keras.Model, rgb: keras.Model, weights: str | os.PathLike, architecture: str
) -> None:
    """Loads weights for RGB images, possibly of other classes, into a model for other channels.

    Raises:
        ValueError: If the weights do not fit the twin, whatever its classes.
        FileNotFoundError: If weights of the hub are not cached, and it cannot be reached.
    """
    loaded = load_any_classes(rgb, weights, architecture)
    for layer in take_layers(model, loaded):
        if isinstance(layer, keras.layers.Conv2D):  # the first one
            kernel = keras.ops.convert_to_numpy(loaded.get_layer(layer.name).kernel)
            layer.kernel.assign(_of_channels(kernel, layer.kernel.shape[2]))


def _of_channels(kernel: np.ndarray, channels: int) -> np.ndarray:
    """The kernel of a convolution of RGB for another number of channels."""
    if channels == 1:
        return kernel.sum(2, keepdims=True)
    repeated = np.tile(kernel, (1, 1, -(-channels // 3), 1))[:, :, :channels]
    return repeated * (3 / channels)


def find_weights(weights: str | os.PathLike, architecture: str) -> Path:
    """Path of the file that `weights=` stands for, downloaded if need be.

    Args:
        weights: See `load_weights`; files of PyTorch are found, too.
        architecture: Name of the network in the zoo.

    Raises:
        ValueError: If there are no such weights, or the download is damaged.
        FileNotFoundError: If weights of the hub are not cached, and it cannot be reached.
    """
    try:
        if is_published_name(weights):
            published = find_published(architecture, str(weights))
            if published.page == published.repository:
                return hub.fetch_url(published.repository, published.checksum)
            return hub.fetch(
                published.repository, [published.filename], published.revision, published.checksum
            )
        if isinstance(weights, str) and weights.startswith(hub.PREFIX):
            return hub.fetch_address(weights)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}. Save the file with a browser and pass it as weights (--model.weights FILE "
            "of zoo.train, --weights FILE of other commands), or None to start from random weights"
        ) from error
    path = Path(weights) if isinstance(weights, (str, os.PathLike)) else Path(f"{weights!r}")
    if os.path.isdir(path):
        path = next((path / name for name in hub.FILENAMES if os.path.isfile(path / name)), path)
    # os.path also says no for a path that the system refuses.
    if not path.name.endswith((TF_KERAS, SAFETENSORS, *PYTORCH)) or not os.path.isfile(path):
        raise ValueError(
            "expected weights to be None, 'imagenet', 'hf://owner/repo', a folder with "
            f"{' or '.join(hub.FILENAMES)}, or the path of a {KERAS} or {SAFETENSORS} file that "
            f"exists. Received: weights={str(path)!r}"
        )
    return path


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads all arrays of a `.safetensors` file, and the metadata in its header.

    Raises:
        ValueError: If the file is damaged, or no such file.
    """
    with _safetensors(path) as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_shapes(path: Path) -> list[tuple[int, ...]]:
    """Reads the shapes of all arrays of a `.safetensors` file from its header.

    Raises:
        ValueError: If the file is damaged, or no such file.
    """
    with _safetensors(path) as file:
        return [tuple(file.get_slice(key).get_shape()) for key in file.keys()]  # noqa: SIM118


@contextmanager
def _safetensors(path: Path) -> Iterator[Any]:
    """Opens a file, and reports damage in one line."""
    # Imported here, because most models are built without such a file.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            yield file
    except (SafetensorError, OSError, TypeError) as error:  # TypeError: a type NumPy lacks
        raise ValueError(
            f"expected an intact safetensors file. Received: {str(path)!r} ({error})"
        ) from error


def read_tf_keras(path: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a weights file of Keras 2, by `"layer/weight"`, in its order.

    Raises:
        ValueError: If the file is damaged, or takes arrays from other files.
    """
    found: dict[str, np.ndarray] = {}
    items: dict[str, Any] = {}
    with _intact(path), h5py.File(path, "r") as file:
        if "layers" in file:
            raise ValueError(f"Keras 3 wrote it, so its name has to end with {KERAS}")
        file.visititems(items.__setitem__)  # follows no links to other files
        for layer in _names(file, "layer_names"):
            for weight in _names(items[layer], "weight_names") if layer in items else ():
                item = items.get(f"{layer}/{weight}")  # "conv1/conv1/kernel:0"
                if item is None or item.external or item.is_virtual:
                    raise ValueError(f"{layer}/{weight} is in another file")
                # Keras 2 counted the stems of a process.
                name = re.sub(r"^stem_\d+_", "stem_1_", layer)
                found[f"{name}/{weight.rpartition('/')[2].partition(':')[0]}"] = _read(item)
    return found


def _names(group: h5py.Group, attribute: str) -> Iterator[str]:
    """Names that Keras 2 wrote into an attribute, or into several where one was too small."""
    parts = [attribute] if attribute in group.attrs else []
    while f"{attribute}{len(parts)}" in group.attrs:
        parts.append(f"{attribute}{len(parts)}")
    for part in parts:
        for name in group.attrs[part]:
            yield name.decode() if isinstance(name, bytes) else name


@contextmanager
def _intact(path: Path) -> Iterator[None]:
    """Reports a damaged HDF5 file in one line, whatever h5py raises."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"expected an intact HDF5 weights file. Received: {str(path)!r} ({reason})"
        ) from error


def _load_keras(model: keras.Model, path: Path) -> None:
    variables = dict(place for layer in model.layers for place in _places(layer))
    # Shapes first: arrays of a wrong file may be too large to read.
    received, names = _in_file(path, lambda dataset: dataset.shape)
    expected = {place: tuple(variable.shape) for place, variable in variables.items()}
    check_fit(model, str(path), "array", expected, without_head(model, received))
    prepared = {name for name in names if name.endswith("_pad") or name == "rescaling"}
    arrays, _ = _in_file(path, _read)
    tensors = [same(place, variable) for place, variable in variables.items()]
    assign(model, tensors, without_head(model, arrays), str(path), "array", prepared)


def _places(layer: keras.Layer) -> Iterator[tuple[str, Any]]:
    """Yields the weights of a layer by their places in a file of `keras.Model.save_weights`.

    There, a layer has a number that depends on the layers before it. Its name stands here.
    """
    numbers = Counter()
    for weight in layer.weights:
        # "lambda/query_batch_norm/gamma": layers in it have the names of their attributes.
        _, _, inner = f"/{weight.path}".partition(f"/{layer.name}/")
        parent, _, _ = f"{layer.name}/{inner}".rpartition("/")
        yield f"{parent}/vars/{numbers[parent]}", weight
        numbers[parent] += 1


def _in_file(path: Path, read: Callable[[h5py.Dataset], Any]) -> tuple[dict[str, Any], set[str]]:
    """Reads every array of the layers, or its shape, by its place as in `_places`.

    Returns:
        What was read, and the names of all layers.

    Raises:
        ValueError: If the file is damaged, or takes arrays from other files.
    """
    items: dict[str, Any] = {}
    found: dict[str, Any] = {}
    names: set[str] = set()
    with _intact(path), h5py.File(path, "r") as file:
        file.visititems(items.__setitem__)  # follows no links to other files
        for address, item in items.items():
            root, _, place = address.partition("/")
            number, _, place = place.partition("/")
            if root == "layers" and place == "vars":
                names.add(str(item.attrs.get("name")))
            if root != "layers" or not isinstance(item, h5py.Dataset):
                continue
            if item.external or item.is_virtual:
                raise ValueError(f"{address} is in another file")
            name = items[f"layers/{number}/vars"].attrs["name"]
            if not isinstance(name, str) or f"{name}/{place}" in found:
                raise ValueError(f"layers/{number} has the name {name!r}")
            found[f"{name}/{place}"] = read(item)
    return found, names


def _read(dataset: h5py.Dataset) -> np.ndarray:
    array = np.asarray(dataset[()])
    # Keras' mark: HDF5 has no bfloat16.
    return array.view("bfloat16") if dataset.attrs.get("dtype") == "bfloat16" else array
