"""Layers and models compiled as users of each Keras backend run them.

Import this after `zoo.backend.use_default_backend`: it imports Keras.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.backend import stateless_call

# XLA passes that hoist loop-invariant code: here the whole body, since inputs stay the same.
HOISTING = "while-loop-invariant-code-motion,while-loop-expensive-invariant-code-motion"


@dataclass(frozen=True)
class Step:
    """A compiled computation together with its inputs."""

    # Returns outputs, possibly before they are computed; if `looping`, accepts a number of calls.
    start: Callable[..., Any]
    backend: "Backend"  # waits for outputs and measures memory
    program: Any = None  # compiled program of JAX
    looping: bool = False  # whether the program repeats the computation itself

    def run(self, calls: int) -> None:
        """Runs the computation `calls` times, and waits for the end."""
        if self.looping:  # kernels of small maps take less time than a turn of Python's loop
            return self.backend.wait(self.start(calls))
        for i in range(calls):
            outputs = self.start()
            # Steps that start together would share the cores of a CPU.
            if not self.backend.accelerator or i == calls - 1:
                self.backend.wait(outputs)


def random_tensor(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Draws a tensor of standard normal numbers."""
    numbers = np.random.default_rng(seed).standard_normal(shape, "float32")
    return ops.cast(ops.convert_to_tensor(numbers), dtype)


class Backend(ABC):
    """Compilation, synchronization and memory measurement of one Keras backend."""

    package: str  # module and distribution
    accelerator: Any = None  # name of the GPU or TPU, if there is one
    memory_method: Any = None  # method of `temporary_bytes`; None if there is none on this hardware

    def __init__(self, xla: bool = False):
        self.xla = xla  # whether TensorFlow compiles with XLA
        self.module: Any = import_module(self.package)

    @abstractmethod
    def compile(self, function: Callable, *tensors: Any) -> Step:
        """Compiles a function of tensors."""

    def forward(self, layer: keras.layers.Layer, inputs: Any) -> Step:
        """Compiles a layer in inference mode."""
        return self.compile(lambda x: layer(x, training=False), inputs)

    @abstractmethod
    def forward_backward(self, layer: keras.layers.Layer, inputs: Any, cotangent: Any) -> Step:
        """Compiles a layer in training mode, with the gradients of `sum(outputs * cotangent)`.

        The step returns outputs, updated statistics, and gradients by inputs and weights: compilers
        would eliminate results that are not returned.
        """

    def train(self, model: keras.Model, images: Any, labels: Any) -> Step:
        """Compiles Keras' own training step of a compiled model with a built optimizer."""
        return self.compile(lambda x, y: model.train_step((x, y)), images, labels)

    @abstractmethod
    def wait(self, outputs: Any) -> None:
        """Waits until the outputs are computed."""

    @abstractmethod
    def temporary_bytes(self, step: Step) -> int:
        """Measures the peak memory of a step in addition to its inputs and weights."""


class AllocatorBackend(Backend):
    """Backend whose allocator counts memory."""

    @abstractmethod
    def memory(self, reset: bool = False) -> int:
        """Returns the peak memory since the last reset, or resets it and returns the memory now."""

    def temporary_bytes(self, step: Step) -> int:
        self.wait(step.start())
        before = self.memory(reset=True)
        self.wait(step.start())
        return self.memory() - before


class TensorFlow(AllocatorBackend):
    """TensorFlow: `tf.function`, with or without XLA."""

    package = "tensorflow"

    @cached_property
    def accelerator(self):
        gpus = self.module.config.list_physical_devices("GPU")
        details = self.module.config.experimental.get_device_details
        return details(gpus[0])["device_name"] if gpus else None

    def compile(self, function, *tensors):
        compiled = self.module.function(function, jit_compile=self.xla, autograph=False)
        # Tracing takes place here: TensorFlow warns if calls trace many functions of one name.
        concrete = compiled.get_concrete_function(*tensors)
        return Step(lambda: concrete(*tensors), self)

    def forward_backward(self, layer, inputs, cotangent):
        def train(inputs, cotangent):
            with self.module.GradientTape() as tape:
                tape.watch(inputs)
                outputs = layer(inputs, training=True)
            sources = [inputs, *(weight.value for weight in layer.trainable_weights)]
            return outputs, tape.gradient(outputs, sources, output_gradients=cotangent)

        return self.compile(train, inputs, cotangent)

    def wait(self, outputs):
        if self.accelerator:  # on CPUs, functions return after computing their outputs
            self.module.test.experimental.sync_devices()

    @property
    def memory_method(self):
        try:
            self.memory()
        except (RuntimeError, ValueError):  # without oneDNN, the CPU allocator is malloc
            return None
        return (
            f"peak of TensorFlow's allocator on {'GPU:0' if self.accelerator else 'CPU:0'} in a "
            "call, outputs included; on a CPU, tensors below 256 KiB are not counted"
        )

    def memory(self, reset=False):
        known, device = self.module.config.experimental, "GPU:0" if self.accelerator else "CPU:0"
        if reset:
            known.reset_memory_stats(device)
        return known.get_memory_info(device)["current" if reset else "peak"]


class Jax(Backend):
    """JAX: `jax.jit`."""

    package = "jax"
    memory_method = "temporary memory of the compiled program, by XLA's own analysis"

    @cached_property
    def accelerator(self):
        device = self.module.devices()[0]
        return None if device.platform == "cpu" else device.device_kind

    def compile(self, function, *tensors):
        compiled = self.module.jit(function).lower(*tensors).compile()
        return Step(lambda: compiled(*tensors), self, compiled)

    def forward(self, layer, inputs):
        def infer(trainable, state, inputs):
            return stateless_call(layer, trainable, state, inputs, training=False)[0]

        return self.compile(infer, *_weights(layer), inputs)

    def forward_backward(self, layer, inputs, cotangent):
        def train(trainable, state, inputs, cotangent):
            def call(trainable, inputs):
                return stateless_call(layer, trainable, state, inputs, training=True)

            outputs, pull_back, state = self.module.vjp(call, trainable, inputs, has_aux=True)
            by_weights, by_inputs = pull_back(cotangent)
            return outputs, state, [by_inputs, *by_weights]

        return self.compile(train, *_weights(layer), inputs, cotangent)

    def train(self, model, images, labels):
        return self.compile(*self.training(model, images, labels))

    def training(self, model: keras.Model, images: Any, labels: Any) -> tuple[Any, ...]:
        """Returns Keras' training step and its arguments: state, images and labels."""
        variables = (*_weights(model), model.optimizer.variables, model.metrics_variables)
        state = tuple([getattr(v, "value", v) for v in group] for group in variables)
        return lambda s, x, y: model.train_step(s, (x, y)), state, images, labels

    def wait(self, outputs):
        self.module.block_until_ready(outputs)

    def temporary_bytes(self, step):
        return step.program.memory_analysis().temp_size_in_bytes


class Torch(AllocatorBackend):
    """PyTorch, eager."""

    package = "torch"

    @cached_property
    def accelerator(self):
        cuda = self.module.cuda
        return cuda.get_device_name() if cuda.is_available() else None

    def compile(self, function, *tensors):
        return Step(self.module.no_grad()(lambda: function(*tensors)), self)

    def forward_backward(self, layer, inputs, cotangent):
        sources = [inputs.requires_grad_(), *(weight.value for weight in layer.trainable_weights)]

        def start():
            outputs = layer(inputs, training=True)
            return outputs.detach(), self.module.autograd.grad(outputs, sources, cotangent)

        return Step(start, self)

    def train(self, model, images, labels):
        return Step(lambda: model.train_step((images, labels)), self)

    def wait(self, outputs):
        if self.accelerator:
            self.module.cuda.synchronize()

    @property
    def memory_method(self):
        where = "CUDA allocator" if self.accelerator else "CPU allocator, by its profiler,"
        return f"peak of PyTorch's {where} in a call, outputs included"

    def memory(self, reset=False):
        cuda = self.module.cuda
        if reset:
            cuda.reset_peak_memory_stats()
        return cuda.memory_allocated() if reset else cuda.max_memory_allocated()

    def temporary_bytes(self, step):
        if self.accelerator:
            return super().temporary_bytes(step)
        profiler = self.module.profiler
        cpu = [profiler.ProfilerActivity.CPU]
        with profiler.profile(activities=cpu, profile_memory=True) as profile:
            outputs = step.start()  # kept alive, so that outputs count
        events = profile.profiler.kineto_results.events()
        changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.nbytes())
        del outputs
        return max(accumulate(size for _, size in changes), default=0)


class JaxLoop(Jax):
    """JAX: a loop in the program of `jax.jit`, which updates its donated outputs in place."""

    def compile(self, function, *tensors):
        jax = self.module

        def turn(outputs, tensors):
            tensors, _ = jax.lax.optimization_barrier((tensors, outputs))
            return function(*tensors)

        shapes = jax.eval_shape(function, *tensors)
        zeros = jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), shapes)
        return self._loop(turn, zeros, tensors)

    def train(self, model, images, labels):
        step, state, *data = self.training(model, images, labels)
        # The program donates its state, so the variables need buffers of their own.
        state = self.module.tree.map(self.module.numpy.copy, state)
        return self._loop(lambda state, data: step(state, *data)[1], state, data)

    def _loop(self, turn: Callable, carried: Any, tensors: Any) -> Step:
        """Compiles the repetition of `carried = turn(carried, tensors)`."""
        jax = self.module

        def repeat(calls, carried, tensors):
            return jax.lax.fori_loop(0, calls, lambda _, last: turn(last, tensors), carried)

        lowered = jax.jit(repeat, donate_argnums=1).lower(np.int32(1), carried, tensors)
        program, last = lowered.compile({"xla_disable_hlo_passes": HOISTING}), [carried]

        def start(calls=1):
            last.append(program(np.int32(calls), last.pop(), tensors))
            return last[0]

        return Step(start, self, program, looping=True)


def _weights(layer: keras.layers.Layer) -> list[list]:
    groups = (layer.trainable_variables, layer.non_trainable_variables)
    return [[weight.value for weight in group] for group in groups]


def current_backend(xla: bool = False, looping: bool = False) -> Backend:
    """Returns the current Keras backend; with `looping`, JAX programs loop over the calls."""
    kinds = (TensorFlow, JaxLoop if looping else Jax, Torch)
    name = keras.backend.backend()
    return next(kind for kind in kinds if kind.package == name)(xla)
