"""What the layer is measured on: feature maps and scopes, and what they cost on paper."""

import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator

from zoo.benchmark.settings import JsonFile
from zoo.cli.settings import Settings
from zoo.errors import unknown
from zoo.flops import POSITION as POSITIONS
from zoo.flops import lambda_layer_flops

HEADS, KEY_DIM = 4, 16  # the paper's, and the defaults of LambdaLayer
FORWARD, FORWARD_BACKWARD = "forward", "forward_backward"
MODES = (FORWARD, FORWARD_BACKWARD)
BASELINE = "einsum"  # the paper's own order of computation (Figure 3)
LAYER, POSITION = "layer", "position"
Part = Literal["layer", "position"]
Dtype = Literal["float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float16"]


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
    def input_shape(self) -> tuple[int, int, int, int]:
        """Shape of inputs; queries and values, side by side, for the position lambdas alone."""
        channels = self.depth if self.part == LAYER else HEADS * KEY_DIM + self.value_dim
        return (self.batch, self.size, self.size, channels)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
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


class LayerSettings(Settings):
    """Settings of every command that measures the layer."""

    part: Part = Field(
        default=LAYER,
        description="The whole layer, or the position lambdas applied to their queries alone.",
    )
    dtype: Dtype = Field(default="float32", description="Keras dtype policy of the layer.")
    batch: int = Field(default=4, ge=1, description="Examples, for sizes that do not say.")
    scopes: tuple[int, ...] = Field(default=(7, 23), description="Scopes: odd numbers.")
    sizes: tuple[str, ...] = Field(
        default=("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1"),
        description="Square feature maps, as SIZExDEPTH or SIZExDEPTHxBATCH.",
    )
    implementations: tuple[str, ...] = Field(
        default=(),
        description="Implementations beside einsum, which all are compared with; empty: all.",
    )
    output: JsonFile | None = Field(
        default=None, description="JSON file to write; a picture .png beside it where there is one."
    )

    @field_validator("scopes", "sizes")
    @classmethod
    def _not_empty(cls, values: tuple) -> tuple:
        if not values:
            raise ValueError("expected one or more")
        return values

    @field_validator("scopes")
    @classmethod
    def _odd(cls, scopes: tuple[int, ...]) -> tuple[int, ...]:
        if any(scope < 1 or scope % 2 == 0 for scope in scopes):
            raise ValueError(f"expected positive odd numbers. Received: {scopes}")
        return scopes

    @field_validator("sizes")
    @classmethod
    def _sizes(cls, sizes: tuple[str, ...]) -> tuple[str, ...]:
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

    def cases(self) -> list[Case]:
        """Returns every feature map with every scope."""
        parsed = [tuple(map(int, size.split("x"))) for size in self.sizes]
        return [
            Case(size, depth, batch[0] if batch else self.batch, scope, self.part)
            for scope in self.scopes
            for size, depth, *batch in parsed
        ]

    def chosen(self, existing: tuple[str, ...]) -> list[str]:
        """Returns the implementations to measure, the baseline first.

        Args:
            existing: All names that LambdaLayer takes; known once Keras is imported.

        Raises:
            ValueError: If there is no such implementation.
        """
        for name in self.implementations:
            if name not in existing:
                raise ValueError(
                    f"implementations: no such implementation. {unknown(name, existing)}"
                )
        names = dict.fromkeys((BASELINE, *(self.implementations or existing)))
        return sorted(names, key=lambda name: name == "auto")  # auto last: it quotes the others
