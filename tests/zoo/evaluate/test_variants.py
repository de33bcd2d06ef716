"""Variants of ImageNet, on small data in the layout of each set of TFDS."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from scipy.special import softmax
from support.imagenet_variants import NUMBERS, logits, random_colors, run, write_network, write_set

from zoo.config import TrainConfig
from zoo.evaluate import variants

IN_A, IN_R = variants.class_subset("imagenet_a"), variants.class_subset("imagenet_r")


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> tuple[Path, keras.Model]:
    return write_network(tmp_path_factory.mktemp("runs") / "imagenet")


def figures(logits: np.ndarray, is_true: np.ndarray) -> dict[str, Any]:
    """Results of logits, by hand; `is_true` has the same shape."""
    probabilities = softmax(logits.astype("float64"), -1)
    hits = np.take_along_axis(is_true, np.argsort(-logits, -1), -1)
    results = {
        "top1": hits[:, 0].mean(),
        "top5": hits[:, :5].any(-1).mean(),
        "loss": -np.log((probabilities * is_true).sum(-1)).mean(),
        "images": len(logits),
    }
    return {name: pytest.approx(value, rel=1e-3) for name, value in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "classes"),
    [("imagenet_a", IN_A), ("imagenet_r", IN_R), ("imagenet_v2/topimages", NUMBERS)],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_one_label(network, tmp_path, capsys, name, classes):
    folder, model = network
    colors = random_colors(30)
    expected = logits(model, colors)[:, [NUMBERS.index(number) for number in classes]]
    # Half of the labels are the best of the classes that count, often not the best of all.
    labels = np.where(np.arange(30) % 2, expected.argmax(-1), np.arange(30) * 5)
    pairs = zip(colors, labels, strict=True)
    examples = [{"color": color, "label": classes[label]} for color, label in pairs]
    write_set(tmp_path, name, [*examples, {"color": "broken", "label": classes[0]}])
    written = run(folder, tmp_path, name, "--data.unreadable", "skip")
    by_hand = figures(expected, np.eye(len(classes), dtype=bool)[labels])
    assert {key: written[key] for key in by_hand} == by_hand
    assert [row["name"] for row in written["classes"]] == list(classes)
    assert ("200 of 1,000 classes" in capsys.readouterr().out) == (len(classes) == 200)
    with pytest.raises(ValueError, match=r"^data: unreadable image: .*30"):
        run(folder, tmp_path, name)


def test_the_published_classes():
    assert (len(set(IN_A)), len(set(IN_R)), len(set(IN_A) & set(IN_R))) == (200, 200, 86)
    assert {*IN_A, *IN_R} <= set(NUMBERS)
    # What the fake data of TFDS' own tests has.
    assert {"n01580077", "n01616318", "n07697313"} <= set(IN_A)
    assert {"n01443537", "n01484850", "n12267677"} <= set(IN_R)
    assert variants.class_subset("imagenet_v2") is variants.class_subset(None) is None
    for name in ("imagenet_a:0.1.0", "imagenet_a/test:0.1.0"):  # with version and configuration
        assert variants.class_subset(name) == IN_A


@pytest.mark.slow
def test_several_labels_and_none(network, tmp_path, capsys):
    folder, model = network
    colors = random_colors(20)
    expected = logits(model, colors)
    order = np.argsort(-expected, -1)
    # In turn: none; the best one, twice; the second and the fourth; two in the middle.
    kinds = ([], [0, 0], [3, 1], [400, 401])
    labels = [order[i, kinds[i % 4]].tolist() for i in range(20)]
    examples = [
        {"color": color, "original_label": 0, "real_label": several}
        for color, several in zip(colors, labels, strict=True)
    ]
    write_set(tmp_path, "imagenet2012_real", examples)
    written = run(folder, tmp_path, "imagenet2012_real")
    labeled = [i for i in range(20) if i % 4]
    is_true = np.zeros((20, 1000), bool)
    for i in labeled:
        is_true[i, labels[i]] = True
    by_hand = figures(expected[labeled], is_true[labeled])
    assert {key: written[key] for key in by_hand} == by_hand
    assert (written["top1"], written["images"]) == (pytest.approx(1 / 3), 15)
    assert written["top5"] == pytest.approx(2 / 3)


def test_training_needs_one_label():
    with pytest.raises(ValueError, match="images of one label each to train on"):
        TrainConfig(data={"source": "tfds", "name": "imagenet2012_real"})
