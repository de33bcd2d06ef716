"""The layer compiled as users of each Keras backend run it.

Import this after `zoo.cli.use_backend`: it imports Keras.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from lambda_keras.layers import LambdaLayer
from lambda_keras.layers.position_lambdas import fastest, relative_outputs
from zoo.benchmark.cases import FORWARD, HEADS, KEY_DIM, POSITION, Case

Step = Callable[[], Any]  # starts a computation and returns its outputs, maybe before they are done


class PositionLambdas(keras.layers.Layer):
    """The position lambdas of a case, applied to their queries: the layer without its other parts.

    Inputs `(b, height, width, h * k + v)` are queries and values side by side, outputs are
    `(b, height, width, h * v)`.
    """

    def __init__(self, case: Case, implementation: str, dtype: str):
        super().__init__(dtype=dtype)
        self.case, self.implementation = case, implementation

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(self.case.scope, self.case.scope, 1, KEY_DIM), initializer="random_normal"
        )

    def call(self, inputs, training=False):
        case = self.case
        grid, n = (case.size, case.size), case.size**2
        queries = ops.reshape(inputs[..., : HEADS * KEY_DIM], (-1, n, HEADS, KEY_DIM))
        values = ops.reshape(inputs[..., HEADS * KEY_DIM :], (-1, n, case.value_dim, 1))
        name = self.implementation
        if name == "auto":
            name = fastest(grid, (case.scope, case.scope), case.value_dim, 1, False, training)
        embeddings = ops.cast(ops.convert_to_tensor(self.embeddings), inputs.dtype)
        outputs = relative_outputs(queries, values, embeddings, grid, grid, name)
        return ops.reshape(outputs, (-1, *case.output_shape[1:]))


def create_layer(case: Case, implementation: str, dtype: str) -> keras.layers.Layer:
    """Returns a built layer with weights that depend on the case alone."""
    keras.utils.set_random_seed(0)
    if case.part == POSITION:
        layer = PositionLambdas(case, implementation, dtype)
    else:
        layer = LambdaLayer(
            case.depth,
            num_heads=HEADS,
            key_dim=KEY_DIM,
            scope=case.scope,
            implementation=implementation,
            dtype=dtype,
        )
    layer.build((None, *case.input_shape[1:]))
    return layer


def random_tensor(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Returns standard normal numbers."""
    numbers = np.random.default_rng(seed).standard_normal(shape, "float32")
    return ops.cast(ops.convert_to_tensor(numbers), dtype)


class Backend(ABC):
    """How one Keras backend compiles, waits, and measures memory.

    Args:
        xla: Whether TensorFlow compiles with XLA.
    """

    package: str  # whose version matters

    def __init__(self, xla: bool = False):
        self.xla = xla

    def step(self, case: Case, implementation: str, dtype: str, mode: str) -> Step:
        """Compiles the layer: inference, or training with all gradients.

        The training step returns outputs, updated statistics and gradients by inputs and weights:
        what nobody asked for, a compiler would leave out.
        """
        layer = create_layer(case, implementation, dtype)
        inputs = random_tensor(case.input_shape, layer.compute_dtype, 1)
        if mode == FORWARD:
            return self.forward(layer, inputs)
        cotangent = random_tensor(case.output_shape, layer.compute_dtype, 2)
        return self.forward_backward(layer, inputs, cotangent)

    def runner(self, step: Step) -> Callable[[int], None]:
        """Returns what runs a step so many times and waits for its end."""
        at_once = self.accelerator is not None

        def run(calls):
            outputs = None
            for _ in range(calls):
                outputs = step()
                if not at_once:  # steps started together would share the cores
                    self.wait(outputs)
            self.wait(outputs)

        return run

    @property
    @abstractmethod
    def accelerator(self) -> str | None:
        """Name of the GPU or TPU that computations run on, if there is one."""

    @abstractmethod
    def compile(self, function: Callable, *tensors: Any) -> Step:
        """Compiles a function of tensors."""

    @abstractmethod
    def forward(self, layer: keras.layers.Layer, inputs: Any) -> Step:
        """Compiles the layer in inference."""

    @abstractmethod
    def forward_backward(self, layer: keras.layers.Layer, inputs: Any, cotangent: Any) -> Step:
        """Compiles the layer in training, and the gradients of `sum(outputs * cotangent)`."""

    @abstractmethod
    def train(self, model: keras.Model, images: Any, labels: Any) -> Step:
        """Compiles the training step of a compiled model, Keras' own, with a built optimizer."""

    @abstractmethod
    def wait(self, outputs: Any) -> None:
        """Returns when the outputs are computed."""

    @property
    @abstractmethod
    def memory_method(self) -> str | None:
        """How `temporary_bytes` measures; None if this backend cannot, on this hardware."""

    @abstractmethod
    def temporary_bytes(self, step: Step) -> int:
        """Peak memory of a step beside its inputs and weights."""


class TensorFlow(Backend):
    """`tf.function`, with XLA or without."""

    package = "tensorflow"

    def __init__(self, xla: bool = False):
        super().__init__(xla)
        import tensorflow as tf

        self.tf = tf
        self._gpus = tf.config.list_physical_devices("GPU")
        self._device = "GPU:0" if self._gpus else "CPU:0"

    @property
    def accelerator(self):
        if not self._gpus:
            return None
        return self.tf.config.experimental.get_device_details(self._gpus[0])["device_name"]

    def compile(self, function, *tensors):
        compiled = self.tf.function(function, jit_compile=self.xla, autograph=False)
        # Traced here, because TensorFlow warns when many functions of one name are traced by calls.
        concrete = compiled.get_concrete_function(*tensors)
        return lambda: concrete(*tensors)

    def forward(self, layer, inputs):
        return self.compile(lambda x: layer(x, training=False), inputs)

    def forward_backward(self, layer, inputs, cotangent):
        def train(inputs, cotangent):
            with self.tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = layer(inputs, training=True)
            sources = [inputs, *(weight.value for weight in layer.trainable_weights)]
            return outputs, tape.gradient(outputs, sources, output_gradients=cotangent)

        return self.compile(train, inputs, cotangent)

    def train(self, model, images, labels):
        return self.compile(lambda x, y: model.train_step((x, y)), images, labels)

    def wait(self, outputs):
        if self._gpus:  # on a CPU, a function has computed its outputs when it returns
            self.tf.test.experimental.sync_devices()

    @property
    def memory_method(self):
        try:
            self.tf.config.experimental.get_memory_info(self._device)
        except (RuntimeError, ValueError):  # TensorFlow without oneDNN leaves the CPU to malloc
            return None
        return (
            f"peak of TensorFlow's allocator on {self._device} in a call, outputs included; "
            "on a CPU, tensors below 256 KiB are not counted"
        )

    def temporary_bytes(self, step):
        memory = self.tf.config.experimental
        self.wait(step())
        memory.reset_memory_stats(self._device)
        before = memory.get_memory_info(self._device)["current"]
        self.wait(step())
        return memory.get_memory_info(self._device)["peak"] - before


class Jax(Backend):
    """`jax.jit`."""

    package = "jax"

    def __init__(self, xla: bool = False):
        super().__init__(xla)
        import jax  # pyright: ignore[reportMissingImports]

        self.jax = jax

    @property
    def accelerator(self):
        device = self.jax.devices()[0]
        return None if device.platform == "cpu" else device.device_kind

    def compile(self, function, *tensors):
        compiled = self.jax.jit(function).lower(*tensors).compile()

        def step():
            return compiled(*tensors)

        step.analysis = compiled.memory_analysis()  # pyright: ignore[reportFunctionMemberAccess]
        return step

    def forward(self, layer, inputs):
        return self.compile(self.pure_forward(layer), *weights_of(layer), inputs)

    def forward_backward(self, layer, inputs, cotangent):
        return self.compile(
            self.pure_forward_backward(layer), *weights_of(layer), inputs, cotangent
        )

    def train(self, model, images, labels):
        variables = (*weights_of(model), model.optimizer.variables, model.metrics_variables)
        state = tuple([getattr(v, "value", v) for v in group] for group in variables)
        return self.compile(lambda s, x, y: model.train_step(s, (x, y)), state, images, labels)

    def pure_forward(self, layer: keras.layers.Layer) -> Callable:
        """Returns inference as a function of trainable weights, the other ones, and inputs."""

        def infer(trainable, state, inputs):
            return layer.stateless_call(trainable, state, inputs, training=False)[0]

        return infer

    def pure_forward_backward(self, layer: keras.layers.Layer) -> Callable:
        """Returns training as a function of the same, and of the cotangent of the outputs."""

        def train(trainable, state, inputs, cotangent):
            def call(trainable, inputs):
                return layer.stateless_call(trainable, state, inputs, training=True)

            outputs, pull_back, state = self.jax.vjp(call, trainable, inputs, has_aux=True)
            by_weights, by_inputs = pull_back(cotangent)
            return outputs, state, [by_inputs, *by_weights]

        return train

    def wait(self, outputs):
        self.jax.block_until_ready(outputs)

    @property
    def memory_method(self):
        return "temporary memory of the compiled program, by XLA's own analysis"

    def temporary_bytes(self, step):
        return step.analysis.temp_size_in_bytes


class Torch(Backend):
    """PyTorch, eager."""

    package = "torch"

    def __init__(self, xla: bool = False):
        super().__init__(xla)
        import torch  # pyright: ignore[reportMissingImports]

        self.torch = torch
        self._cuda = torch.cuda.is_available()

    @property
    def accelerator(self):
        return self.torch.cuda.get_device_name() if self._cuda else None

    def compile(self, function, *tensors):
        def step():
            with self.torch.no_grad():
                return function(*tensors)

        return step

    def forward(self, layer, inputs):
        return self.compile(lambda x: layer(x, training=False), inputs)

    def forward_backward(self, layer, inputs, cotangent):
        sources = [inputs.requires_grad_(), *(weight.value for weight in layer.trainable_weights)]

        def step():
            outputs = layer(inputs, training=True)
            return outputs.detach(), self.torch.autograd.grad(outputs, sources, cotangent)

        return step

    def train(self, model, images, labels):
        return lambda: model.train_step((images, labels))

    def wait(self, outputs):
        if self._cuda:
            self.torch.cuda.synchronize()

    @property
    def memory_method(self):
        return (
            "peak of PyTorch's CUDA allocator in a call, outputs included"
            if self.accelerator
            else None
        )

    def temporary_bytes(self, step):
        cuda = self.torch.cuda
        self.wait(step())
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        self.wait(step())
        return cuda.max_memory_allocated() - before


def weights_of(layer: keras.layers.Layer) -> tuple[list, list]:
    """Returns the values of the trainable and of the other variables."""
    return (
        [weight.value for weight in layer.trainable_variables],
        [weight.value for weight in layer.non_trainable_variables],
    )


def current_backend(xla: bool = False) -> Backend:
    """Returns the backend that Keras runs on."""
    backends = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
    return backends[keras.backend.backend()](xla)
