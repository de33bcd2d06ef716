"""The training model for `model.fit`, on one device, several, or several hosts.

Stock Keras 3.15 on TensorFlow fails with several replicas and `steps_per_execution` above 1
(keras-team/keras#19246), and with several workers (keras-team/keras#20585). On every backend it
does steps twice or too many when `steps_per_execution` does not divide an epoch, and its moving
averages leave batch statistics out. This module works around these bugs by private attributes of
Keras; tests/test_keras_private.py checks that Keras still has them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from zoo.train.averages import ExponentialMovingAverage
from zoo.train.losses import Objective
from zoo.train.recompute import recomputed
from zoo.train.updates import GradientAccumulation


class TrainingModel(keras.Model):
    """Trains a functional model; labels are one-hot.

    Epochs and evaluations have exactly the given number of steps, whether or not
    `steps_per_execution` divides it: pass the same numbers to `fit`, and endless training data.

    With a `GradientAccumulation` as optimizer, each step takes several micro-batches.

    Training minimizes `objective`, or the loss of `compile` without one, plus regularizers.
    Evaluation uses the loss of `compile`, and with the decay `ema`, the EMA of all weights and
    batch statistics. With `recompute`, the backward pass of JAX keeps only the activations that
    `mark_blocks` has marked. `preprocess` runs on the device, so that batches can be uint8, a
    quarter of float32.
    """

    def __init__(
        self,
        network: keras.Model,
        steps_per_epoch: int,
        evaluation_steps: int,
        ema: float | None = None,
        objective: Objective | None = None,
        recompute: bool = False,
        preprocess: Callable[[Any], Any] | None = None,
    ) -> None:
        # In the compute dtype of the network, mixed images in [0, 255] would lose bits.
        super().__init__(name=network.name, autocast=preprocess is None)
        self.network = network
        self.preprocess = preprocess or (lambda images: images)
        self.steps_per_epoch = steps_per_epoch
        self.evaluation_steps = evaluation_steps
        self.averages = None if ema is None else ExponentialMovingAverage(network, ema)
        self.objective = objective
        self.recompute = recompute
        self.steps_done = 0  # training steps in all
        self.resumed = False  # whether the run resumes within an epoch and keeps its metrics
        self.built = True

    @property
    def state(self) -> list[keras.Variable]:
        """All variables that a resumed run needs, in a fixed order."""
        self._maybe_symbolic_build()  # creates the variables of the optimizer and the metrics
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

    def averaged(self) -> AbstractContextManager[None]:
        """Swaps EMA weights into the network in the `with` block, and keeps changes made there."""
        return nullcontext() if self.averages is None else self.averages.swapped(self.network)

    def call(self, inputs, training=False):
        inputs = self.preprocess(inputs)
        if training or self.averages is None:
            return self.network(inputs, training=training)
        return self.averages.predict(self.network, inputs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not training:  # the test loss has no regularization
            return self._compile_loss(y, y_pred, sample_weight)  # pyright: ignore
        if self.objective is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if self.objective.teacher is not None:
            x = self.preprocess(x)
        loss = self.objective.compute(x, y, y_pred)
        return loss + sum(map(self._aggregate_additional_loss, self.losses))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Computes Keras' metrics; padding does not count in the mean test loss."""
        if sample_weight is not None:
            padding = keras.ops.sum(1 - keras.ops.cast(sample_weight, "float32"))
            self._loss_tracker.count.assign_sub(padding)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def compute_loss_and_updates(self, *state, **arguments):
        """Computes the loss that JAX differentiates; recomputation takes less memory."""
        compute = partial(super().compute_loss_and_updates, **arguments)  # pyright: ignore
        return (recomputed(compute) if self.recompute else compute)(*state)

    def train_step(self, *args):
        """Runs Keras' own step, then updates the EMA unless gradients are only accumulated."""
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
            accumulates = isinstance(self.optimizer, GradientAccumulation)
            self.train_function = self._steps(
                self.train_step,
                self.add_step if accumulates else None,
                self.optimizer.steps if accumulates else 1,
                self.training_counts(),
            )

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            self.test_function = self._steps(self.test_step, None, 1, self.evaluation_counts())

    def _steps(
        self, step: Callable, add: Callable | None, parts: int, counts: Iterator[int]
    ) -> Any:
        """Returns the function that Keras calls for every execution; `counts` yields its steps."""
        if keras.backend.backend() == "tensorflow":
            return TensorFlowSteps(self, step, add, parts, counts)
        shardings = None
        if keras.distribution.distribution() is not None:
            # Keras' own shardings: every variable stays where it is.
            trainable, others, optimizer, metrics = self._get_state_sharding_spec()
            training = [optimizer] if step == self.train_step else []
            shardings = None, (trainable, others, *training, metrics)
        import jax  # pyright: ignore[reportMissingImports]

        compiled = partial(jax.jit, donate_argnums=0, out_shardings=shardings)
        return JaxSteps(compiled(step), add and compiled(add), parts, counts)

    def training_counts(self) -> Iterator[int]:
        """Yields the steps of each execution; none goes beyond the end of an epoch."""
        while True:
            left = self.steps_per_epoch - self.steps_done % self.steps_per_epoch
            count = min(self.steps_per_execution, left)
            self.steps_done += count
            yield count

    def evaluation_counts(self) -> Iterator[int]:
        while True:
            for done in range(0, self.evaluation_steps, self.steps_per_execution):
                yield min(self.steps_per_execution, self.evaluation_steps - done)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None) -> None:
        """Builds metrics from shapes alone: a distributed batch cannot be taken apart."""
        shapes = (self.network.inputs[0].shape, self.network.outputs[0].shape)
        tensorflow = keras.backend.backend() == "tensorflow"
        with self.distribute_strategy.scope() if tensorflow else nullcontext():
            self._symbolic_build(
                data_batch=tuple(keras.KerasTensor((1, *shape[1:])) for shape in shapes)
            )


@dataclass
class JaxSteps:
    """Several steps as one call, each of several micro-batches."""

    step: Callable  # compiled, of state and batch
    add: Any  # the same for all micro-batches but the last
    parts: int  # micro-batches of a step
    counts: Iterator[int]  # steps of every call

    def __call__(self, state: Any, iterator: Iterator) -> tuple[Any, Any]:
        logs = None
        for _ in range(next(self.counts)):
            for _ in range(self.parts - 1):
                _, state = self.add(state, next(iterator))
            logs, state = self.step(state, next(iterator))
        return logs, state


class TensorFlowSteps:
    """Several steps as one call of a compiled function, each of several micro-batches."""

    def __init__(
        self,
        model: keras.Model,
        step: Callable,
        add: Callable | None,
        parts: int,
        counts: Iterator[int],
    ) -> None:
        self.strategy, self.several = model.distribute_strategy, model.steps_per_execution > 1
        self.parts, self.counts = parts, counts
        self.step, self.add = (
            tf.function(
                partial(self._on_replicas, function), jit_compile=model.jit_compile, autograph=False
            )
            for function in (step, add)
        )
        self.steps = tf.function(self._steps, reduce_retracing=True, autograph=False)

    def __call__(self, iterator: Any) -> Any:
        return self.steps(iterator, tf.constant(next(self.counts)))

    def _steps(self, iterator: Any, count: Any) -> Any:
        if self.several:
            _repeat(partial(self._step, iterator), count - 1)
        return self._step(iterator)

    def _step(self, iterator: Any) -> Any:
        if self.parts > 1:
            _repeat(lambda: self.add(next(iterator)), self.parts - 1)
        return self.step(next(iterator))

    def _on_replicas(self, step: Any, batch: Any) -> Any:
        mean = partial(self.strategy.reduce, tf.distribute.ReduceOp.MEAN, axis=None)
        return tf.nest.map_structure(mean, self.strategy.run(step, args=(batch,)))


def _repeat(function: Callable, times: Any) -> None:
    tf.while_loop(lambda i: i < times, partial(_once_more, function), [tf.constant(0)])


def _once_more(function: Callable, i: Any) -> list[Any]:
    with tf.control_dependencies(tf.nest.flatten(function())):
        return [i + 1]
