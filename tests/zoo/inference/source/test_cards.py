"""Model cards on the weights of a classifier."""

import hashlib

from support import runs

from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights


def test_origin_of_a_run(run, tmp_path):
    origin = Run(run).card()
    assert origin["Weights"] == "run quick, moving averages, decay 0.9"
    assert "`import lambda_keras` comes before" in origin["Keras model"]
    assert origin["Trained on"] == "digits, 1,437 images, 1 epochs"
    assert origin["Test accuracy"] == "0.1000 (360 images)"
    raw = runs.changed(run, tmp_path / "raw", training={"ema": None})
    assert Run(raw).card()["Weights"] == "run raw, not averaged"


def test_origin_and_results_of_weights(tmp_path):
    weights = tmp_path / "random.weights.h5"
    weights.write_bytes(b"content")
    origin = Weights("lambda_resnet14", str(weights))
    digest = hashlib.sha256(b"content").hexdigest()
    assert origin.card()["Weights"] == f"random.weights.h5, SHA-256 {digest}"
    assert origin.card_sections() == {}
    assert Weights("x", "hf://a/b").card()["Weights"] == "hf://a/b"
    published = Weights("lambda_resnet26t", "imagenet").card()
    assert "huggingface.co/timm/lambda_resnet26t" in published["Weights"]
    assert published["License"] == "Apache-2.0"
    assert published["Published accuracy"].startswith("79.126 %")
    section = Weights("lambda_resnet26t", "imagenet").card_sections()["Published results"]
    assert "2026-08-08" in section
    assert "| top-1, % | ImageNet-R | 37.39 |" in section
    assert "| images/s | RTX 5090, PyTorch 2.9.1 compiled, amp | 6,136 |" in section
    assert Weights("mobilenet_v2", "imagenet").card_sections() == {}
