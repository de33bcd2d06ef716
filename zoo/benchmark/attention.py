"""Times lambda layers and attention (Table 2): `python -m zoo.benchmark attention`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from zoo.benchmark.cases import Bench, LayerCase, quotient
from zoo.benchmark.layer import AS, MODES, Batch, DenseLimit, Text, parse_size, shapes
from zoo.benchmark.networks import read_arguments
from zoo.benchmark.report import columns
from zoo.benchmark.settings import BackendSettings, EachOnce, MixedDtype
from zoo.cli.settings import checked_by

LAMBDA = "lambda"  # baseline of the comparisons
CONVENTIONS = {
    "mixer": "of lambda_keras.models.mixers with the hyper-parameters of its networks: attention "
    "of 8 heads, lambda layers of 4 with k=16 and scope 23, halo attention in blocks of 7 with a "
    "halo of 3, 256 random features; lambda layers as implementation=auto computes them",
    "ratio": "time divided by that of the lambda layer",
}
COLUMNS = columns("ms", "ratio", "temporary_bytes")
HEADS = 8  # heads of attention; local attention also needs keys of an even depth


@dataclass(frozen=True, kw_only=True)
class MixerLayer(LayerCase):
    """A layer that mixes the positions of a feature map, by the name of its mixer."""

    kind: ClassVar = "mixer"

    def dense_numbers(self):
        name, arguments = read_arguments(self.name)
        heads = arguments.get("num_heads", HEADS)
        return self.batch * heads * self.positions**2 if name == "global" else 0

    def layer(self):
        from lambda_keras.models.mixers import MIXERS

        name, arguments = read_arguments(self.name)
        mixer = MIXERS[name]
        return mixer.layer(self.depth, **{**mixer.arguments, **arguments}, dtype=self.dtype)


Size = Annotated[Text, checked_by(partial(parse_size, divisor=2 * HEADS))]


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark attention"):
    """Times lambda layers, and the attention layers that the paper compares them with, on maps.

    Whole networks with them, as in Table 4: python -m zoo.benchmark models with
    resnet50@224:placement=LLLL:mixer=global and so on.
    """

    mixers: Annotated[tuple[str, ...], EachOnce] = Field(
        default=(
            *("lambda:scope=7", "content", "global", "local", "halo", "axial"),
            *("efficient", "linear", "favor"),
        ),
        description=f"Layers to compare with {LAMBDA}, NAME[:ARGUMENT=VALUE]...",
    )
    sizes: Annotated[tuple[Size, ...], EachOnce, Field(description=AS)] = (
        *("56x64", "28x128", "14x256", "7x512"),
    )
    batch: Batch = 2
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the layers."""
    dense_limit_gb: DenseLimit = 2

    def cases(self) -> list[list[MixerLayer]]:
        """Lists the layers to compare on each map, lambda first. Imports Keras.

        Raises:
            ValueError: If a mixer, or an argument of it, is unknown.
        """
        from lambda_keras.models.mixers import check_mixer

        for name in self.mixers:
            check_mixer(*read_arguments(name))
        names = dict.fromkeys((LAMBDA, *self.mixers))
        common = {"dtype": self.dtype, "dense_limit_gb": self.dense_limit_gb}
        return [
            [MixerLayer(name, **shape, **common) for name in names]
            for shape in shapes(self.sizes, self.batch)
        ]


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config, arguments, CONVENTIONS)
    bench.draws_layers()
    for cases in config.cases():
        bench.measure(cases, MODES, COLUMNS, compare, f"{cases[0].title}, ")
    bench.finish()


def compare(found: Mapping[str, dict[str, Any]]) -> None:
    """Adds the ratios to the first layer."""
    first = next(iter(found.values()))["ms"]
    for one in found.values():
        one["ratio"] = quotient(one["ms"], first)
