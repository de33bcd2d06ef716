"""Losses of classification: soft labels, distillation, class weights and pseudo-labels."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.config import TrainingConfig


class SoftBinaryCrossentropy(keras.losses.Loss):
    """Binary cross-entropy of every class, from logits; the mean over classes.

    As in ResNet Strikes Back (arXiv:2110.00476, Section 3.1): all classes of a mixed image are
    present. Labels above `threshold` become 1, others 0; None keeps them. Labels 1 and 0 are
    smoothed to `1 - smoothing + smoothing / classes` and `smoothing / classes`; Keras' own loss
    smooths 0 to `smoothing / 2`.
    """

    def __init__(
        self, label_smoothing: float = 0.0, threshold: float | None = None, **arguments: Any
    ) -> None:
        super().__init__(name="binary_crossentropy", **arguments)
        self.label_smoothing = label_smoothing
        self.threshold = threshold

    def call(self, y_true: Any, y_pred: Any) -> Any:  # both (batch, classes)
        labels = ops.cast(y_true, y_pred.dtype)
        if self.threshold is not None:
            labels = ops.cast(labels > self.threshold, y_pred.dtype)
        smoothing = self.label_smoothing
        labels = labels * (1 - smoothing) + smoothing / y_pred.shape[-1]
        return ops.mean(ops.binary_crossentropy(labels, y_pred, from_logits=True), axis=-1)


def distillation_loss(teacher: Any, student: Any, temperature: float) -> Any:
    """Distillation loss of each image (Hinton et al., arXiv:1503.02531, Section 2).

    `temperature^2 * KL(softmax(teacher / temperature) || softmax(student / temperature))`, from the
    logits of both; 0 where they agree.
    """
    target, predicted = (
        ops.log_softmax(ops.cast(logits, "float32") / temperature, axis=-1)
        for logits in (teacher, student)
    )
    return temperature**2 * ops.sum(ops.exp(target) * (target - predicted), axis=-1)


class DistillationLoss(keras.losses.Loss):
    """The mean of `distillation_loss`, which Keras scales for the number of devices."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return distillation_loss(y_true, y_pred, self.temperature)


def create_loss(config: TrainingConfig, reduction: str) -> keras.losses.Loss:
    """Returns the loss of logits and labels that the settings ask for."""
    if config.loss == "binary_crossentropy":
        return SoftBinaryCrossentropy(
            config.label_smoothing, config.binary_threshold, reduction=reduction
        )
    return keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=config.label_smoothing, reduction=reduction
    )


class Objective(keras.layers.Layer):
    """Objective of a training step, a mean over the images of a batch.

    The mean counts all images, whatever their weights, so it is also the mean over devices and over
    micro-batches. Mixed labels mix the weights of their classes. The teacher returns logits of the
    same images; temperature and share as in `DistillationConfig`.

    With `pseudo_ratio` pseudo-labeled images for each labeled one in a batch, it is the mean over
    the labeled images plus `pseudo_ratio` times the mean over the others, as Noisy Student has it
    (Xie et al., arXiv:1911.04252).
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        class_weights: Sequence[float] | None = None,
        teacher: keras.Model | None = None,
        temperature: float = 1.0,
        share: float = 0.5,
        pseudo_ratio: float = 0.0,
    ) -> None:
        super().__init__(name="objective", trainable=False, dtype="float32")
        # This factor gives every image, labeled or not, the weight 1 / labeled images.
        self.factor = 1 + pseudo_ratio
        self.loss = loss
        self.class_weights = None if class_weights is None else np.array(class_weights, "float32")
        self.teacher = teacher
        self.distillation = DistillationLoss(temperature)
        self.share = share
        if teacher is not None:
            teacher.trainable = False
        self.built = True

    def compute(self, x: Any, y: Any, y_pred: Any) -> Any:
        """Returns the loss of images, labels and the logits of the network."""
        weights = None
        if self.class_weights is not None:
            weights = ops.matmul(y, ops.convert_to_tensor(self.class_weights))
        loss = self.factor * self.loss(y, y_pred, weights)
        if self.teacher is None:
            return loss
        logits = ops.stop_gradient(self.teacher(x, training=False))
        return (1 - self.share) * loss + self.share * self.distillation(logits, y_pred, weights)
