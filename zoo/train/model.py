"""Losses, and `model.fit` as the recipes need it, on one device, several, or several hosts.

Stock Keras 3.15 on TensorFlow fails with several replicas and `steps_per_execution` above 1
(keras-team/keras#19246), and with several workers (keras-team/keras#20585). On every backend it
does steps twice or too many when `steps_per_execution` does not divide an epoch, and its moving
averages leave batch statistics out. This module works around them; no other depends on it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from lambda_keras.models.specs import STAGES
from zoo.config import TrainingConfig
from zoo.train.network import replace_layers
from zoo.train.optimizer import GradientAccumulation

BLOCK_OUTPUT = "block"  # name of the activations that recomputation keeps


class SoftBinaryCrossentropy(keras.losses.Loss):
    """Binary cross-entropy of every class, from logits; the mean over classes.

    As in ResNet Strikes Back (arXiv:2110.00476, Section 3.1): the classes of a mixed image can all
    be there. Labels above `threshold` count as 1, others as 0; None takes them as they are. They
    are smoothed to `1 - smoothing + smoothing / classes` and `smoothing / classes`; Keras' own
    smooths to `smoothing / 2`.
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
    expected, found = (
        ops.log_softmax(ops.cast(logits, "float32") / temperature, axis=-1)
        for logits in (teacher, student)
    )
    return temperature**2 * ops.sum(ops.exp(expected) * (expected - found), axis=-1)


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
    same images; temperature and share are those of `DistillationConfig`.

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
        # Each of the 1 + ratio images has the same weight then, 1 / labeled images.
        self.factor = 1 + pseudo_ratio
        self.loss = loss
        self.class_weights = None if class_weights is None else np.array(class_weights, "float32")
        self.teacher = teacher
        self.distillation = DistillationLoss(temperature)
        self.share = share
        if teacher is not None:
            teacher.trainable = False
        self.built = True

    def of(self, x: Any, y: Any, y_pred: Any) -> Any:
        """Returns the loss of images, labels and the logits of the network."""
        weights = None
        if self.class_weights is not None:
            weights = ops.matmul(y, ops.convert_to_tensor(self.class_weights))
        loss = self.factor * self.loss(y, y_pred, weights)
        if self.teacher is None:
            return loss
        logits = ops.stop_gradient(self.teacher(x, training=False))
        return (1 - self.share) * loss + self.share * self.distillation(logits, y_pred, weights)


class TrainingModel(keras.Model):
    """Trains a functional model; labels are one-hot.

    Epochs and evaluations have exactly the given number of steps, whether or not
    `steps_per_execution` divides it: pass the same numbers to `fit`, and endless training data.

    With a `GradientAccumulation` as optimizer, each step takes several micro-batches.

    Evaluation uses the EMA of all weights and batch statistics, if `ema` is its decay, and the loss
    of `compile`; training the loss `objective`, if there is one, and regularizers. With `recompute`
    the backward pass of JAX keeps only what `mark_blocks` has marked.
    """

    def __init__(
        self,
        network: keras.Model,
        steps_per_epoch: int,
        evaluation_steps: int,
        ema: float | None = None,
        objective: Objective | None = None,
        recompute: bool = False,
    ) -> None:
        super().__init__(name=network.name)
        self.network = network
        self.steps_per_epoch = steps_per_epoch
        self.evaluation_steps = evaluation_steps
        self.averages = None if ema is None else ExponentialMovingAverage(network, ema)
        self.objective = objective
        self.recompute = recompute
        self.steps_done = 0  # of training, in all
        self.resumed = False  # within an epoch, whose metrics go on
        self.built = True

    @property
    def state(self) -> list[keras.Variable]:
        """All variables that a resumed run needs, in a fixed order."""
        self._maybe_symbolic_build()  # which makes those of the optimizer and the metrics
        averages = [] if self.averages is None else self.averages.weights
        return [
            *self.network.variables,
            *averages,
            *self.optimizer.variables,
            *self.metrics_variables,
        ]

    def reset_metrics(self) -> None:
        if not self.resumed:
            super().reset_metrics()
        self.resumed = False

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Swaps EMA weights into the network in the `with` block; changes of them are kept."""
        if self.averages is None:
            yield
            return
        weights, averages = self.network.weights, self.averages.weights
        own, before = _values(weights), _values(averages)
        _assign(weights, before)
        yield
        after = _values(weights)
        _assign(weights, own)
        if not all(map(np.array_equal, before, after)):
            _assign(averages, after)

    def call(self, inputs, training=False):
        if training or self.averages is None:
            return self.network(inputs, training=training)
        return self.averages.of(self.network, inputs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not training:  # the test loss has no regularization
            return self._compile_loss(y, y_pred, sample_weight)  # pyright: ignore
        if self.objective is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss = self.objective.of(x, y, y_pred)
        return loss + sum(map(self._aggregate_additional_loss, self.losses))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Keras' own, but a test loss is the mean over the images, whatever fills up the batch."""
        if sample_weight is not None:
            padding = keras.ops.sum(1 - keras.ops.cast(sample_weight, "float32"))
            self._loss_tracker.count.assign_sub(padding)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def compute_loss_and_updates(self, *state, **arguments):
        """Computes the loss that JAX differentiates; recomputation takes less memory."""
        compute = super().compute_loss_and_updates  # pyright: ignore[reportAttributeAccessIssue]
        if not self.recompute:
            return compute(*state, **arguments)
        import jax  # pyright: ignore[reportMissingImports]

        policy = jax.checkpoint_policies.save_only_these_names(BLOCK_OUTPUT)
        return jax.checkpoint(lambda *values: compute(*values, **arguments), policy=policy)(*state)

    def train_step(self, *args):
        """Keras' own step, then an update of the EMA unless gradients are only accumulated."""
        if self.averages is None or not getattr(self.optimizer, "last", True):
            return super().train_step(*args)  # pyright: ignore[reportAttributeAccessIssue]
        if keras.backend.backend() == "tensorflow":
            logs = super().train_step(*args)  # pyright: ignore[reportAttributeAccessIssue]
            self.averages.update(self.network, self.optimizer.iterations)
            return logs
        logs, (trainable, others, optimizer, metrics) = super().train_step(*args)  # pyright: ignore
        state = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, others, strict=True),
            *zip(self.optimizer.variables, optimizer, strict=True),
        ]
        with keras.StatelessScope(state) as scope:
            self.averages.update(self.network, self.optimizer.iterations)
        others = [scope.get_current_value(variable) for variable in self.non_trainable_variables]
        return logs, (trainable, others, optimizer, metrics)

    def add_step(self, *args):
        """Accumulates the gradients of a micro-batch, without an update."""
        self.optimizer.last = False
        try:
            return self.train_step(*args)
        finally:
            self.optimizer.last = True

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is None or force:
            self.train_function = self._execution("train", self._training_counts())

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            self.test_function = self._execution("test", self._evaluation_counts())

    def _execution(self, kind: str, counts: Iterator[int]) -> Callable:
        """Returns the function that Keras calls for every execution, of so many steps."""
        accumulates = kind == "train" and isinstance(self.optimizer, GradientAccumulation)
        batches = self.optimizer.steps if accumulates else 1
        if keras.backend.backend() == "tensorflow":
            return self._tensorflow_execution(getattr(self, f"{kind}_step"), counts, batches)
        return self._jax_execution(f"{kind}_function", counts, batches)

    def _training_counts(self) -> Iterator[int]:
        """Steps of each execution: none goes beyond the end of an epoch."""
        while True:
            left = self.steps_per_epoch - self.steps_done % self.steps_per_epoch
            count = min(self.steps_per_execution, left)
            self.steps_done += count
            yield count

    def _evaluation_counts(self) -> Iterator[int]:
        while True:
            for done in range(0, self.evaluation_steps, self.steps_per_execution):
                yield min(self.steps_per_execution, self.evaluation_steps - done)

    def _tensorflow_execution(
        self, step: Callable, counts: Iterator[int], batches: int
    ) -> Callable:
        strategy = self.distribute_strategy

        def compiled(step: Callable) -> Callable:
            def run(batch):
                outputs = strategy.run(step, args=(batch,))
                return tf.nest.map_structure(
                    lambda value: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None),
                    outputs,
                )

            return tf.function(run, jit_compile=self.jit_compile, autograph=False)

        run, add = compiled(step), compiled(self.add_step)

        def repeat(function, times):
            def body(i):
                with tf.control_dependencies(tf.nest.flatten(function())):
                    return [i + 1]

            tf.while_loop(lambda i: i < times, body, [tf.constant(0)])

        def one_step(iterator):
            if batches > 1:
                repeat(lambda: add(next(iterator)), batches - 1)
            return run(next(iterator))

        def steps(iterator, count):
            if self.steps_per_execution > 1:
                repeat(lambda: one_step(iterator), count - 1)
            return one_step(iterator)

        steps = tf.function(steps, reduce_retracing=True, autograph=False)
        return lambda iterator: steps(iterator, tf.constant(next(counts)))

    def _jax_execution(self, name: str, counts: Iterator[int], batches: int) -> Callable:
        make = getattr(super(), f"make_{name}")

        def made() -> Any:
            steps_per_execution, self.steps_per_execution = self.steps_per_execution, 1
            make(force=True)
            self.steps_per_execution = steps_per_execution
            return getattr(self, name)

        step, add = made(), None
        if batches > 1:
            self.train_step = self.add_step  # as a function of its own, which JAX traces by itself
            add = made()
            del self.train_step

        def execution(state, iterator):
            logs = None
            for _ in range(next(counts)):
                for _ in range(batches - 1):
                    _, state = add(state, iterator)  # pyright: ignore[reportOptionalCall]
                logs, state = step(state, iterator)
            return logs, state

        return execution

    def _maybe_symbolic_build(self, iterator=None, data_batch=None) -> None:
        """Builds metrics from shapes alone: a distributed batch cannot be taken apart."""
        shapes = (self.network.inputs[0].shape, self.network.outputs[0].shape)
        tensorflow = keras.backend.backend() == "tensorflow"
        with self.distribute_strategy.scope() if tensorflow else nullcontext():
            self._symbolic_build(
                data_batch=tuple(keras.KerasTensor((1, *shape[1:])) for shape in shapes)
            )


class Marked(keras.layers.Layer):
    """An activation whose output recomputation keeps."""

    def __init__(self, activation: Any) -> None:
        super().__init__(name=f"{activation.name}_marked", dtype=activation.dtype_policy)
        self.activation = activation

    def call(self, x: Any) -> Any:
        from jax.ad_checkpoint import checkpoint_name  # pyright: ignore[reportMissingImports]

        return checkpoint_name(self.activation(x), BLOCK_OUTPUT)


def mark_blocks(network: keras.Model) -> keras.Model:
    """Returns a network of the same layers in which the outputs of residual blocks are marked."""
    ends = [
        layer.name
        for layer in network.layers
        if isinstance(layer, keras.layers.Activation)
        and (layer.name in STAGES or layer.name.endswith("_out"))
    ]
    if not ends:
        raise ValueError(f"training.recompute: expected a ResNet. Received: {network.name}")
    return replace_layers(network, dict.fromkeys(ends, Marked))


def _values(variables: Iterable[Any]) -> list[np.ndarray]:
    return [np.array(ops.convert_to_numpy(variable)) for variable in variables]


def _assign(variables: Iterable[Any], values: Iterable[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


class ExponentialMovingAverage(keras.layers.Layer):
    """Exponential moving averages of a network's weights and batch statistics.

    The first steps count more, `min(decay, (1 + step) / (10 + step))`, as in
    `tf.train.ExponentialMovingAverage` and the TensorFlow Model Garden; otherwise an average of
    0.9999 would remember the random initial weights for 10,000 steps.
    """

    def __init__(self, network: keras.Model, decay: float) -> None:
        super().__init__(name="averages", trainable=False, dtype="float32")
        self.decay = decay
        for source in network.weights:
            average = self.add_weight(source.shape, "zeros", trainable=False, name=source.name)
            # A copy: JAX may not be given one array for two variables.
            average.assign(np.array(ops.convert_to_numpy(source)))
        self.built = True

    def update(self, network: keras.Model, step: Any) -> None:
        """Moves the averages towards the values after a step, counted from 1."""
        step = ops.cast(step, "float32")
        share = 1 - ops.minimum(self.decay, (1 + step) / (10 + step))
        for average, source in zip(self.weights, network.weights, strict=True):
            average.assign(average + share * (ops.cast(source, "float32") - average))

    def of(self, network: keras.Model, inputs: Any) -> Any:
        """Runs the network with its EMA weights."""
        values = dict(zip(map(id, network.weights), self.weights, strict=True))
        trainable, others = (
            [values.get(id(variable), variable).value for variable in variables]
            for variables in (network.trainable_variables, network.non_trainable_variables)
        )
        return network.stateless_call(trainable, others, inputs, training=False)[0]
