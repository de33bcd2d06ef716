"""Bad arguments of the functions of `zoo.api`: one line before any work."""

import os
import re

import numpy as np
import pytest

from zoo.api import evaluate, lambda_maps, load_classifier, load_data
from zoo.registry import create_model

NAME = "lambda_resnet14"
NAMES = ["a", "b", "c"]
PLACE = "source: expected a path. Received: "
ADDRESS = "expected a repository of the Hugging Face hub, 'hf://owner/repo' or "
OWN = "with weights alone: runs and published networks have their own. Received: weights=None for"
CLASSES = "class_names: expected the names of two or more classes. Received: "
SIZE = "image_size: expected an integer from 8 to 2048. Received: "

# Source, part of the message.
SOURCES = [
    (None, f"{PLACE}None"),
    (b"x", f"{PLACE}b'x'"),
    ("", f"{PLACE}''"),
    ("a" * 5000, "aaa' (File name too long)"),
    ("a\0b", r"'a\x00b' (embedded null byte)"),
    ("\ud800", r"'\ud800' ('utf-8' codec"),
    ("s3://a/b", "Received: 's3://a/b'"),
    ("hf://../x", f"{ADDRESS}'hf://owner/repo@revision'. Received: 'hf://../x'"),
    (NAME, f"weights: expected 'imagenet', or a file of weights for {NAME}: without weights it "),
    ("fifo", "the folder of a finished run. Received: 'fifo'"),
]

# Arguments of load_classifier, part of the message.
CLASSIFIERS = [
    ({"weights": 5}, "weights: expected a path. Received: 5"),
    ({"weights": ""}, "weights: expected a path. Received: ''"),
    ({"weights": "fifo"}, "file that exists. Received: weights='fifo'"),
    ({"weights": "hf://../x"}, ADDRESS),
    *(
        ({"class_names": value}, f"{CLASSES}{value!r}")
        for value in (5, "abc", ["a"], ["a", "b", ""], ["a", "b", 3])
    ),
    ({"class_names": [None] * 10**5}, f"{CLASSES}[None, None, None, None, None, None, ...]"),
    *(({"image_size": value}, SIZE + str(value)) for value in (7, 2049, 32.0, True)),
    ({"image_size": "32"}, f"{SIZE}'32'"),
    ({"weights": None, "source": "fifo"}, f"expected class_names {OWN} 'fifo'"),
]

# The same of evaluate, and of lambda_maps.
EVALUATIONS = [
    ({"data": 5}, "data: expected a dictionary of settings. Received: 5"),
    ({"data": [("dir", "a")]}, "data: expected a dictionary of settings. Received: [('dir', 'a')]"),
    ({"data": {"dir": 5}}, "data.dir: Input should be a valid string. Received: 5"),
    ({"weights": "hf://../x"}, ADDRESS),
    ({"source": "", "weights": None}, f"{PLACE}''"),
    ({"weights": "nope.h5"}, "existing file. Received: 'nope.h5'"),
    ({"image_size": 0}, "image_size: Input should be greater than or equal to 8. Received: 0"),
    ({"averaged": "x"}, "averaged: expected True or False. Received: 'x'"),
    ({"averaged": False}, "averaged: only a run has other weights than the averaged ones"),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> str:
    """Random weights of three classes."""
    path = tmp_path_factory.mktemp("weights") / "random.weights.h5"
    create_model(NAME, classes=3, input_shape=(32, 32, 3)).save_weights(path)
    return str(path)


@pytest.fixture(scope="module")
def classifier(weights):
    """A network with those weights."""
    return load_classifier(NAME, weights, NAMES, 32)


@pytest.fixture(autouse=True)
def here(here):
    """The current folder, with a pipe."""
    os.mkfifo("fifo")


def refuse(part: str, function, *arguments, **settings) -> None:
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        function(*arguments, **settings)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 500


def named(value):
    """Name of a case, alike in every process: without addresses in memory and orders of sets."""
    if isinstance(value, dict):
        return ",".join(f"{key}: {type(one).__name__}" for key, one in value.items())
    return re.sub(r" at 0x\w+", "", str(value))[-60:]


MAPS = [({"row": value}, "a position in the grid") for value in (0.5, True, -1, 8)]
MAPS += [({"layer": value}, "expected the name of a layer") for value in (3, "x")]
MAPS += [({"classifier": value}, "a classifier of load") for value in (None, "runs/mine")]
ALONE = {"weights": None, "class_names": None, "image_size": None}
ROWS = [(load_classifier, {**ALONE, "source": source}, part) for source, part in SOURCES]
TABLES = {load_classifier: CLASSIFIERS, evaluate: EVALUATIONS, lambda_maps: MAPS}
ROWS += [(function, *row) for function, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("function", "changes", "part"), ROWS, ids=named)
def test_one_line(weights, classifier, function, changes, part):
    good = {"source": NAME, "weights": weights, "image_size": 32}
    if function is lambda_maps:
        image = np.zeros((9, 9, 3), "uint8")
        good = {"classifier": classifier, "image": image, "row": 0, "column": 0}
    elif function is load_classifier:
        good["class_names"] = NAMES
    refuse(part, function, **(good | changes))


IMAGES = [(value, "expected images. Received: ") for value in ({"a": 1}, {"a.png"}, b"a.png")]
IMAGES += [("fifo", "unreadable image: fifo (not a regular file)")]


@pytest.mark.parametrize(("images", "part"), IMAGES, ids=named)
def test_images_of_a_classifier(classifier, images, part):
    refuse(part, classifier, images)


def test_no_images(classifier):
    assert classifier([]) == classifier(np.zeros((0, 32, 32, 3), "uint8")) == []


@pytest.mark.parametrize("limit", [0, 2.5, True])
def test_sample(limit):
    test = load_data(32, source="digits").test
    refuse(f"limit: expected a positive integer. Received: {limit!r}", test.sample, limit)


def test_names_may_be_an_array(weights):
    classifier = load_classifier(NAME, weights, np.array(NAMES), np.int64(16))
    assert classifier.class_names == NAMES
    assert classifier.image_size == 16
