"""Times causal lambda layers step by step: `python -m zoo.benchmark steps`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from zoo.benchmark.layer import HEADS, Batch, MixerLayer, Odd
from zoo.benchmark.report import Results
from zoo.benchmark.settings import BackendSettings, EachOnce, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.fields import Count
from zoo.measurements import FORWARD, columns

COLUMNS = columns("ms", "ms_per_step")
CELL, LAYER = "LambdaCell", "LambdaLayer"


@dataclass(frozen=True, kw_only=True)
class SequenceLayer(MixerLayer):
    """A causal lambda layer on a sequence: step by step, or all of it in one call."""

    scope: int
    in_steps: bool
    axes: int = 1

    @property
    def mixer(self):
        return "lambda", {"causal": True, "scope": self.scope}

    @property
    def identity(self):
        return {**super().identity, self.kind: CELL if self.in_steps else LAYER}

    def build(self):
        layer = super().build()
        if not self.in_steps:
            return layer
        import keras

        from lambda_keras.layers import LambdaCell

        recurrent = keras.layers.RNN(LambdaCell(layer), return_sequences=True, dtype=self.dtype)
        recurrent.build(self.input_shape)
        return recurrent


class Config(BackendSettings):
    """Times the next position of a sequence with LambdaCell and with the causal LambdaLayer.

    The cell has a state of fixed size; the layer is called with the whole sequence again. All are
    timed in turn in one process, at all lengths.
    """

    lengths: Annotated[tuple[Count, ...], EachOnce] = (100, 1_000, 10_000)
    """Lengths of sequences."""
    depth: int = Field(default=64, ge=4, le=2**16, multiple_of=HEADS["lambda"])
    """Channels of inputs and outputs; heads divide them."""
    scope: Odd = 23
    """Scope of the lambda layer, an odd number."""
    batch: Batch = 1
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the layers."""

    def cases(self) -> list[SequenceLayer]:
        """Lists cell and layer at each length."""
        common = {name: getattr(self, name) for name in ("depth", "batch", "scope", "dtype")}
        return [
            SequenceLayer(f"{name}, {size}", in_steps=name == CELL, size=size, **common)
            for size in self.lengths
            for name in (CELL, LAYER)
        ]


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config)
    cases = config.cases()
    bench.measure(cases, (FORWARD,), COLUMNS, partial(compare, cases), f"depth {config.depth}, ")
    bench.finish()


def compare(cases: Sequence[SequenceLayer], results: Results) -> None:
    """Adds the time of the next position."""
    for case in cases:
        result = results[case.name]
        result["ms_per_step"] = result["ms"] and result["ms"] / (case.size if case.in_steps else 1)
