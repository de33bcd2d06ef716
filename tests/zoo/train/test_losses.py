"""Losses against NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from scipy.special import log_expit, rel_entr, softmax
from support import networks

from zoo.config import TrainingConfig
from zoo.train.losses import Objective, create_loss, distillation_loss
from zoo.train.network import with_logits

LOGITS = np.array([[1.5, -0.5, 0.2], [-2.0, 0.3, 1.0]], "float32")
LABELS = np.array([[0.7, 0.3, 0.0], [0.0, 0.1, 0.9]], "float32")


@pytest.mark.parametrize(
    ("smoothing", "threshold", "labels"),
    [
        (0.0, None, LABELS),
        (0.3, None, LABELS * 0.7 + 0.1),
        (0.0, 0.2, [[1, 1, 0], [0, 0, 1]]),
        (0.0, 0.0, [[1, 1, 0], [0, 1, 1]]),
        (0.3, 0.2, [[0.8, 0.8, 0.1], [0.1, 0.1, 0.8]]),
    ],
)
def test_binary_cross_entropy_of_soft_labels(smoothing, threshold, labels):
    settings = {"binary_threshold": threshold, "label_smoothing": smoothing}
    config = TrainingConfig(loss="binary_crossentropy", **settings)
    expected = -np.mean(labels * log_expit(LOGITS) + np.subtract(1, labels) * log_expit(-LOGITS))
    loss = create_loss(config, "sum_over_batch_size")
    assert float(loss(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("temperature", [1, 3])
def test_distillation_is_the_divergence_at_a_temperature(temperature):
    teacher = np.array([[0.0, 2.0, 1.0], [1.0, 1.0, -1.0]], "float32")
    one, other = (softmax(logits / temperature, axis=-1) for logits in (teacher, LOGITS))
    expected = temperature**2 * rel_entr(one, other).sum(-1)
    found = distillation_loss(teacher, LOGITS, temperature)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)
    found = distillation_loss(LOGITS, LOGITS, temperature)
    np.testing.assert_allclose(ops.convert_to_numpy(found), 0, atol=1e-6)


def test_objective_weighs_classes_and_hears_the_teacher():
    teacher = with_logits(networks.linear_model(classes=3))
    before = networks.values(teacher.weights)
    images = networks.images(2, 8, 8, 3)
    loss = create_loss(TrainingConfig(label_smoothing=0), "sum_over_batch_size")
    objective = Objective(loss, [0.5, 2.0, 1.0], teacher, temperature=2, share=0.25)
    received = float(objective.compute(ops.convert_to_tensor(images), LABELS, LOGITS))

    weights = LABELS @ np.array([0.5, 2.0, 1.0])
    entropy = -(LABELS * np.log(softmax(LOGITS, axis=-1))).sum(-1)
    answers = networks.predict(teacher, images)
    assert not np.allclose(answers.sum(-1), 1)
    divergence = 4 * rel_entr(softmax(answers / 2, axis=-1), softmax(LOGITS / 2, axis=-1)).sum(-1)
    expected = (weights * (0.75 * entropy + 0.25 * divergence)).mean()
    assert received == pytest.approx(expected, rel=1e-5)
    assert teacher.trainable_variables == []
    assert objective.trainable_variables == []
    np.testing.assert_equal(before, networks.values(teacher.weights))


@pytest.mark.one_backend
def test_every_part_of_the_objective_is_scaled_for_several_devices(monkeypatch):
    """Keras adds up the gradients of the replicas."""
    teacher = with_logits(networks.linear_model(classes=3))
    images = networks.images(2, 8, 8, 3)
    loss = create_loss(TrainingConfig(), "sum_over_batch_size")
    four = SimpleNamespace(num_replicas_in_sync=4)
    for share in (0, 0.5, 1):
        objective = Objective(loss, teacher=teacher, temperature=2, share=share)
        one = float(objective.compute(images, LABELS, LOGITS))
        with monkeypatch.context() as patch:
            patch.setattr(tf.distribute, "get_strategy", lambda: four)
            assert float(objective.compute(images, LABELS, LOGITS)) == pytest.approx(one / 4)


def test_objective_of_pseudo_labeled_images():
    """The mean over the labeled images plus the ratio times the mean over the others."""
    ratio, rng = 3, np.random.default_rng(0)
    logits = rng.normal(size=(2 * (1 + ratio), 3)).astype("float32")
    labels = softmax(rng.normal(size=logits.shape), axis=-1).astype("float32")
    loss = create_loss(TrainingConfig(label_smoothing=0), "sum_over_batch_size")
    received = float(Objective(loss, pseudo_ratio=ratio).compute(None, labels, logits))
    entropy = -(labels * np.log(softmax(logits, axis=-1))).sum(-1)
    labeled = np.arange(len(labels)) % (1 + ratio) == 0
    expected = entropy[labeled].mean() + ratio * entropy[~labeled].mean()
    assert received == pytest.approx(expected, rel=1e-5)
