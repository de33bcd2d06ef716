"""Folders of zoo.publish: their description, and the errors of wrong ones."""

import json
import re
import threading

import keras
import pytest
from support.damage import flip

from zoo.api import load_classifier
from zoo.inference.source import published as source
from zoo.inference.source.published import ClassifierDescription


def test_description_survives_writing(copy):
    network, weights = source.read(str(copy), ClassifierDescription)
    assert weights == copy / "model.safetensors"
    assert (network.model, network.license) == ("lambda_resnet14", "CC-BY-4.0")
    assert network.trained_on == "digits, 1,437 images, 1 epochs"
    assert network.test.images == 360
    (copy / "lambda_keras.json").write_text(network.model_dump_json())
    assert source.read(str(copy), ClassifierDescription)[0] == network


VIEW = {"image_size": 16, "crop_fraction": 1.0, "interpolation": "bilinear"}
VIEW |= {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
INTACT = "expected an intact lambda_keras.json"
UNFIT = "do not fit the model that lambda_keras"


@pytest.mark.parametrize(
    ("changes", "message", "kind"),
    [
        ({"format": 2}, "format: Input should be 1", INTACT),
        ({"model": "lambda_resnet15"}, "the name of a model. Received: 'lambda_resnet15'", INTACT),
        ({"overrides": {"weights": "/etc/passwd"}}, "Received: weights", INTACT),
        ({"overrides": {"classes": 3}}, "Received: classes", INTACT),
        ({"class_names": ["one"]}, "class_names: List should have at least 2 items", INTACT),
        ({"preprocessing": VIEW | {"image_size": 7}}, "preprocessing: expected an im", INTACT),
        ({"preprocessing": VIEW | {"image_size": 2049}}, "an image_size from 8 to 2048", INTACT),
        ({"preprocessing": VIEW | {"interpolation": "nearest"}}, "interpolation bilin", INTACT),
        ({"preprocessing": VIEW | {"mean": [0, 0, 0]}}, "of preprocess_input", INTACT),
        ({"test": {"accuracy": 2, "images": 1}}, "test.accuracy: Input should be less", INTACT),
        ({"test": {"accuracy": 1, "images": 0}}, "test.images: Input should be greater", INTACT),
        ({"trained_on": "x" * 1001}, "trained_on: String should have at most 1000", INTACT),
        ({"license": "x" * 101}, "license: String should have at most 100", INTACT),
        ({"sha256": "abc"}, "sha256: String should match", INTACT),
        ({"code": "import os"}, "code: Extra inputs are not permitted", INTACT),
        (b"{", INTACT, INTACT),
        (b"[]", INTACT, INTACT),
        (b"\xff\xfe", INTACT, INTACT),
        (b" " * (source.MAX_BYTES + 1), "(more than ", INTACT),
        # Of another network:
        ({"class_names": ["a", "b"]}, "do not fit the model", ""),
        ({"overrides": {"magic": 7}}, "magic", ""),
        # Of a huge one, which takes no memory: scope 20001 has 25 GB in each lambda layer.
        ({"overrides": {"scope": 20001}}, UNFIT, ""),
        ({"overrides": {"key_dim": 10**9}}, UNFIT, ""),
        ({"overrides": {"filters": 10**7}}, UNFIT, ""),
        ({"overrides": {"blocks": [10**6, 1, 1, 1]}}, UNFIT, ""),
    ],
)
def test_a_description_that_cannot_be_or_is_of_another_is_refused(copy, changes, message, kind):
    path = copy / "lambda_keras.json"
    whole = isinstance(changes, bytes)
    described = json.loads(path.read_text())
    path.write_bytes(changes if whole else json.dumps(described | changes).encode())
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load_classifier(copy)
    assert kind in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_threads_build_what_they_like(published):
    with source.bounded_by(published / "model.safetensors"):
        building = threading.Thread(target=keras.layers.Dense(12345).build, args=((1, 2),))
        building.start()
        building.join()
        with pytest.raises(ValueError, match=r"expected an array of shape \(2, 12345\)"):
            keras.layers.Dense(12345).build((1, 2))


def test_damaged_or_missing_weights_are_refused(copy):
    path = copy / "model.safetensors"
    flip(path, -1)
    with pytest.raises(ValueError, match="damaged file: expected SHA-256"):
        source.read(str(copy), ClassifierDescription)
    path.unlink()
    with pytest.raises(ValueError, match=r"expected model\.safetensors in .*No such file"):
        source.read(str(copy), ClassifierDescription)


def test_weights_are_of_the_commit_of_their_description(copy, monkeypatch):
    """Also if the branch moves on between the two downloads."""
    asked = []

    def fetch(repository, names, revision, checksum=None):
        asked.append((repository, names, revision))
        return copy / names[0]

    monkeypatch.setattr(source.hub, "fetch", fetch)
    source.read("hf://owner/name@v1", ClassifierDescription)
    assert asked == [
        ("owner/name", ["lambda_keras.json"], "v1"),
        ("owner/name", ["model.safetensors"], copy.name),
    ]


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(ValueError, match=r"a folder of python -m zoo\.publish"):
        source.read(str(tmp_path), ClassifierDescription)
    with pytest.raises(ValueError, match="the folder of a finished run"):
        load_classifier(tmp_path)
