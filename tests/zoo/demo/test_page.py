"""Computations and figures of the page, without a server."""

import subprocess
import sys
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
from PIL import Image
from support.networks import randomize, tiny_model

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.models.specs import LambdaSpec
from zoo.demo import classification as demo_page
from zoo.demo.classification import MEAN, Demo
from zoo.demo.page import NOT_UPLOADED
from zoo.inference.classifier import Classifier
from zoo.inference.lambda_maps import lambda_layers, lambda_maps

ROOT = Path(__file__).resolve().parents[3]


def demo(names=("a", "b", "c", "d", "e", "f"), **changes) -> Demo:
    spec = LambdaSpec(**{"num_heads": 2, "key_dim": 3, "scope": 3, **changes})
    model = tiny_model((8, 8, 3), len(names), "softmax", lambda_layer=spec)
    randomize(model)
    return Demo(Classifier("tiny", model, Preprocessing(8, 1), names))


@pytest.fixture
def photo(tmp_path) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def test_classes_of_the_same_name_are_told_apart(photo):
    names = ("crane", "temple", "crane")
    answer = demo(names).classify(photo)
    assert sorted(answer) == ["crane (0)", "crane (2)", "temple"]
    assert sum(answer.values()) == pytest.approx(1, abs=1e-5)


def test_without_an_image_there_is_nothing():
    page = demo()
    layer = next(iter(lambda_layers(page.classifier.model)))
    assert page.classify(None) is None
    assert page.look(None, layer, MEAN, 0, 0) == demo_page.NOTHING


@pytest.mark.parametrize("head", [MEAN, 0, 1])
def test_maps_are_those_of_the_clicked_position(photo, monkeypatch, head):
    drawn = []
    monkeypatch.setattr(demo_page, "draw_maps", lambda *call: drawn.append(call))
    page = demo()
    model = page.classifier.model
    layer = next(iter(lambda_layers(model)))
    assert lambda_layers(model)[layer] == (4, 4)
    _, title, _ = page.look(photo, layer, head, 7, 2)
    (view, maps, row, column) = drawn[0]
    assert (row, column) == (1, 3)
    assert "row 2, column 4 of 4 x 4" in title
    expected = lambda_maps(model, layer, preprocess_input(view), 1, 3)
    for weights, all_heads in zip(
        maps.values(), (expected.content, expected.position), strict=True
    ):
        shown = all_heads.mean(0) if head == MEAN else all_heads[head]
        np.testing.assert_allclose(weights, shown, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "title"),
    [({"use_content": False}, "Position map"), ({"position_embedding": None}, "Content map")],
)
def test_maps_that_a_layer_lacks_are_left_out(photo, monkeypatch, changes, title):
    drawn = []
    monkeypatch.setattr(demo_page, "draw_maps", lambda *call: drawn.append(call))
    page = demo(**changes)
    page.look(photo, next(iter(lambda_layers(page.classifier.model))), MEAN, 0, 0)
    (shown,) = drawn[0][1]
    assert shown.startswith(title)


def test_what_is_wrong_is_told_on_the_page(tmp_path, photo):
    page = demo()
    layer = next(iter(lambda_layers(page.classifier.model)))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no")
    for ask in (page.classify, lambda path: page.look(path, layer, MEAN, 0, 0)):
        with pytest.raises(gr.Error, match=r"^.unreadable image: broken.png \("):
            ask(str(broken))
    with pytest.raises(gr.Error, match="expected a position in the grid"):
        page.look(photo, layer, MEAN, 8, 0)


def test_a_model_without_lambda_layers_says_so():
    """In a process of its own, for Gradio leaves event loops open."""
    script = """
import gradio as gr
import keras
from lambda_keras.applications.preprocessing import Preprocessing
from zoo.demo.classification import Demo
from zoo.inference.classifier import Classifier
inputs = keras.Input((8, 8, 3))
outputs = keras.layers.Softmax()(keras.layers.GlobalAveragePooling2D()(inputs))
plain = Classifier("plain", keras.Model(inputs, outputs), Preprocessing(8, 1), "abc")
page = Demo(plain).build()
for component in page.get_config_file()["components"]:
    print(component["type"], component["props"].get("value"))
(photo,) = (block for block in page.blocks.values() if isinstance(block, gr.Image))
try:
    photo.preprocess(gr.FileData(path="README.md"))
except gr.Error as error:
    print("refused:", error.message)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "markdown plain has no lambda layers, so there is no map" in result.stdout
    assert "Where it looked" not in result.stdout
    assert f"refused: {NOT_UPLOADED}" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines()].count("image") == 1
