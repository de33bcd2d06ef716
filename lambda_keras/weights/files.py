"""Loads weights by the values of `weights=`: a path, a repository of the Hub, `"imagenet"`.

Both formats, HDF5 and safetensors, hold arrays only, so reading a file from elsewhere runs none of
its code. PyTorch's files are pickles, which `python -m zoo.convert` turns into `.weights.h5`.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import keras
import numpy as np

from lambda_keras.layers.arguments import check, check_built
from lambda_keras.models.specs import class_count, find_published, is_published_name
from lambda_keras.weights import hub
from lambda_keras.weights.fit import (
    ADVICE,
    CLASSIFIER,
    assign,
    has_classifier,
    preparation,
    same,
    take_layers,
)
from lambda_keras.weights.state_dicts import assign_in_order, assign_state_dict, find_scheme

KERAS, SAFETENSORS = ".weights.h5", ".safetensors"
TF_KERAS = ".h5"  # without .weights: layers by their names, as Keras 2 wrote them
PYTORCH = (".pth", ".pt", ".bin", ".tar")
# Header of the safetensors files of `lambda_keras`; files of PyTorch lack it or have another one.
FORMAT = {"format": "lambda_keras"}


def load_weights(model: keras.Model, weights: str | os.PathLike[str], architecture: str) -> None:
    """Loads weights into a model, after comparing every name and shape and reading every number.

    A model without classifier ignores a classifier's weights. Files hold no checksums: a damaged
    number that is still finite goes unnoticed, except in published weights of known checksum.

    Args:
        model: Built model; it is left as it was if the weights do not fit.
        weights: `"imagenet"`, or another name of published weights; `"hf://owner/repo"`
            or `"hf://owner/repo@revision"`, a repository of the Hugging Face Hub with
            `model.safetensors` or `model.weights.h5`; the path of a folder with one of these;
            or the path of a `.weights.h5` file, as `keras.Model.save_weights` writes it, of a
            `.safetensors` file of `save_safetensors`, of a `.safetensors` checkpoint of timm,
            torchvision or lambda.pytorch, or of an `.h5` file of Keras 2 with the weights of
            `keras.applications.MobileNetV2` or `tf_keras.applications.resnet_rs`.
        architecture: Name of the network in the zoo, by which `"imagenet"` is looked up.

    Raises:
        ValueError: If there are no such weights, or the file is damaged, or holds numbers that are
            not finite, or the weights of another network or of another number of classes.
        FileNotFoundError: If weights of the Hub are not cached, and it cannot be reached.
    """
    check_built(model)
    classes = model.get_layer(CLASSIFIER).units if has_classifier(model) else None
    path = find_weights(weights, architecture, classes)
    if path.name.endswith(KERAS):
        _load_keras(model, path)
    elif path.name.endswith(TF_KERAS):
        arrays = read_tf_keras(path)
        assign_arrays = assign_state_dict if find_scheme(arrays) else assign_in_order
        assign_arrays(model, arrays, str(path))
    elif path.name.endswith(SAFETENSORS):
        arrays, metadata = read_safetensors(path)
        if metadata.items() >= FORMAT.items():
            tensors = [same(*named) for named in named_weights(model)]
            prepared = set(metadata.get("preparation", "").split())
            assign(model, tensors, arrays, str(path), "array", prepared)
        else:
            assign_state_dict(model, arrays, str(path))
    else:
        raise ValueError(
            "expected a file of arrays: pickles of PyTorch are not read here. Convert it once, "
            f"with `python -m zoo.convert`. Received: weights={str(path)!r}"
        )


def save_safetensors(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Writes all weights of a model of `lambda_keras.applications`, for `load_weights` to read.

    The file holds arrays such as `"c3_block1_2_lambda/key_kernel"`, in the model's precision.

    Args:
        model: Built model.
        path: File to write, `*.safetensors`; it is replaced.

    Raises:
        ValueError: If the model is not built, or the file has another name.

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
    check_built(model)
    is_path = isinstance(path, (str, os.PathLike)) and str(path).endswith(SAFETENSORS)
    check(is_path, f"the path of a {SAFETENSORS} file", path=path)
    # Imported here, because most models are built without such a file.
    from safetensors.numpy import save

    arrays = {
        name: np.ascontiguousarray(keras.ops.convert_to_numpy(variable))
        for name, variable in named_weights(model)
    }
    metadata = FORMAT | {"preparation": " ".join(sorted(preparation(model)))}
    # `save_file` would let only the owner read the file, whatever the umask allows.
    Path(path).write_bytes(save(arrays, metadata))


def named_weights(model: keras.Model) -> Iterator[tuple[str, Any]]:
    """Yields variables by `"layer/name"`; layers in a layer have the names of its attributes."""
    for layer in model.layers:
        for weight in layer.weights:
            _, _, inner = f"/{weight.path}".partition(f"/{layer.name}/")
            yield f"{layer.name}/{inner}", weight


def load_any_classes(
    model: keras.Model, weights: str | os.PathLike[str], architecture: str
) -> keras.Model:
    """Loads weights, without a classifier of other classes; returns the model that got them."""
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
    model: keras.Model,
    twin: Callable[[int], keras.Model],
    channels: int,
    weights: str | os.PathLike[str],
    architecture: str,
) -> None:
    """Loads weights of any classes, for RGB images or for the channels of the model.

    `twin` builds the network of `model` for a number of channels.
    """
    try:
        loaded = load_any_classes(twin(3), weights, architecture)
    except ValueError as error:
        try:
            loaded = load_any_classes(twin(channels), weights, architecture)
        except ValueError:
            raise error from None
    names = {layer.name for layer in loaded.layers}
    for layer in take_layers(model, loaded):
        if isinstance(layer, keras.layers.Conv2D) and layer.name in names:  # the first one
            kernel = keras.ops.convert_to_numpy(loaded.get_layer(layer.name).kernel)
            channels = layer.kernel.shape[2]
            if channels == 1:
                kernel = kernel.sum(2, keepdims=True)
            else:
                repeated = np.tile(kernel, (1, 1, -(-channels // 3), 1))[:, :, :channels]
                kernel = repeated * (3 / channels)
            layer.kernel.assign(kernel)


def find_weights(
    weights: str | os.PathLike[str], architecture: str, classes: int | None = None
) -> Path:
    """Path of the file that `weights=` of `load_weights` stands for, downloaded if need be.

    Files of PyTorch are found, too. Published weights of another number of classes are refused
    before they are downloaded.
    """
    try:
        if is_published_name(weights):
            published = find_published(architecture, str(weights))
            expected = f"classes={class_count(weights)}{ADVICE[1]} with weights={weights!r}"
            check(classes in (None, class_count(weights)), expected, classes=classes)
            if published.is_packaged:
                path = Path(str(files(published.repository) / published.filename))
                intact = f"intact {published.page} of SHA-256 {published.checksum}, as installed"
                check(hub.sha256(path) == published.checksum, intact, path=str(path))
                return path
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
    text = weights if isinstance(weights, (str, os.PathLike)) else f"{weights!r}"
    path = Path(os.path.expanduser(text))
    if os.path.isdir(path):
        path = next((path / name for name in hub.FILENAMES if os.path.isfile(path / name)), path)
    # os.path.isfile is also false for a path that the system refuses.
    if not path.name.endswith((TF_KERAS, SAFETENSORS, *PYTORCH)) or not os.path.isfile(path):
        raise ValueError(
            "expected weights to be None, 'imagenet', 'hf://owner/repo', a folder with "
            f"{' or '.join(hub.FILENAMES)}, or the path of a {KERAS} or {SAFETENSORS} file that "
            f"exists. Received: weights={str(path)!r}"
        )
    return path


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads all arrays of a `.safetensors` file, and the metadata in its header."""
    with _safetensors(path) as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_shapes(path: Path) -> list[tuple[int, ...]]:
    """Reads the shapes of all arrays of a `.safetensors` file from its header."""
    with _safetensors(path) as file:
        return [tuple(file.get_slice(key).get_shape()) for key in file.keys()]  # noqa: SIM118


@contextmanager
def _safetensors(path: Path) -> Iterator[Any]:
    # Imported here, because most models are built without such a file.
    from safetensors import safe_open

    with _intact(path, "safetensors"), safe_open(path, "numpy") as file:
        yield file


@contextmanager
def _hdf5(path: Path) -> Iterator[dict[str, Any]]:
    """Opens a file; yields it as `""`, and all groups and arrays in it by their addresses."""
    with _intact(path, "HDF5 weights"), h5py.File(path, "r") as file:
        items: dict[str, Any] = {"": file}
        file.visititems(items.__setitem__)  # follows no links to other files
        for address, item in items.items():
            if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                raise ValueError(f"{address} is in another file")
        yield items


@contextmanager
def _intact(path: Path, kind: str) -> Iterator[None]:
    """Reports damage in one line, whatever the libraries raise."""
    try:
        yield
    except Exception as error:
        reason = hub.why_pointer(path) or " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"expected an intact {kind} file. Received: {str(path)!r} ({reason})"
        ) from error


def read_tf_keras(path: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of a weights file of Keras 2, by `"layer/weight"`, in its order."""
    arrays: dict[str, np.ndarray] = {}
    with _hdf5(path) as items:
        if "layers" in items:
            raise ValueError(f"Keras 3 wrote it, so its name has to end with {KERAS}")
        for layer in _names(items[""], "layer_names"):
            for weight in _names(items[layer], "weight_names") if layer in items else ():
                # Keras 2 numbered the stems built in a process.
                name = re.sub(r"^stem_\d+_", "stem_1_", layer)
                key = weight.rpartition("/")[2].partition(":")[0]  # of "conv1/conv1/kernel:0"
                arrays[f"{name}/{key}"] = _read(items[f"{layer}/{weight}"])
    return arrays


def _names(group: h5py.Group, attribute: str) -> Iterator[str]:
    """Names that Keras 2 wrote into an attribute, or into several where one was too small."""
    parts = [attribute] if attribute in group.attrs else []
    while f"{attribute}{len(parts)}" in group.attrs:
        parts.append(f"{attribute}{len(parts)}")
    for part in parts:
        for name in group.attrs[part]:
            yield name.decode() if isinstance(name, bytes) else name


def _load_keras(model: keras.Model, path: Path) -> None:
    tensors = [same(*place) for place in _places(model)]
    shapes = {tensor.key: tensor.shape for tensor in tensors}
    arrays: dict[str, Any] = {}
    names: set[str] = set()
    with _hdf5(path) as items:
        for address, item in items.items():
            root, _, place = address.partition("/")
            number, _, place = place.partition("/")
            if root == "layers" and place == "vars":
                names.add(str(item.attrs.get("name")))
            if root != "layers" or not isinstance(item, h5py.Dataset):
                continue
            name = items[f"layers/{number}/vars"].attrs["name"]
            if not isinstance(name, str) or f"{name}/{place}" in arrays:
                raise ValueError(f"layers/{number} has the name {name!r}")
            # Arrays of another shape, which will be refused, may be too large to read.
            fits = item.shape == shapes.get(f"{name}/{place}")
            arrays[f"{name}/{place}"] = _read(item) if fits else SimpleNamespace(shape=item.shape)
    prepared = {name for name in names if name.endswith(("_pad", "rescaling"))}
    assign(model, tensors, arrays, str(path), "array", prepared)


def _places(model: keras.Model) -> Iterator[tuple[str, Any]]:
    """Yields the weights of a model by their places in a file of `keras.Model.save_weights`.

    The file numbers layers by the layers before them; here the name replaces the number.
    """
    numbers = Counter()
    for name, weight in named_weights(model):
        parent, _, _ = name.rpartition("/")  # "lambda/query_batch_norm"
        yield f"{parent}/vars/{numbers[parent]}", weight
        numbers[parent] += 1


def _read(dataset: h5py.Dataset) -> np.ndarray:
    array = np.asarray(dataset[()])
    # HDF5 has no bfloat16, so Keras marks it by an attribute.
    return array.view("bfloat16") if dataset.attrs.get("dtype") == "bfloat16" else array
