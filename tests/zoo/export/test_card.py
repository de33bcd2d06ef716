"""The model card and the names of classes beside an export."""

import re

import keras
import pytest
import tensorflow as tf

from zoo.cli.model_options import read_labels
from zoo.export import card as export_card
from zoo.export.verify import Comparison

ORIGIN = {"Weights": "random.weights.h5", "License": "free"}
REPORT = Comparison({"serving_default": 1.25e-7, "features": 3e-6}, 0.995, 0.9876, 360)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"0" * 1_500_000)
    (tmp_path / "variables" / "variables.index").write_bytes(b"0" * 2_000_000)
    return tmp_path


def test_card_of_a_saved_model(servable, folder):
    export_card.write(servable, ORIGIN, folder, "saved_model", None, REPORT)
    card = (folder / "model_card.md").read_text("utf-8")
    for text in (
        "# lambda_resnet14\n",
        "| Format | SavedModel, float32, 3.5 MB |",
        "| Weights | random.weights.h5 |",
        "16 x 16 pixels",
        "| Preprocessing | shorter side resized to 48 pixels, bicubic, antialiased; central ",
        f"| Parameters | {servable.model.count_params():,} |",
        f"keras {keras.__version__}, tensorflow {tf.__version__}",
        "| Classes | 7, in the order of labels.txt |",
        '-v "$PWD/lambda_resnet14:/models/lambda_resnet14" -e MODEL_NAME=lambda_resnet14 ',
        "| serving_default | 1.2e-07 |",
        "| features | 3.0e-06 |",
        "Keras' for 99.5% of them",
        "held-out images is 0.9876",
    ):
        assert text in card
    for signature in ("serving_default", "images_uint8", "image_bytes", "features"):
        assert re.search(rf"^\| {signature} \| `image", card, re.MULTILINE)
    assert "`labels` string (batch, 5)" in card
    assert "`c2` float32 (batch, 16, 16, 64)" in card


def test_card_of_another_format(servable, folder):
    report = Comparison({"serving_default": 1e-3}, 0.9, None, 18)
    export_card.write(servable, ORIGIN, folder, "litert", "float16", report)
    card = (folder / "model_card.md").read_text("utf-8")
    assert "| Format | LiteRT, float16, 3.5 MB |" in card
    assert "image_bytes" not in card
    assert "held-out" not in card
    assert (
        "| serving_default | `images` float32 (batch, 16, 16, 3) | `probabilities` float32 " in card
    )


def test_names_of_classes(servable, folder):
    export_card.write(servable, ORIGIN, folder, "saved_model", None, REPORT)
    assert read_labels(folder / "labels.txt") == servable.class_names
