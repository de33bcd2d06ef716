"""Images as viewers show them, and what a model answers."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from zoo.config.model_options import ClassifierOptions
from zoo.data.crops import decode_center
from zoo.inference.classifier import Classifier, predict
from zoo.inference.source.kinds import choose
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights
from zoo.registry import create_model


@pytest.fixture(scope="module")
def china() -> Image.Image:
    """A small image of 120 x 80 pixels."""
    return Image.fromarray(load_sample_images().images[0]).resize((120, 80))


@pytest.fixture(scope="module")
def classifier(run) -> Classifier:
    return Run(run).load()


def saved(image: Image.Image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


def test_unreadable_images(china, tmp_path):
    path = saved(china, tmp_path / "cut.jpg")
    path.write_bytes(path.read_bytes()[:900])
    heic = tmp_path / "photo.heic"
    heic.write_bytes(b"\0\0\0\x18ftypheic" + bytes(99))
    deep = saved(Image.new("I;16", (9, 9), 40_000), tmp_path / "deep.tiff")
    huge = saved(china, tmp_path / "huge.png")
    content = huge.read_bytes()
    huge.write_bytes(content[:16] + b"\0\0\x40\0" * 2 + content[24:])  # 16,384 x 16,384 pixels
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    classifier = Classifier("none", keras.Model(), Preprocessing(16, 1), "abc")
    for broken in (path, heic, deep, huge, pipe, tmp_path / "missing.jpg"):
        with pytest.raises(ValueError, match=f"unreadable image: {re.escape(str(broken))} "):
            classifier.view(broken)


def test_answers_are_those_of_the_model(china, tmp_path, classifier):
    photos = [
        saved(china, tmp_path / "china.png"),
        saved(china.convert("L").resize((30, 90)), tmp_path / "tall.png"),
        saved(china.crop((0, 0, 40, 40)), tmp_path / "part.png"),
    ]
    in_pairs = replace(classifier, batch_size=2)
    answers = list(in_pairs.predict_views(in_pairs.views(photos), top=4))
    views = [decode_center(photo.read_bytes(), classifier.preprocessing) for photo in photos]
    expected = np.asarray(classifier.model(preprocess_input(np.stack(views)), training=False))
    assert np.abs(expected[0] - expected[1]).max() > 1e-4
    for top, probabilities in zip(answers, expected, strict=True):
        order = np.argsort(-probabilities)[:4]
        assert [guess.index for guess in top] == order.tolist()
        assert [guess.name for guess in top] == [str(i) for i in order]
        got = [guess.probability for guess in top]
        np.testing.assert_allclose(got, probabilities[order], rtol=1e-4)


@pytest.mark.parametrize(
    ("resize", "text"),
    [
        ("crop", "shorter side resized to 32 pixels, bicubic, antialiased; central square of 16 x"),
        ("pad", "longer side resized to 16 pixels, bicubic, antialiased; black borders to 16 x "),
        ("squash", "resized to 16 x 16 pixels, bicubic, antialiased, whatever the shape of the i"),
    ],
)
def test_card(classifier, resize, text):
    seen = Preprocessing(16, 0.5, "bicubic", resize=resize)
    card = replace(classifier, preprocessing=seen, class_names=["a"] * 1234).card("the model")
    assert card["Preprocessing"].startswith(text)
    assert "16 x 16 pixels; the model normalizes them, by the means (0.485, " in card["Images"]
    assert card["Classes"] == "1,234, in the order of labels.txt"
    assert card["Parameters"] == f"{classifier.model.count_params():,}"


def test_weights_for_another_size_and_for_imagenet():
    calls = []

    class Notes(Weights):
        create_model = staticmethod(lambda *call, **more: calls.append(more))

    classifier = Notes("lambda_resnet14", "file.h5", image_size=16, overrides={"scope": 5}).load()
    call = {"weights": "file.h5", "classes": 1000, "input_shape": (16, 16, 3), "scope": 5}
    assert calls == [call]
    assert classifier.preprocessing == preprocessing_of("lambda_resnet14", 16)
    assert classifier.class_names[285] == "Egyptian cat"
    assert Notes("lambda_resnet26t", "imagenet").load().image_size == 256


def test_outputs_that_are_not_finite(china, classifier):
    """Of one of two images."""
    outputs = np.array([[0.5] * 10, [np.nan] * 10])
    other = replace(classifier)
    vars(other)["infer"] = lambda _: outputs
    with pytest.raises(ValueError, match=r"outputs of lambda_resnet14\. Received: nan in probab"):
        other([china, china], top=1)


def test_outputs_of_keras_that_are_not_finite():
    inputs = keras.Input((2, 2, 3))
    outputs = {"a": keras.layers.Dense(2)(inputs), "b": keras.layers.Rescaling(1e30)(inputs)}
    with pytest.raises(ValueError, match=r"finite outputs of two\. Received: inf in b"):
        predict(keras.Model(inputs, outputs, name="two"), np.full((1, 2, 2, 3), 1e20, "float32"))


def test_a_run_whose_weights_are_not_finite_is_refused(run, tmp_path):
    for name in ("config.yaml", "metrics.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    model = keras.models.load_model(run / "model.keras")
    model.get_layer("predictions").bias.assign(np.full(10, np.nan))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"finite weights .* Received: nan in predictions/bias"):
        Run(tmp_path).load()
    with pytest.warns(UserWarning, match="not yet been built"):
        keras.Sequential().save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"an intact model.* \(a model without layers\)"):
        Run(tmp_path).load()


def test_computing_in_bfloat16(classifier):
    images = np.random.default_rng(0).uniform(-2, 2, (3, 16, 16, 3)).astype("float32")
    other = classifier.computing_in("mixed_bfloat16")
    exact, rounded = (one.infer(images) for one in (classifier, other))
    assert rounded.dtype == "float32"
    assert 1e-5 < np.abs(rounded - exact).max() < 0.02


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, r"1000 classes of ImageNet \(--labels names others\): .*do not"),
        ("a\nb\n", r"^with 2 classes: .*do not fit the model.* or channels\): "),
        ("a\n", r"^class_names: expected the names of two or more classes\. Received: \['a'\]"),
    ],
)
def test_weights_that_do_not_fit(tmp_path, labels, message):
    weights, path = tmp_path / "w.weights.h5", tmp_path / "labels.txt"
    network = create_model("lambda_resnet14", classes=3, input_shape=(16, 16, 3), filters=4)
    network.save_weights(weights)
    path.write_text(labels or "")
    named = {"model": "lambda_resnet14", "weights": str(weights), "labels": labels and path}
    source: Any = choose(ClassifierOptions.model_construct(run=None, **named))
    with pytest.raises(ValueError, match=message) as caught:
        replace(source, overrides={"filters": 4}).load()
    assert "adapt_weights" not in str(caught.value)  # advice to callers of the constructor
