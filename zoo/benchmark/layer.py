"""Times the lambda layer: `python -m zoo.benchmark layer`."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from zoo.benchmark.cases import Bench, Case, quotient
from zoo.benchmark.networks import read_arguments
from zoo.benchmark.report import columns
from zoo.benchmark.settings import (
    BASELINE,
    FORWARD,
    FORWARD_BACKWARD,
    BackendSettings,
    BenchmarkSettings,
    Dtype,
    EachOnce,
)
from zoo.cli.settings import checked_by
from zoo.errors import unknown

if TYPE_CHECKING:
    import keras

KEY_DIM = 16  # of lambda layers in the paper, and the default
HEADS = {"lambda": 4, "global": 8}  # defaults; local attention also needs keys of an even depth
MODES = (FORWARD, FORWARD_BACKWARD)
COLUMNS = columns("ms", "us_per_position", "speedup", "of_best", "temporary_bytes")


@dataclass(frozen=True, kw_only=True)
class MixerLayer(Case):
    """A layer that mixes positions, on random inputs: square maps or sequences.

    Args:
        name: Name and arguments of its mixer, `NAME[:ARGUMENT=VALUE]...`.
        size: Height and width of the map, or length of the sequence.
        depth: Number of input and output channels.
        batch: Batch size.
        axes: Number of spatial axes: 2 for maps, 1 for sequences.
        dtype: Keras dtype policy.
        dense_limit_gb: Largest size in GB of tensors over all pairs of positions.
    """

    size: int
    depth: int
    batch: int
    axes: int = 2
    dtype: str = "float32"
    dense_limit_gb: float = math.inf

    kind: ClassVar = "mixer"  # key of `name` in reports

    @property
    def mixer(self) -> tuple[str, dict[str, Any]]:
        """Name of the mixer, and the arguments of its layer."""
        return read_arguments(self.name)

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the spatial axes."""
        return (self.size,) * self.axes

    @property
    def positions(self) -> int:
        """Number of positions per example."""
        return math.prod(self.grid)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the inputs and outputs."""
        return (self.batch, *self.grid, self.depth)

    @property
    def title(self) -> str:
        """Heading with the sizes that all compared cases share."""
        return f"{'x'.join(map(str, self.grid))}, depth {self.depth}, batch {self.batch}"

    @property
    def identity(self):
        names = ("size", "depth", "batch", "axes")
        return {**{name: getattr(self, name) for name in names}, self.kind: self.name}

    def dense_numbers(self) -> int:
        """Counts the elements of the largest tensor over all position pairs; 0 if there is none."""
        from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS, dense_tiles

        mixer, arguments = self.mixer
        if mixer == "global":  # attention maps `(b, h, n, m)`
            return self.batch * arguments.get("num_heads", HEADS[mixer]) * self.positions**2
        name = arguments.get("implementation")
        if name not in IMPLEMENTATIONS or not IMPLEMENTATIONS[name].any_pairs:
            return 0
        in_tiles = dense_tiles(self.grid, (arguments["scope"],) * self.axes)
        return 0 if in_tiles and name == "query_first" else self.positions**2 * KEY_DIM

    def build(self) -> "keras.layers.Layer":
        """Builds the layer, with weights drawn from a fixed seed.

        Raises:
            MemoryError: If it needs a tensor above the limit.
        """
        import keras

        from lambda_keras.models.mixers import MIXERS

        full = keras.dtype_policies.get(self.dtype).compute_dtype == "float32"
        dense_gb = self.dense_numbers() * (4 if full else 2) / 1e9
        if dense_gb > self.dense_limit_gb:
            raise MemoryError(f"one of its tensors takes {dense_gb:.1f} GB, more than the limit")
        keras.utils.set_random_seed(0)
        name, arguments = self.mixer
        mixer = MIXERS[name]
        layer = mixer.layer(self.depth, **{**mixer.arguments, **arguments}, dtype=self.dtype)
        layer.build((None, *self.input_shape[1:]))
        return layer

    def step(self, mode, backend):
        from zoo.benchmark.backends import random_tensor

        layer = self.build()
        inputs = random_tensor(self.input_shape, layer.compute_dtype, 1)
        if mode == FORWARD:
            return backend.forward(layer, inputs)
        cotangent = random_tensor(self.input_shape, layer.compute_dtype, 2)
        return backend.forward_backward(layer, inputs, cotangent)


@dataclass(frozen=True, kw_only=True)
class Implementation(MixerLayer):
    """An implementation of the lambda layer, by its name in `lambda_keras.layers.LambdaLayer`.

    Args:
        scope: Size of the scope along each axis.
        causal: Whether queries see only earlier positions.
    """

    scope: int
    causal: bool = False

    kind: ClassVar = "implementation"

    @property
    def mixer(self):
        arguments = {"scope": self.scope, "causal": self.causal, "implementation": self.name}
        return "lambda", arguments

    @property
    def identity(self):
        return {**super().identity, "scope": self.scope, "causal": self.causal}

    @property
    def title(self):
        return f"{'causal, ' * self.causal}{super().title}, scope {self.scope}"


def _check_odd(scope: int) -> None:
    if scope < 1 or scope % 2 == 0:
        raise ValueError(f"expected positive odd numbers. Received: {scope}")


def parse_size(size: str, batch: int = 1, divisor: int = HEADS["lambda"]) -> dict[str, int]:
    """Parses `SIZExDEPTH` or `SIZExDEPTHxBATCH`; `divisor` has to divide the depth."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", size)
    if not found:
        raise ValueError(
            f"expected SIZExDEPTH or SIZExDEPTHxBATCH, such as 56x64. Received: {size!r}"
        )
    if int(found[2]) % divisor:
        raise ValueError(f"expected depths divisible by {divisor}. Received: {size!r}")
    return {"size": int(found[1]), "depth": int(found[2]), "batch": int(found[3] or batch)}


Scopes = Annotated[
    tuple[Annotated[int, checked_by(_check_odd)], ...],
    EachOnce,
    Field(description="Scopes: odd numbers."),
]
AS = "Square feature maps or sequences, as SIZExDEPTH or SIZExDEPTHxBATCH."
Text = Annotated[str, Field(coerce_numbers_to_str=True)]  # command lines also pass numbers
Sizes = Annotated[
    tuple[Annotated[Text, checked_by(parse_size)], ...], EachOnce, Field(description=AS)
]
Batch = Annotated[int, Field(ge=1, description="Examples, for sizes that do not say.")]
DenseLimit = Annotated[
    float,
    Field(gt=0, description="What has larger tensors of all pairs of positions is not tried."),
]
Axes = Annotated[int, Field(ge=1, le=2, description="2 for feature maps, 1 for sequences.")]


class LayerSettings(BenchmarkSettings):
    """Settings of every command that measures the layer."""

    dtype: Dtype = "float32"
    """Keras dtype policy of the layer."""
    batch: Batch = 4
    scopes: Scopes = (7, 23)
    sizes: Sizes = ("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1")
    axes: Axes = 2
    causal: bool = False
    """Queries see only what comes before them."""
    implementations: tuple[str, ...] = Field(
        default=(),
        description=f"Implementations to compare with {BASELINE}; empty: all.",
    )

    def cases(self, dense_limit_gb: float = math.inf) -> list[list[Implementation]]:
        """Lists the cases of each feature map, the baseline first. Imports Keras.

        Raises:
            ValueError: If there is no such implementation.
        """
        from lambda_keras.layers.position_lambdas import capable

        existing = capable(axes=self.axes, causal=self.causal)
        for name in self.implementations:
            if name not in existing:
                raise ValueError(
                    f"implementations: no such implementation. {unknown(name, existing)}"
                )
        names = dict.fromkeys((BASELINE, *(self.implementations or existing)))
        ordered = sorted(names, key=lambda name: name == "auto")  # last: it refers to the others
        common = {"axes": self.axes, "dtype": self.dtype, "causal": self.causal}
        common["dense_limit_gb"] = dense_limit_gb
        return [
            [
                Implementation(name, scope=scope, **parse_size(size, self.batch), **common)
                for name in ordered
            ]
            for scope in self.scopes
            for size in self.sizes
        ]


class Config(LayerSettings, BackendSettings, cli_prog_name="python -m zoo.benchmark layer"):
    """Times every implementation of the lambda layer, and `auto`, which chooses among them.

    The layer is compiled as users run it: tf.function, jax.jit, or eager PyTorch. All
    implementations are timed in turn in one process, forward and forward + backward.
    """

    dense_limit_gb: DenseLimit = 2


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config, arguments)
    bench.draws_layers()
    for cases in config.cases(config.dense_limit_gb):
        beside = partial(compare, cases[0])
        bench.measure(cases, MODES, COLUMNS, beside, f"{cases[0].title}, ")
    bench.finish()


def compare(case: MixerLayer, found: Mapping[str, dict[str, Any]], key: str = "ms") -> None:
    """Adds the time per position, and the ratios to the baseline and to the fastest."""
    times = {name: one[key] for name, one in found.items()}
    best = min((ms for name, ms in times.items() if ms and name != "auto"), default=None)
    for name, ms in times.items():
        us = quotient(1e3 * ms, case.batch * case.positions) if ms else None
        found[name] |= {"us_per_position": us, "speedup": quotient(times[BASELINE], ms)}
        found[name]["of_best"] = quotient(best, ms)
