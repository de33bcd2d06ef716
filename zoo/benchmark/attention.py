"""Times lambda layers and attention (Table 2): `python -m zoo.benchmark attention`."""

from functools import partial
from typing import Annotated

from pydantic import Field

from zoo.benchmark.layer import AS, HEADS, MODES, Batch, DenseLimit, MixerLayer, Text, parse_size
from zoo.benchmark.models import read_arguments
from zoo.benchmark.report import Results, quotient
from zoo.benchmark.settings import BackendSettings, EachOnce, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.fields import checked_by
from zoo.measurements import columns

COLUMNS = columns("ms", "ratio", "temporary_bytes")
Size = Annotated[Text, checked_by(partial(parse_size, divisor=2 * HEADS["global"]))]


class Config(BackendSettings):
    """Times lambda layers and the paper's attention baselines on feature maps.

    For whole networks, as in Table 4, use python -m zoo.benchmark models with
    resnet50@224:placement=LLLL:mixer=global and so on.
    """

    mixers: Annotated[tuple[str, ...], EachOnce] = (
        *("lambda:scope=7", "content", "global", "local", "halo", "axial"),
        *("efficient", "linear", "favor"),
    )
    """Layers to compare with lambda, NAME[:ARGUMENT=VALUE]..."""
    sizes: Annotated[tuple[Size, ...], EachOnce, Field(description=AS)] = (
        *("56x64", "28x128", "14x256", "7x512"),
    )
    batch: Batch = 2
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the layers."""
    dense_limit_gb: DenseLimit = 2

    def cases(self) -> list[list[MixerLayer]]:
        """Lists the layers to compare on each map, lambda first. Imports Keras."""
        from lambda_keras.models.mixers import check_mixer

        for name in self.mixers:
            check_mixer(*read_arguments(name))
        names = dict.fromkeys(("lambda", *self.mixers))
        common = {"dtype": self.dtype, "dense_limit_gb": self.dense_limit_gb}
        return [
            [MixerLayer(name, **parse_size(size, self.batch), **common) for name in names]
            for size in self.sizes
        ]


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config)
    for cases in config.cases():
        bench.measure(cases, MODES, COLUMNS, compare, f"{cases[0].title}, ")
    bench.finish()


def compare(results: Results) -> None:
    """Adds the time of each layer relative to the first one."""
    first = next(iter(results.values()))["ms"]
    for result in results.values():
        result["ratio"] = quotient(result["ms"], first)
