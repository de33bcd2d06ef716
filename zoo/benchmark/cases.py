"""Layers on feature maps, and how a command line says which."""

import math
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from zoo.benchmark.settings import BenchmarkSettings, EachOnce
from zoo.benchmark.subjects import FORWARD, FORWARD_BACKWARD, Dtype, Subject
from zoo.errors import unknown
from zoo.flops import POSITION as POSITIONS
from zoo.flops import lambda_layer_flops

if TYPE_CHECKING:
    import keras

    from zoo.benchmark.backends import Backend, Step

HEADS, KEY_DIM = 4, 16  # the paper's, and the defaults of LambdaLayer
MODES = (FORWARD, FORWARD_BACKWARD)
BASELINE = "einsum"  # the paper's own order of computation (Figure 3)
LAYER, POSITION = "layer", "position"
Part = Literal["layer", "position"]


@dataclass(frozen=True)
class Case:
    """One lambda layer on one square feature map.

    Args:
        size: Height and width of the map.
        depth: Channels, before and after the layer.
        batch: Examples.
        scope: Height and width of the scope.
        part: The whole layer, or the position lambdas applied to their queries alone: what the
            implementations differ in.
    """

    size: int
    depth: int
    batch: int
    scope: int
    part: Part = LAYER

    @property
    def value_dim(self) -> int:
        """Value depth v."""
        return self.depth // HEADS

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of inputs; queries and values, side by side, for the position lambdas alone."""
        channels = self.depth if self.part == LAYER else HEADS * KEY_DIM + self.value_dim
        return (self.batch, self.size, self.size, channels)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of outputs."""
        return (self.batch, self.size, self.size, self.depth)

    def flops(self, mode: str) -> float:
        """Floating-point operations by the paper's conventions, however they are computed.

        Those of `zoo.flops`; forward and backward together count three times the forward.
        """
        parts = lambda_layer_flops(
            self.size**2, self.depth, self.depth, HEADS, KEY_DIM, scope_area=self.scope**2
        )
        forward = self.batch * (sum(parts.values()) if self.part == LAYER else parts[POSITIONS])
        return forward * (3 if mode == FORWARD_BACKWARD else 1)

    def dense_bytes(self, itemsize: int) -> int:
        """Size of the embeddings `(n, m, u, k)` that the dense implementations build."""
        return self.size**4 * KEY_DIM * itemsize

    def __str__(self) -> str:
        return (
            f"{self.size}x{self.size}, depth {self.depth}, batch {self.batch}, scope {self.scope}"
            + (", position lambdas alone" if self.part == POSITION else "")
        )


@dataclass(frozen=True)
class LayerSubject(Subject):
    """A Keras layer on random inputs.

    Args:
        case: Shapes of inputs and outputs.
        dtype: Keras dtype policy.
    """

    case: Case
    dtype: str

    @abstractmethod
    def create(self) -> "keras.layers.Layer":
        """Returns the layer; its weights are drawn from a fixed seed."""

    def build(self) -> "keras.layers.Layer":
        """Returns the built layer."""
        import keras

        keras.utils.set_random_seed(0)
        layer = self.create()
        layer.build((None, *self.case.input_shape[1:]))
        return layer

    def steps(self, mode, backend):
        return {"": lambda: self._step(mode, backend)}

    def _step(self, mode: str, backend: "Backend") -> "Step":
        from zoo.benchmark.backends import random_tensor

        layer = self.build()
        inputs = random_tensor(self.case.input_shape, layer.compute_dtype, 1)
        if mode == FORWARD:
            return backend.forward(layer, inputs)
        cotangent = random_tensor(self.case.output_shape, layer.compute_dtype, 2)
        return backend.forward_backward(layer, inputs, cotangent)


@dataclass(frozen=True)
class Implementation(LayerSubject):
    """An implementation of the lambda layer, or of its position lambdas alone.

    Args:
        implementation: By its name in `lambda_keras.layers.LambdaLayer`.
        dense_limit_gb: Dense embeddings larger than this are refused.
    """

    implementation: str
    dense_limit_gb: float = math.inf

    @property
    def name(self):
        return self.implementation

    @property
    def identity(self) -> dict[str, Any]:
        return {**vars(self.case), "implementation": self.implementation}

    def create(self):
        import keras

        from lambda_keras.layers import LambdaLayer
        from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS
        from zoo.benchmark.position_lambdas import PositionLambdas

        full = keras.dtype_policies.get(self.dtype).compute_dtype == "float32"
        dense_gb = self.case.dense_bytes(itemsize=4 if full else 2) / 1e9
        chosen = IMPLEMENTATIONS.get(self.implementation)  # there is no row for auto
        if chosen and chosen.any_pairs and dense_gb > self.dense_limit_gb:
            raise MemoryError(f"its embeddings alone take {dense_gb:.1f} GB, more than the limit")
        kind = LambdaLayer if self.case.part == LAYER else PositionLambdas
        return kind(
            self.case.depth,
            num_heads=HEADS,
            key_dim=KEY_DIM,
            scope=self.case.scope,
            implementation=self.implementation,
            dtype=self.dtype,
        )


def _odd(scopes: tuple[int, ...]) -> tuple[int, ...]:
    if any(scope < 1 or scope % 2 == 0 for scope in scopes):
        raise ValueError(f"expected positive odd numbers. Received: {scopes}")
    return scopes


def _sizes(sizes: tuple[str, ...]) -> tuple[str, ...]:
    for size in sizes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", size):
            raise ValueError(
                f"expected SIZExDEPTH or SIZExDEPTHxBATCH, such as 56x64. Received: {size!r}"
            )
        if int(size.split("x")[1]) % HEADS:
            raise ValueError(
                f"expected depths divisible by {HEADS}, the number of heads. Received: {size!r}"
            )
    return sizes


Scopes = Annotated[
    tuple[int, ...], EachOnce, AfterValidator(_odd), Field(description="Scopes: odd numbers.")
]
Sizes = Annotated[
    tuple[str, ...],
    EachOnce,
    AfterValidator(_sizes),
    Field(description="Square feature maps, as SIZExDEPTH or SIZExDEPTHxBATCH."),
]


class LayerSettings(BenchmarkSettings):
    """Settings of every command that measures the layer."""

    part: Part = Field(
        default=LAYER,
        description="The whole layer, or the position lambdas applied to their queries alone.",
    )
    dtype: Dtype = Field(default="float32", description="Keras dtype policy of the layer.")
    batch: int = Field(default=4, ge=1, description="Examples, for sizes that do not say.")
    scopes: Scopes = (7, 23)
    sizes: Sizes = ("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1")
    implementations: tuple[str, ...] = Field(
        default=(),
        description="Implementations beside einsum, which all are compared with; empty: all.",
    )

    def cases(self) -> list[Case]:
        """Returns every feature map with every scope."""
        parsed = [tuple(map(int, size.split("x"))) for size in self.sizes]
        return [
            Case(size, depth, batch[0] if batch else self.batch, scope, self.part)
            for scope in self.scopes
            for size, depth, *batch in parsed
        ]

    def subjects(self, dense_limit_gb: float = math.inf) -> dict[Case, list[Implementation]]:
        """Returns what to measure on each feature map, the baseline first. Imports Keras.

        Args:
            dense_limit_gb: Dense embeddings larger than this are refused.

        Raises:
            ValueError: If there is no such implementation.
        """
        from lambda_keras.layers.lambda_layer import CHOICES

        existing = CHOICES["implementation"]
        for name in self.implementations:
            if name not in existing:
                raise ValueError(
                    f"implementations: no such implementation. {unknown(name, existing)}"
                )
        names = dict.fromkeys((BASELINE, *(self.implementations or existing)))
        ordered = sorted(names, key=lambda name: name == "auto")  # last: it quotes the others
        return {
            case: [Implementation(case, self.dtype, name, dense_limit_gb) for name in ordered]
            for case in self.cases()
        }
