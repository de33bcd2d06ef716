"""Times causal lambda layers step by step: `python -m zoo.benchmark steps`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from zoo.benchmark.layer import HEADS, Batch, MixerLayer, Odd
from zoo.benchmark.report import Case, Results, columns
from zoo.benchmark.settings import FORWARD, BackendSettings, EachOnce, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.cli.settings import checked_by

COLUMNS = columns("ms", "ms_per_step")
CELL, LAYER, ATTENTION = "LambdaCell", "LambdaLayer", "global attention"
# Layers that are called with the whole sequence, by the mixers that they are.
WHOLE = {LAYER: "lambda:causal=true:scope={scope}", ATTENTION: "global"}


@dataclass(frozen=True, kw_only=True)
class SequenceLayer(Case):
    """A layer on a sequence: step by step, or all of it in one call."""

    mixer: str
    size: int  # length of the sequence
    depth: int
    batch: int
    scope: int
    dtype: str
    dense_limit_gb: float

    @property
    def identity(self):
        sizes = {"size": self.size, "depth": self.depth, "batch": self.batch, "axes": 1}
        return {**sizes, "mixer": self.mixer}

    @property
    def steps(self) -> int:
        """Positions that a call is for, if they come one after the other."""
        return self.size if self.mixer == CELL else 1

    def step(self, mode, backend):
        import keras

        from lambda_keras.layers import LambdaCell
        from zoo.benchmark.backends import random_tensor

        name = WHOLE.get(self.mixer, WHOLE[LAYER]).format(scope=self.scope)
        sizes = {"size": self.size, "depth": self.depth, "batch": self.batch, "axes": 1}
        whole = MixerLayer(name, **sizes, dtype=self.dtype, dense_limit_gb=self.dense_limit_gb)
        layer = whole.build()
        inputs = random_tensor(whole.input_shape, layer.compute_dtype, 1)
        if self.mixer == CELL:
            layer = keras.layers.RNN(LambdaCell(layer), return_sequences=True, dtype=self.dtype)
            layer.build(whole.input_shape)
        return backend.forward(layer, inputs)


def _check_depth(depth: int) -> None:
    if depth % HEADS["global"]:
        raise ValueError(f"expected a multiple of {HEADS['global']}, the heads. Received: {depth}")


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark steps"):
    """Times the next position of a sequence: LambdaCell, and layers that see all of it again.

    LambdaCell has a state of fixed size; the causal lambda layer and global attention are called
    with the whole sequence. All are timed in turn in one process, at all lengths.
    """

    lengths: Annotated[tuple[Annotated[int, Field(ge=1)], ...], EachOnce] = (100, 1_000, 10_000)
    """Lengths of sequences."""
    depth: Annotated[int, checked_by(_check_depth)] = Field(default=64, ge=8)
    """Channels of inputs and outputs."""
    scope: Odd = 23
    """Scope of the lambda layer, an odd number."""
    batch: Batch = 1
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the layers."""
    dense_limit_gb: float = Field(default=2, gt=0)
    """Skip larger tensors of all position pairs."""

    def cases(self) -> list[SequenceLayer]:
        """Lists the layers at each length."""
        names = "depth", "batch", "scope", "dtype", "dense_limit_gb"
        common = {name: getattr(self, name) for name in names}
        return [
            SequenceLayer(f"{mixer}, {size}", mixer=mixer, size=size, **common)
            for size in self.lengths
            for mixer in (CELL, *WHOLE)
        ]


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config, arguments)
    bench.draws("plot_steps")
    cases = config.cases()
    steps = {case.name: case.steps for case in cases}

    def compare(found: Results) -> None:
        """Adds the time of the next position."""
        for name, one in found.items():
            one["ms_per_step"] = one["ms"] and one["ms"] / steps[name]

    bench.measure(cases, (FORWARD,), COLUMNS, compare, f"depth {config.depth}, ")
    bench.finish()
