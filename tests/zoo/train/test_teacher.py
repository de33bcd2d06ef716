"""Which network a run learns from, and what is refused as such."""

import keras
import numpy as np
import pytest
from support import networks

from zoo.config import DistillationConfig
from zoo.registry import create_model
from zoo.train.teacher import load_teacher

NAMES = ("a", "b", "c")


def test_no_teacher():
    assert load_teacher(DistillationConfig(), NAMES, 16) is None


def test_network_of_the_zoo_answers_with_logits(tmp_path):
    model = create_model("lambda_resnet14", classes=3, input_shape=(16, 16, 3))
    networks.randomize(model)
    model.save_weights(tmp_path / "w.weights.h5")
    settings = {"model": "lambda_resnet14", "weights": str(tmp_path / "w.weights.h5")}
    teacher = load_teacher(DistillationConfig(**settings), NAMES, 16)
    images = networks.images(2, 16, 16, 3)
    logits = networks.predict(teacher, images)
    answers = np.asarray(keras.ops.convert_to_numpy(keras.ops.softmax(logits)))
    np.testing.assert_allclose(answers, networks.predict(model, images), atol=1e-5)
    assert abs(logits.sum(-1) - 1).min() > 1e-3
    with pytest.raises(ValueError, match=r"^distillation: "):
        load_teacher(DistillationConfig(**settings), (*NAMES, "d"), 16)
    with pytest.raises(ValueError, match=r"^distillation: .*dropout_rate"):
        load_teacher(DistillationConfig(**settings, overrides={"dropout_rat": 1}), NAMES, 16)


def test_run_of_the_same_classes_and_pixels(run, tmp_path):
    digits = tuple("0123456789")
    config = DistillationConfig(run=run, temperature=4)
    assert load_teacher(config, digits, 16).output_shape == (None, 10)
    with pytest.raises(ValueError, match=r"distillation: expected a teacher of the 10 classes"):
        load_teacher(config, (*digits[:9], "nine"), 16)
    with pytest.raises(ValueError, match=r"images of 32 pixels.*Received: 16 pixels"):
        load_teacher(config, digits, 32)
    with pytest.raises(ValueError, match=r"distillation: run: expected the folder of a finished"):
        load_teacher(DistillationConfig(run=tmp_path), digits, 16)
