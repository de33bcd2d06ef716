"""Folders of published networks: weights, description, labels, model card."""

from pathlib import Path
from typing import Any

import numpy as np

from zoo import model_card
from zoo.cli.model_options import NETWORK
from zoo.config.task import CLASSIFICATION, DETECTION, network_task, task_module
from zoo.errors import some
from zoo.files import atomic_write, is_partial, restore
from zoo.inference.source.base import LICENSE
from zoo.inference.source.published import WEIGHTS, Description

TASKS = {CLASSIFICATION: "zoo.publish.classification", DETECTION: "zoo.publish.detection"}
CARD = "README.md"  # shown as the page of a repository on the hub
KERAS_FILES = ("config.json", "metadata.json", "model.weights.h5")  # Keras' layout of a repository
FILES = {CARD, NETWORK, WEIGHTS, model_card.LABELS, *KERAS_FILES}


def check_is_free(folder: Path, overwrite: bool) -> None:
    """Checks that writing a folder replaces nothing but a published network.

    Raises:
        ValueError: If it holds other files, or a published network and `overwrite` is False.
    """
    restore(folder)
    found = [path for path in folder.iterdir() if not is_partial(path)] if folder.is_dir() else []
    if not found:
        return
    others = sorted(path.name for path in found if path.name not in FILES or not path.is_file())
    if others or folder / NETWORK not in found:
        names = some(others or sorted(path.name for path in found))
        raise ValueError(
            f"expected a new folder. Received: {str(folder)!r}, with other files ({names})"
        )
    if not overwrite:
        raise ValueError(
            f"expected a new folder, or --overwrite true. Received: {str(folder)!r}, with a "
            "published network"
        )


def write(source: Any, folder: Path, license: str | None, address: str) -> None:
    """Writes the network of a finished run atomically, and verifies the files by reading them.

    Args:
        source: Source of the run.
        folder: Folder to write; a published network in it is replaced.
        license: SPDX identifier for the weights; None if none is stated.
        address: Address of the network, for the model card.

    Raises:
        ValueError: If there is no such run, or it is damaged.
    """
    kind, network = task_module(network_task(source.folder, None), TASKS), source.load()
    with atomic_write(folder, over_folder=True) as beside:
        beside.mkdir()
        kind.write_files(network, source, beside, license, address)
        check_same(kind, network, beside)
        check_is_free(folder, overwrite=True)  # again, after a while


def check_same(kind: Any, network: Any, folder: Path) -> None:
    """Loads the folder in every way, and compares the network bit by bit.

    Raises:
        ValueError: If it differs.
    """
    expected = [np.asarray(array) for array in network.model.get_weights()]
    for model, same in kind.read(network, folder):
        received = model.get_weights()
        if len(received) != len(expected) or not all(map(np.array_equal, received, expected)):
            raise ValueError(f"expected {folder.name} to hold the weights of the run; it does not")
        if not same:
            raise ValueError(f"expected {folder.name} to hold what the run does; it does not")


def front_matter(description: Description, data: str, task: str, **metric: Any) -> str:
    """Returns the YAML metadata of the model card, for the hub."""
    from huggingface_hub import EvalResult, ModelCardData

    result = EvalResult(
        task_type=task, dataset_type=data.replace(" ", "_"), dataset_name=data, **metric
    )
    return ModelCardData(
        # The hub shows loading code of this library; Keras itself loads no detectors.
        library_name="keras" if task == "image-classification" else "lambda_keras",
        license=None if description.license is None else description.license.lower(),
        pipeline_tag=task,
        tags=["lambda_keras", "lambda-networks", task],
        model_name=description.model,
        eval_results=[result],
    ).to_yaml()


def license_field(license: str | None) -> str:
    """Returns the card field about the license."""
    return license or f"none is stated for these weights; {LICENSE}"


def started_from(weights: str | None) -> dict[str, str]:
    """Returns the card field about initial weights; only names of files, as paths are private."""
    if weights is None:
        return {}
    return {"Started from": Path(weights).name if "://" not in weights else weights}
