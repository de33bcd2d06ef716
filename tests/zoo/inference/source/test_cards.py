"""Model cards on the weights of a classifier."""

import hashlib
from pathlib import Path

import keras
import pytest

from zoo import run_folder
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights
from zoo.registry import create_model


@pytest.fixture
def weights(tmp_path) -> str:
    """A file with random weights of lambda_resnet14."""
    path = tmp_path / "random.weights.h5"
    keras.utils.set_random_seed(1)
    create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3)).save_weights(path)
    return str(path)


def test_origin_of_a_run(run, monkeypatch):
    origin = Run(run).card()
    assert origin["Weights"] == "run quick, not averaged"
    assert "`import lambda_keras` comes before" in origin["Keras model"]
    assert origin["Trained on"] == "digits, 1,437 images, 1 epochs"
    assert origin["Test accuracy"].endswith("(360 images)")
    config = run_folder.load_config(run)
    averaged = config.model_copy(
        update={"training": config.training.model_copy(update={"ema": 0.99})}
    )
    monkeypatch.setattr(run_folder, "load_config", lambda _: averaged)
    weights = Run(run).card()["Weights"]
    assert weights == "run quick, moving averages, decay 0.99"


def test_origin_of_weights(weights):
    origin = Weights("lambda_resnet14", weights).card()
    digest = hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    assert origin["Weights"] == f"random.weights.h5, SHA-256 {digest}"
    origin = Weights("lambda_resnet26t", "imagenet").card()
    assert "huggingface.co/timm/lambda_resnet26t" in origin["Weights"]
    assert origin["License"] == "Apache-2.0"
    assert origin["Published accuracy"].startswith("79.126 %")
    assert Weights("x", "hf://a/b").card()["Weights"] == "hf://a/b"


def test_results_of_published_weights_alone(weights):
    section = Weights("lambda_resnet26t", "imagenet").card_sections()["Published results"]
    assert "2026-08-08" in section
    assert "| top-1, % | ImageNet-R | 37.39 |" in section
    assert "| images/s | RTX 5090, PyTorch 2.9.1 compiled, amp | 6,136 |" in section
    assert Weights("lambda_resnet26t", weights).card_sections() == {}
    assert Weights("mobilenet_v2", "imagenet").card_sections() == {}
