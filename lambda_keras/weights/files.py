"""Reading weights files: `.weights.h5`, as `keras.Model.save_weights` writes them.

HDF5 holds arrays only, so reading a file from elsewhere runs none of its code.
"""

import os
from pathlib import Path

import h5py
import keras

CLASSIFIER = "predictions"


def load_weights(model: keras.Model, path: str | os.PathLike, architecture: str) -> None:
    """Loads a weights file into a model, after comparing every layer's name and shapes.

    A model without classifier takes the rest of a file with one.

    Args:
        model: built model; it is left as it was if the file does not fit.
        path: path of a `.weights.h5` file.

    Raises:
        ValueError: if the file is missing, is not such a file, is damaged, or holds the weights
            of another network or of another number of classes.
    """
    path = Path(path) if isinstance(path, (str, os.PathLike)) else Path(f"{path!r}")
    if not path.name.endswith(".weights.h5") or not path.is_file():
        raise ValueError(
            "expected weights to be None or the path of a .weights.h5 file that exists "
            f"(no pretrained weights are published for this model). Received: weights={str(path)!r}"
        )
    try:
        found = _shapes_in_file(path)
    except (OSError, KeyError) as error:
        raise ValueError(
            f"expected an intact HDF5 weights file. Received: {str(path)!r} ({error})"
        ) from error
    expected = {
        layer.name: sorted(tuple(variable.shape) for variable in layer.variables)
        for layer in model.layers
        if layer.variables
    }
    if CLASSIFIER not in expected:
        found.pop(CLASSIFIER, None)
    differences = [
        f"{name}: expected {expected.get(name, 'no such layer')}, "
        f"received {found.get(name, 'no such layer')}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
    if differences:
        others = f" and {len(differences) - 3} more layers" if len(differences) > 3 else ""
        raise ValueError(
            f"the weights in {str(path)!r} do not fit the model {model.name!r} (another network, "
            f"scope, or number of classes): {'; '.join(differences[:3])}{others}"
        )
    model.load_weights(path)


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
