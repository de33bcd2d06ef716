"""Backends whose compiled programs repeat a computation themselves.

Kernels of small maps take microseconds on an accelerator: a loop in Python would time Python.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import tree

from zoo.benchmark.backends import Backend, Jax, Step, TensorFlow, Torch

# Passes that would move out of the loop what is the same in all turns: everything.
HOISTING = "while-loop-invariant-code-motion,while-loop-expensive-invariant-code-motion"


@dataclass(frozen=True)
class Loop(Step):
    """A compiled loop: `start` takes the number of turns, 1 by default."""

    start: Callable[..., Any]

    def run(self, calls: int) -> None:
        self.backend.wait(self.start(calls))


class JaxLoop(Jax):
    """JAX: a loop in the program of `jax.jit`, which updates its donated outputs in place."""

    def compile(self, function, *tensors):
        jax = self.module

        def turn(outputs, tensors):
            tensors, _ = jax.lax.optimization_barrier((tensors, outputs))
            return function(*tensors)

        shapes = jax.eval_shape(function, *tensors)
        zeros = jax.tree.map(lambda one: jax.numpy.zeros(one.shape, one.dtype), shapes)
        return self._loop(turn, zeros, tensors)

    def train(self, model, images, labels):
        step, state, *data = self.training(model, images, labels)
        # The program takes the state over; the variables keep their own.
        state = self.module.tree.map(self.module.numpy.copy, state)
        return self._loop(lambda state, data: step(state, *data)[1], state, data)

    def _loop(self, turn: Callable, carried: Any, tensors: Any) -> Loop:
        """Compiles the repetition of `carried = turn(carried, tensors)`."""
        jax = self.module

        def repeat(calls, carried, tensors):
            return jax.lax.fori_loop(0, calls, lambda _, last: turn(last, tensors), carried)

        lowered = jax.jit(repeat, donate_argnums=1).lower(np.int32(1), carried, tensors)
        program, last = lowered.compile({"xla_disable_hlo_passes": HOISTING}), [carried]

        def start(calls=1):
            last.append(program(np.int32(calls), last.pop(), tensors))
            return last[0]

        return Loop(start, self, program)


class TensorFlowLoop(TensorFlow):
    """TensorFlow: a `tf.while_loop` in one `tf.function`."""

    def compile(self, function, *tensors):
        tf = self.module

        def outputs(*inputs):
            return [one for one in tree.flatten(function(*inputs)) if one is not None]

        traced = tf.function(outputs, autograph=False).get_concrete_function(*tensors)
        zeros = [tf.zeros(one.shape, one.dtype) for one in traced.structured_outputs]

        def turn(i, last):
            with tf.control_dependencies(last):
                again = [tf.identity(tensor) for tensor in tensors]
            return i + 1, outputs(*again)

        def repeat(calls, last):
            return tf.while_loop(lambda i, _: i < calls, turn, (0, last))[1]

        repeat = tf.function(repeat, autograph=False).get_concrete_function(tf.constant(1), zeros)
        return Loop(lambda calls=1: repeat(tf.constant(calls), zeros), self)


def looping_backend() -> Backend:
    """Returns the backend that Keras runs on; PyTorch's calls stay calls from Python."""
    name = keras.backend.backend()
    return next(kind for kind in (TensorFlowLoop, JaxLoop, Torch) if kind.package == name)()
