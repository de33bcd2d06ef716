"""What is exported: names of classes, what the model sees, what the card says of its origin."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from lambda_keras.applications.preprocessing import preprocessing_of
from zoo import run_folder
from zoo.config import DataConfig
from zoo.data.load import held_out_files, load_data
from zoo.devices import Shard
from zoo.export import servable as module
from zoo.export.servable import Servable
from zoo.registry import create_model


def test_a_run_sees_what_it_was_tested_on(run):
    served = Servable.from_run(run)
    assert (served.name, served.image_size) == ("lambda_resnet14", 16)
    assert list(served.class_names) == list("0123456789")
    config = run_folder.load_config(run)
    test = load_data(config.data, 16).test
    (record,) = test.source.testing(1, Shard()).take(1)
    image, _ = test.view(record, tf.zeros(2, tf.int64))
    np.testing.assert_allclose(served.view(tf.io.encode_png(record["image"])), image, atol=1e-3)


def test_weights_see_what_their_accuracy_is_measured_on(weights, photos):
    served = Servable.from_weights("lambda_resnet14", weights, ["a"] * 7, 24)
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=4)
    data = load_data(config, 24, preprocessing=preprocessing_of("lambda_resnet14", 24))
    files, _ = held_out_files(config, 24, 4)
    images = [served.view(file).numpy() for file in files]
    np.testing.assert_array_equal(np.stack(images), data.test.sample(4)[0])


def test_origin_of_a_run(run, monkeypatch):
    origin = Servable.from_run(run).origin
    assert origin["Weights"] == "run quick, not averaged"
    assert "`import lambda_keras` comes before" in origin["Keras model"]
    assert origin["Trained on"] == "digits, 1,437 images, 1 epochs"
    assert origin["Test accuracy"].endswith("(360 images)")
    assert "resized to 16 x 16 pixels, bilinear" in origin["Preprocessing"]
    config = run_folder.load_config(run)
    averaged = config.model_copy(
        update={"training": config.training.model_copy(update={"ema": 0.99})}
    )
    monkeypatch.setattr(module.run_folder, "load_config", lambda _: averaged)
    weights = Servable.from_run(run).origin["Weights"]
    assert weights == "run quick, moving averages, decay 0.99"


def test_origin_of_weights(weights, monkeypatch):
    origin = Servable.from_weights("lambda_resnet14", weights, ["a"] * 7, 16).origin
    digest = hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    assert origin["Weights"] == f"random.weights.h5, SHA-256 {digest}"
    assert "central square of 33.3% of the shorter side" in origin["Preprocessing"]
    origin = module._origin_of_weights("lambda_resnet26t", "imagenet")
    assert "huggingface.co/timm/lambda_resnet26t" in origin["Weights"]
    assert origin["License"] == "Apache-2.0"
    assert origin["Published accuracy"].startswith("79.126 %")
    assert module._origin_of_weights("x", "hf://a/b")["Weights"] == "hf://a/b"


def test_names_of_imagenet_are_the_default(tmp_path):
    path = tmp_path / "random.weights.h5"
    create_model("lambda_resnet14", input_shape=(32, 32, 3)).save_weights(path)
    served = Servable.from_weights("lambda_resnet14", str(path))
    assert (served.image_size, len(served.class_names)) == (32, 1000)
    assert served.class_names[285] == "Egyptian cat"


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("lambda_resnet14", None, r"1000 classes of ImageNet \(--labels names others\): .*do not"),
        ("lambda_resnet14", ["a", "b"], "with the 2 classes of --labels: .*do not fit the model"),
        ("mobilenet_v2", ["a"] * 7, "with the 7 classes of --labels: .*do not fit the model"),
    ],
)
def test_weights_that_do_not_fit(weights, name, labels, message):
    with pytest.raises(ValueError, match=message):
        Servable.from_weights(name, weights, labels, 32)


def test_no_run(tmp_path):
    with pytest.raises(ValueError, match="folder of a finished run"):
        Servable.from_run(tmp_path)
