"""Classes of images among those of a network."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from lambda_keras.applications.preprocessing import imagenet_classes
from zoo.evaluate.classes import match_classes

NUMBERS = tuple(number for number, _ in imagenet_classes())
WORDS = tuple(word.replace("_", " ") for _, word in imagenet_classes())


def network(*names: str) -> Any:
    return SimpleNamespace(name="network", class_names=names)


def test_the_same_classes_may_have_the_same_name():
    found = match_classes(network("crane", "crane", "dog"), ["crane", "crane", "dog"])
    assert found.outputs.tolist() == found.labels.tolist() == [0, 1, 2]
    for images in (["dog"], ["dog", "crane", "crane"]):  # among others nothing tells them apart
        with pytest.raises(ValueError, match=r"expected (images of )?the (3 )?classes"):
            match_classes(network("crane", "crane", "dog"), images)


@pytest.mark.parametrize(
    ("images", "subset", "outputs", "labels"),
    [
        ("abcd", None, [0, 1, 2, 3], [0, 1, 2, 3]),
        ("dbca", None, [3, 1, 2, 0], [0, 1, 2, 3]),
        ("db", None, [3, 1], [0, 1]),
        ("dbca", "ab", [0, 1], [3, 1]),
        ("dxbca", "ab", [0, 1], [4, 2]),  # images of other classes are refused when they come
    ],
)
def test_classes_are_matched_by_name(images, subset, outputs, labels):
    found = match_classes(network(*"abcd"), list(images), subset and list(subset))
    assert (found.outputs.tolist(), found.labels.tolist()) == (outputs, labels)
    assert "".join(found.names) == (subset or images)


def test_words_of_imagenet_are_its_wordnet_ids():
    found = match_classes(network(*WORDS), ["n02123394", "n01443537"])
    assert found.outputs.tolist() == [NUMBERS.index("n02123394"), 1]
    others = [word for word in WORDS if word not in ("crane", "maillot")]
    assert match_classes(network(*others), ["goldfish"]).outputs.tolist() == [1]


def test_the_softmax_is_that_of_the_selected_logits():
    logits = np.random.default_rng(0).normal(0, 9, (50, 30))
    chosen = [4, 29, 7]
    found = match_classes(network(*map(str, range(30))), [str(i) for i in chosen])
    outputs = softmax(logits.astype("float32"), -1).astype("float64")
    np.testing.assert_allclose(found.select(outputs), softmax(logits[:, chosen], -1), atol=1e-6)
    nothing = np.eye(30)[:1]  # all selected outputs are 0 in float32
    np.testing.assert_allclose(found.select(nothing), np.full((1, 3), 1 / 3))


@pytest.mark.parametrize(
    ("images", "subset", "message"),
    [
        (["a", "x"], None, "the 3 classes that network knows, or of some of them. Received: 2 cl"),
        (["a", "b", "c", "x"], None, r"Received: 4 classes \(x, ...\)"),
        (["a", "x", "c"], None, "of which number 1 is 'b'. Received: 'x'"),
        (["a", "b", "c"], ["a", "x"], r"Received: 2 classes \(x, ...\)"),
    ],
)
def test_other_classes(images, subset, message):
    with pytest.raises(ValueError, match=message):
        match_classes(network(*"abc"), images, subset)
