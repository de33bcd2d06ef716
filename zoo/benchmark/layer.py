"""Times the lambda layer: `python -m zoo.benchmark layer`."""

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from zoo.benchmark.models import read_arguments
from zoo.benchmark.report import Case, Results, quotient
from zoo.benchmark.settings import BASELINE, BackendSettings, BenchmarkSettings, Dtype, EachOnce
from zoo.benchmark.timing import Bench
from zoo.errors import unknown
from zoo.fields import LARGEST, BatchSize, checked_by
from zoo.measurements import FORWARD, FORWARD_BACKWARD, columns

KEY_DIM = 16  # of lambda layers in the paper, and the default
HEADS = {"lambda": 4, "global": 8}  # defaults; local attention also needs keys of an even depth
MODES = (FORWARD, FORWARD_BACKWARD)
# Maps and depths of lambda layers in networks at 224 to 320 pixels.
STAGES = ("56x64", "28x128", "20x256", "16x256", "14x256", "7x512")
COLUMNS = columns("ms", "us_per_position", "speedup", "of_best", "temporary_bytes")


@dataclass(frozen=True, kw_only=True)
class MixerLayer(Case):
    """A layer that mixes positions, on random inputs; its name is NAME[:ARGUMENT=VALUE]..."""

    size: int  # height and width of the map, or length of the sequence
    depth: int  # number of input and output channels
    batch: int
    axes: int = 2  # 2 for maps, 1 for sequences
    dtype: str = "float32"  # Keras dtype policy
    dense_limit_gb: float = math.inf  # largest size of tensors over all pairs of positions

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
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the inputs and outputs."""
        return (self.batch, *self.grid, self.depth)

    @property
    def title(self) -> str:
        """Heading with the sizes that all compared cases share."""
        return f"{'x'.join(map(str, self.grid))}, depth {self.depth}, batch {self.batch}"

    @property
    def identity(self):
        sizes = {"size": self.size, "depth": self.depth, "batch": self.batch, "axes": self.axes}
        return {**sizes, self.kind: self.name}

    def dense_numbers(self) -> int:
        """Counts the elements of the largest tensor over all position pairs; 0 if there is none."""
        from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS, dense_tiles

        mixer, arguments = self.mixer
        if mixer == "global":  # attention maps `(b, h, n, m)`
            return self.batch * arguments.get("num_heads", HEADS[mixer]) * math.prod(self.grid) ** 2
        name = arguments.get("implementation")
        if name not in IMPLEMENTATIONS or not IMPLEMENTATIONS[name].any_pairs:
            return 0
        in_tiles = dense_tiles(self.grid, (arguments["scope"],) * self.axes)
        return 0 if in_tiles and name == "query_first" else math.prod(self.grid) ** 2 * KEY_DIM

    def build(self) -> Any:
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
    """An implementation of the lambda layer, by its name in `lambda_keras.layers.LambdaLayer`."""

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
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", size)
    if not match:
        raise ValueError(
            f"expected SIZExDEPTH or SIZExDEPTHxBATCH, such as 56x64. Received: {size!r}"
        )
    if int(match[2]) % divisor:
        raise ValueError(f"expected depths divisible by {divisor}. Received: {size!r}")
    return {"size": int(match[1]), "depth": int(match[2]), "batch": int(match[3] or batch)}


Odd = Annotated[int, Field(le=LARGEST), checked_by(_check_odd)]
Scopes = Annotated[tuple[Odd, ...], EachOnce, Field(description="Scopes: odd numbers.")]
AS = "Square feature maps or sequences, as SIZExDEPTH or SIZExDEPTHxBATCH."
Text = Annotated[str, Field(coerce_numbers_to_str=True)]  # command lines also pass numbers
Size = Annotated[Text, checked_by(parse_size)]
Sizes = Annotated[tuple[Size, ...], EachOnce, Field(description=AS)]
Batch = Annotated[BatchSize, Field(description="Examples, for sizes that do not say.")]
DenseLimit = Annotated[float, Field(gt=0, description="Skip larger tensors of all position pairs.")]


class LayerSettings(BenchmarkSettings):
    """Settings of every command that measures the layer."""

    dtype: Dtype = "float32"
    """Keras dtype policy of the layer."""
    batch: Batch = 4
    scopes: Scopes = (7, 23)
    sizes: Sizes = ("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1")
    axes: int = Field(default=2, ge=1, le=2)
    """2 for feature maps, 1 for sequences."""
    causal: bool = False
    """Queries see only what comes before them."""
    implementations: tuple[str, ...] = ()
    """Implementations to compare with einsum, the paper's order; empty: all."""

    def cases(self, dense_limit_gb: float = math.inf) -> list[list[Implementation]]:
        """Lists the cases of each feature map, the baseline first. Imports Keras."""
        from lambda_keras.layers.position_lambdas import capable

        existing = capable(axes=self.axes, causal=self.causal)
        for name in self.implementations:
            if name not in existing:
                received = unknown(name, existing)
                raise ValueError(f"implementations: no such implementation. {received}")
        names = dict.fromkeys((BASELINE, *(self.implementations or existing)))
        ordered = sorted(names, key=lambda name: name == "auto")  # last: it refers to the others
        common = {"axes": self.axes, "dtype": self.dtype, "causal": self.causal}
        common["dense_limit_gb"] = dense_limit_gb
        sizes = [{**common, **parse_size(size, self.batch)} for size in self.sizes]
        return [
            [Implementation(name, scope=scope, **size) for name in ordered]
            for scope in self.scopes
            for size in sizes
        ]


class Config(LayerSettings, BackendSettings):
    """Times every implementation of the lambda layer, and `auto`, which chooses among them.

    The layer is compiled as users run it: tf.function, jax.jit, or eager PyTorch. All
    implementations are timed in turn in one process, forward and forward + backward.
    """

    dense_limit_gb: DenseLimit = 2


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config)
    for cases in config.cases(config.dense_limit_gb):
        bench.measure(cases, MODES, COLUMNS, partial(compare, cases[0]), f"{cases[0].title}, ")
    bench.finish()


def compare(case: MixerLayer, results: Results, key: str = "ms") -> None:
    """Adds time per position, speedup over the baseline, and speed relative to the fastest."""
    times = {name: result[key] for name, result in results.items()}
    best = min((ms for name, ms in times.items() if ms and name != "auto"), default=None)
    for name, ms in times.items():
        us = quotient(1e3 * ms, case.batch * math.prod(case.grid)) if ms else None
        results[name] |= {"us_per_position": us, "speedup": quotient(times[BASELINE], ms)}
        results[name]["of_best"] = quotient(best, ms)
