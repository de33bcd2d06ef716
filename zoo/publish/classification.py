"""Files of a published classifier, which Keras itself can also load."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import keras

from lambda_keras.weights import save_safetensors
from lambda_keras.weights.hub import sha256
from zoo import model_card, run_folder
from zoo.cli.model_options import NETWORK
from zoo.files import keras_file
from zoo.inference.card import classifier_fields
from zoo.inference.classifier import Classifier
from zoo.inference.source.published import (
    WEIGHTS,
    ClassifierDescription,
    Published,
    TestImages,
    View,
)
from zoo.inference.source.run import Run
from zoo.publish.folder import CARD, KERAS_FILES, front_matter, license_field, started_from

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


def write_files(
    classifier: Classifier, source: Run, folder: Path, license: str | None, address: str
) -> None:
    """Writes the files of a classifier; see `zoo.publish.folder.write`."""
    with ZipFile(io.BytesIO(keras_file(classifier.model))) as archive:
        archive.extractall(folder, KERAS_FILES)
    save_safetensors(classifier.model, folder / WEIGHTS)
    run, origin = source.folder, source.card()
    config, metrics = run_folder.load_config(run), run_folder.load_metrics(run)
    description = ClassifierDescription(
        model=classifier.name,
        overrides=config.model.overrides,
        class_names=list(classifier.class_names),
        preprocessing=View(**vars(classifier.preprocessing)),
        test=TestImages(accuracy=metrics.test.accuracy, images=metrics.test_images),
        trained_on=origin["Trained on"],
        license=license,
        sha256=sha256(folder / WEIGHTS),
    )
    (folder / NETWORK).write_text(description.to_json(), encoding="utf-8")
    model_card.write_labels(folder, classifier.class_names)
    fields = {
        "Network": classifier.name,
        **{name: origin[name] for name in ("Weights", "Trained on", "Test accuracy")},
        "License": license_field(license),
        **classifier_fields(classifier, "`preprocess_input`"),
        **started_from(config.model.weights),
    }
    data = " ".join(filter(None, (config.data.source, config.data.name)))
    accuracy = {"metric_type": "accuracy", "metric_value": metrics.test.accuracy}
    model_card.write(
        folder / CARD,
        classifier.name,
        fields,
        {"Use": USE.format(address=address)},
        front_matter(description, data, "image-classification", **accuracy),
    )


def read(classifier: Classifier, folder: Path) -> Iterator[tuple[Any, bool]]:
    """Yields the model of the folder in both formats, and whether other attributes are equal."""
    found = Published(str(folder)).load()
    same = list(found.class_names) == list(classifier.class_names)
    yield found.model, same and found.preprocessing == classifier.preprocessing
    yield keras.saving.load_model(folder), True
