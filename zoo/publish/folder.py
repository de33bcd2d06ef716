"""The folder of a published network: weights, labels, preprocessing, accuracy, model card."""

import io
from pathlib import Path
from zipfile import ZipFile

import keras
import numpy as np

from lambda_keras.weights import save_safetensors
from lambda_keras.weights.hub import sha256
from zoo import model_card, run_folder
from zoo.cli.model_options import NETWORK
from zoo.errors import some
from zoo.files import atomic_write, is_partial, keras_file, restore
from zoo.inference.classifier import Classifier
from zoo.inference.facts import LICENSE, facts_of, origin_of_run
from zoo.inference.published import (
    WEIGHTS,
    PublishedNetwork,
    TestImages,
    View,
    to_json,
)

CARD = "README.md"  # the page of a repository on the hub
KERAS_FILES = ("config.json", "metadata.json", "model.weights.h5")  # its layout of a repository
FILES = {CARD, NETWORK, WEIGHTS, model_card.LABELS, *KERAS_FILES}
USE = """```python
from zoo.api import load_classifier

classifier = load_classifier({address!r})
classifier("photo.jpg")  # the most probable classes, with their probabilities
```

The network alone, for images that passed `lambda_keras.applications.preprocess_input`:

```python
import keras
import lambda_keras

model = keras.saving.load_model({address!r})
```"""


def check_is_free(folder: Path, overwrite: bool) -> None:
    """Makes sure that writing a folder destroys nothing but a published network.

    Raises:
        ValueError: If it holds other files, or a published network that may not be replaced.
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


def write(run: Path, folder: Path, license: str | None, address: str) -> None:
    """Writes the network of a finished run, and reads it again; it is whole or not there.

    Args:
        run: Folder of the run.
        folder: Folder to write; a network in it is replaced.
        license: SPDX identifier for the weights; None if none is stated.
        address: Where others find it, as the card names it.

    Raises:
        ValueError: If there is no such run, or it is damaged.
    """
    classifier = Classifier.from_run(run)
    with atomic_write(folder, over_folder=True) as beside:
        _write_files(classifier, run, beside, license, address)
        _check_same(classifier, beside)
        check_is_free(folder, overwrite=True)  # again: this has taken a while


def _write_files(
    classifier: Classifier, run: Path, folder: Path, license: str | None, address: str
) -> None:
    with ZipFile(io.BytesIO(keras_file(classifier.model))) as archive:
        archive.extractall(folder, KERAS_FILES)
    save_safetensors(classifier.model, folder / WEIGHTS)
    config, metrics = run_folder.load_config(run), run_folder.load_metrics(run)
    origin = origin_of_run(run)
    view = classifier.preprocessing
    network = PublishedNetwork(
        model=classifier.name,
        overrides=config.model.overrides,
        class_names=list(classifier.class_names),
        preprocessing=View(**vars(view)),
        test=TestImages(accuracy=metrics.test.accuracy, images=metrics.test_images),
        trained_on=origin["Trained on"],
        license=license,
        sha256=sha256(folder / WEIGHTS),
    )
    (folder / NETWORK).write_text(to_json(network), encoding="utf-8")
    model_card.write_labels(folder, classifier.class_names)
    facts = {
        "Network": classifier.name,
        **{name: origin[name] for name in ("Weights", "Trained on", "Test accuracy")},
        "License": license or f"none is stated for these weights; {LICENSE}",
        **facts_of(classifier, "`preprocess_input`"),
    }
    if config.model.weights is not None:
        facts["Started from"] = _origin_of_start(config.model.weights)
    model_card.write(
        folder / CARD,
        classifier.name,
        facts,
        {"Use": USE.format(address=address)},
        _front_matter(network, " ".join(filter(None, (config.data.source, config.data.name)))),
    )


def _origin_of_start(weights: str) -> str:
    """Names weights that training started from; of a file the name alone, for paths are private."""
    return Path(weights).name if "://" not in weights else weights


def _front_matter(network: PublishedNetwork, data: str) -> str:
    """Returns the metadata by which the hub lists the network."""
    from huggingface_hub import EvalResult, ModelCardData

    result = EvalResult(
        task_type="image-classification",
        dataset_type=data.replace(" ", "_"),
        dataset_name=data,
        metric_type="accuracy",
        metric_value=network.test.accuracy,
    )
    return ModelCardData(
        library_name="keras",
        license=None if network.license is None else network.license.lower(),
        pipeline_tag="image-classification",
        tags=["lambda_keras", "lambda-networks", "image-classification"],
        model_name=network.model,
        eval_results=[result],
    ).to_yaml()


def _check_same(classifier: Classifier, folder: Path) -> None:
    """Reads the folder in both ways; what comes back has to be what was written, to the bit.

    Raises:
        ValueError: If it is not.
    """
    read = Classifier.from_published(str(folder))
    expected = classifier.model.get_weights()
    for model in (read.model, keras.saving.load_model(folder)):
        received = model.get_weights()  # pyright: ignore[reportOptionalMemberAccess]
        same = len(received) == len(expected) and all(map(np.array_equal, received, expected))
        if not same:
            raise ValueError(f"expected {folder.name} to hold the weights of the run; it does not")
    if (read.preprocessing, list(read.class_names)) != (
        classifier.preprocessing,
        list(classifier.class_names),
    ):
        raise ValueError(f"expected {folder.name} to hold what the run does; it does not")
