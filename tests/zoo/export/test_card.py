"""The model card and the names of classes beside an export."""

import dataclasses
import re

import keras
import pytest
import tensorflow as tf

from zoo.config.model_options import read_labels
from zoo.export.base import Options
from zoo.export.formats import FORMATS
from zoo.export.verify import export_of
from zoo.inference.source.weights import Weights


@pytest.fixture
def card(servable, exported, tmp_path):
    """Function that writes files of 3.5 MB, with the outputs of a SavedModel; returns the card."""

    def write_files(folder):
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(b"0" * 1_500_000)
        (folder / "variables" / "variables.index").write_bytes(b"0" * 2_000_000)

    def run(_, __, inputs, ___):
        runtime = FORMATS["saved_model"].runtime(exported)
        return {name: runtime.run(name, arrays) for name, arrays in inputs.items()}

    def card(export):
        export = dataclasses.replace(export, writers={"x": write_files}, run=run)
        folder = export.to(tmp_path / "x")
        assert read_labels(folder / "labels.txt") == servable.class_names
        return (folder / "model_card.md").read_text("utf-8")

    return card


def test_card_of_a_saved_model(servable, export, card):
    text_of_card = card(export)
    for text in (
        "# lambda_resnet14\n",
        "| Task | classification |",
        "| Format | SavedModel, float32, 3.5 MB |",
        "| Weights | hf://a/b |",
        "| Preprocessing | shorter side resized to 16 pixels, bilinear, antialiased; central ",
        f"| Parameters | {servable.model.count_params():,} |",
        f"keras {keras.__version__}, tensorflow {tf.__version__}",
        "| Classes | 10, in the order of labels.txt |",
        '-v "$PWD/lambda_resnet14:/models/lambda_resnet14"',
        "-e MODEL_NAME=lambda_resnet14 tensorflow/serving",
        "the same most probable class for 100.0% of 18 images",
    ):
        assert text in text_of_card
    for signature in ("serving_default", "images_uint8", "image_bytes", "features"):
        assert re.search(rf"^\| {signature} \| `image.* \| \d\.\de-\d\d \|$", text_of_card, re.M)
    assert "| `image_bytes` string (batch) |" in text_of_card
    assert "`labels` string (batch, 5)" in text_of_card
    assert re.search(r"`c2` float32 \(batch, \d+, \d+, \d+\)", text_of_card)


def test_card_of_another_format(servable, card):
    source = Weights("lambda_resnet14", "hf://a/b")
    export = export_of(servable, source, "litert", Options("float16"))
    text = card(export)
    assert "| Format | LiteRT, float16, 3.5 MB |" in text
    assert "image_bytes" not in text
    assert "held-out" not in text
    assert "| serving_default | `images` float32 (batch, 16, 16, 3) | `probabilities` flo" in text
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings == ["Inputs and outputs", "Use"]
