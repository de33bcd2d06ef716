"""`model.fit` with several steps per execution, on one device, several, or several workers.

Stock Keras 3.15 fails with several replicas and `steps_per_execution` above 1
(keras-team/keras#19246), and with several workers (keras-team/keras#20585). What it lacks is mended
here, and nothing else knows of it.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


class TrainingModel(keras.Model):
    """A functional model whose `fit` runs on every strategy; labels are one-hot.

    Epochs and evaluations have exactly so many steps, whether or not `steps_per_execution` divides
    them: pass the same numbers to `fit`, and training data that do not end.

    Args:
        model: The functional model to train; layers and weights are shared.
        steps_per_epoch: Steps of an epoch.
        evaluation_steps: Steps of an evaluation.
    """

    # Set by Keras' own `compile`.
    optimizer: Any
    train_function: Any
    test_function: Any

    def __init__(self, model: keras.Model, steps_per_epoch: int, evaluation_steps: int) -> None:
        super().__init__(model.inputs, model.outputs, name=model.name)
        self.network = model
        self.steps_per_epoch = steps_per_epoch
        self.evaluation_steps = evaluation_steps

    def make_train_function(self, force: bool = False) -> None:
        """Makes the function that `fit` calls for every execution."""
        if self.train_function is None or force:
            done = int(self.optimizer.iterations.numpy()) % self.steps_per_epoch
            self.train_function = self._execution(self.train_step, self.steps_per_epoch, done)

    def make_test_function(self, force: bool = False) -> None:
        """Makes the function that `evaluate` calls for every execution."""
        if self.test_function is None or force:
            self.test_function = self._execution(self.test_step, self.evaluation_steps)

    def _execution(self, step: Callable, total: int, done: int = 0) -> Callable:
        """Several steps in one call, but none beyond the end of an epoch."""
        strategy = self.distribute_strategy

        def run(batch):
            outputs = strategy.run(step, args=(batch,))
            return tf.nest.map_structure(
                lambda value: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None),
                outputs,
            )

        run = tf.function(run, jit_compile=self.jit_compile, autograph=False)

        def body(iterator, i):
            with tf.control_dependencies(tf.nest.flatten(run(next(iterator)))):
                return [i + 1]

        def steps(iterator, count):
            if self.steps_per_execution > 1:
                tf.while_loop(
                    lambda i: i < count - 1, lambda i: body(iterator, i), [tf.constant(0)]
                )
            return run(next(iterator))

        steps = tf.function(steps, reduce_retracing=True, autograph=False)

        def execution(iterator):
            nonlocal done
            count = min(self.steps_per_execution, total - done)
            done = (done + count) % total
            return steps(iterator, tf.constant(count))

        return execution

    def _maybe_symbolic_build(self, iterator=None, data_batch=None) -> None:
        """Builds metrics from shapes alone: a distributed batch cannot be taken apart."""
        shapes = (self.inputs[0].shape, self.outputs[0].shape)
        with self.distribute_strategy.scope():
            self._symbolic_build(
                data_batch=tuple(tf.TensorSpec((1, *shape[1:])) for shape in shapes)
            )
