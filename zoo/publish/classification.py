"""Files of a published classifier, which Keras itself can also load."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import keras

from lambda_keras.weights import save_safetensors
from zoo.files import keras_file
from zoo.inference.classifier import Classifier
from zoo.inference.source.published import WEIGHTS, ClassifierDescription, Published, TestImages
from zoo.publish.folder import KERAS_FILES, Contents
from zoo.run_folder import load_config, load_metrics

TASK = "image-classification"


def write_weights(classifier: Classifier, folder: Path) -> None:
    """Writes Keras' own files, and the weights as safetensors."""
    with ZipFile(io.BytesIO(keras_file(classifier.model))) as archive:
        archive.extractall(folder, KERAS_FILES)
    save_safetensors(classifier.model, folder / WEIGHTS)


def contents(classifier: Classifier, run: Path, common: Mapping[str, Any]) -> Contents:
    """Returns description and card; `common` has the fields of every task's description."""
    config, metrics = load_config(run), load_metrics(run)
    return Contents(
        description=ClassifierDescription(
            overrides=config.model.overrides,
            class_names=list(classifier.class_names),
            preprocessing=classifier.preprocessing,
            test=TestImages(accuracy=metrics.test.accuracy, images=metrics.test_images),
            **common,
        ),
        title=classifier.name,
        labels=classifier.class_names,
        fields={"Network": classifier.name, **classifier.card("`preprocess_input`")},
        started_from=config.model.weights,
        data=" ".join(filter(None, (config.data.source, config.data.name))),
        metric=("accuracy", metrics.test.accuracy),
    )


def read(classifier: Classifier, folder: Path) -> Iterator[tuple[Any, bool]]:
    """Yields the model of the folder in both formats, and whether other attributes are equal."""
    found = Published(str(folder)).load()
    same = list(found.class_names) == list(classifier.class_names)
    yield found.model, same and found.preprocessing == classifier.preprocessing
    yield keras.saving.load_model(folder), True
