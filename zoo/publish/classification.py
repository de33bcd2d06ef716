"""Files of a published classifier, which Keras itself can also load."""

import io
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import keras

from lambda_keras.weights import save_safetensors
from zoo.files import keras_file
from zoo.inference.classifier import Classifier
from zoo.inference.source.published import WEIGHTS, ClassifierDescription, Published, TestImages
from zoo.publish.folder import KERAS_FILES, Contents, Publisher
from zoo.run_folder import load_config, load_metrics


class ClassifierPublisher(Publisher[Classifier]):
    """Publisher of classifiers: Keras' own files, and the weights as safetensors."""

    task, library = "image-classification", "keras"
    use = files("zoo.publish").joinpath("classification.md").read_text("utf-8")

    def write_weights(self, network: Classifier, folder: Path) -> None:
        with ZipFile(io.BytesIO(keras_file(network.model))) as archive:
            archive.extractall(folder, KERAS_FILES)
        save_safetensors(network.model, folder / WEIGHTS)

    def contents(self, network: Classifier, run: Path, common: Mapping[str, Any]) -> Contents:
        config, metrics = load_config(run), load_metrics(run)
        return Contents(
            description=ClassifierDescription(
                overrides=config.model.overrides,
                class_names=list(network.class_names),
                preprocessing=network.preprocessing,
                test=TestImages(accuracy=metrics.test.accuracy, images=metrics.test_images),
                **common,
            ),
            title=network.name,
            labels=network.class_names,
            fields={"Network": network.name, **network.card("`preprocess_input`")},
            started_from=config.model.weights,
            data=" ".join(filter(None, (config.data.source, config.data.name))),
            metric=("accuracy", metrics.test.accuracy),
        )

    def read(self, network: Classifier, folder: Path) -> Iterator[tuple[Any, bool]]:
        published = Published(str(folder)).load()
        same = list(published.class_names) == list(network.class_names)
        yield published.model, same and published.preprocessing == network.preprocessing
        yield keras.saving.load_model(folder), True
