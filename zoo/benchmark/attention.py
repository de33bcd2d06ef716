"""Lambda layers beside attention, Tables 2 and 4: `python -m zoo.benchmark attention`."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from zoo.benchmark import fresh, memory, mixers
from zoo.benchmark.layer import parse_size
from zoo.benchmark.mixers import LAMBDA, NETWORKS, ComparedMixer
from zoo.benchmark.networks import MODES, Modes, parse
from zoo.benchmark.report import Column, print_table
from zoo.benchmark.settings import (
    FORWARD,
    FORWARD_BACKWARD,
    GROWTH,
    SEQUENCES,
    TRAINING,
    BackendSettings,
    EachOnce,
    Memory,
    MixedDtype,
    each,
)
from zoo.benchmark.subjects import MEMORY, MS, Bench, LayerSubject, Subject
from zoo.errors import unknown

MAPS, NETWORK = "maps", "network"
PARTS = (MAPS, GROWTH, SEQUENCES, NETWORK)
MIXERS = {**mixers.NETWORKS, **mixers.SEQUENCES}  # all names
DEPTHS = 2 * mixers.HEADS  # local attention has keys of an even depth
CONVENTIONS = {
    "mixers": "those of lambda_keras.models.mixers with the hyper-parameters of its networks: "
    "attention of 8 heads, lambda layers of 4 with k=16 and scope 23, halo attention in blocks of "
    "7 with a halo of 3, 256 random features; lambda layers as implementation=auto computes them",
    "lambda_conv": f"the lambda layer with scope {mixers.LOCAL_SCOPE}",
    "sequences": f"lambda layers on one axis, lambda with scope {mixers.SEQUENCE_SCOPE}; attention "
    "without positions on maps of height 1, which is the same",
    "dot_product": "keras.ops.dot_product_attention: scaled_dot_product_attention of PyTorch, that "
    "of jax.nn, fused on accelerators; TensorFlow has none that is fused and computes the maps",
    "time, space": "growth by Table 2 (b batch, n positions, m context positions, r in the scope, "
    "w in a window, d depth, h heads, k key depth, f random features); what is not in it is "
    "counted alike",
    "theory_bytes": "maps of attention b h n m, or embeddings k n m, in float32, as Table 4 counts "
    "them, whatever is computed; None where there are neither",
    "theory": f"Table 4: a ResNet-50 at 224 pixels, batch {mixers.PAPER_BATCH}, in GiB with maps "
    "as large as the outputs of the layers, as in the paper, and with those that they compute "
    "(strided blocks pool afterwards); published on 8 TPUv3 cores, float32, where global attention "
    "was out of memory",
    FORWARD: "training=False",
    FORWARD_BACKWARD: "training=True, and the gradients by inputs and all weights",
    TRAINING: "of layers it is forward_backward; of networks a training step, as python -m "
    "zoo.benchmark models has it",
    "ratio": "time divided by that of the lambda layer, or of the network with lambda layers",
    "processes": "maps: all in turn in one process, as ms says; other parts: a fresh process with "
    "limits of time and memory for each figure",
    "limit_gb": "of all that a process allocates, in 10^9 bytes; on an accelerator it has none",
}
RATIO = Column("/ lambda", "ratio")
LAYER_COLUMNS = (
    Column("time", "time", str),
    Column("space", "space", str),
    Column("theory MB", "theory_bytes", MEMORY.form),
    MEMORY,
    MS,
    RATIO,
)
NETWORK_COLUMNS = (
    MEMORY,
    MS,
    RATIO,
    Column("images/s", "images_per_second"),
    Column("TPU images/s", "published", str),
)
THEORY_COLUMNS = (
    Column("time", "time", str),
    Column("space", "space", str),
    Column("GiB", "output_gib", "{:.4g}".format),
    Column("GiB as computed", "input_gib", "{:.4g}".format),
    Column("published GB", "published_gb", str),
    Column("images/s", "published_images_per_second", str),
    Column("top-1", "published_top1", str),
)


@dataclass(frozen=True)
class MixerLayer(LayerSubject):
    """A mixer on random inputs, on a square map or a sequence.

    Args:
        name: A key of `mixers.MAPS`, or of `mixers.SEQUENCES` on sequences.
        part: Part of the report.
        size: Height and width of the map, or length of the sequence.
        depth: Channels, before and after the layer.
        batch: Examples.
        dtype: Keras dtype policy.
    """

    part: str
    size: int
    depth: int
    batch: int
    dtype: str = "float32"

    @property
    def mixer(self) -> ComparedMixer:
        """The compared mixer of this name."""
        return _mixers(self.part)[self.name]

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return (self.size,) if self.part == SEQUENCES else (self.size, self.size)

    @property
    def input_shape(self):
        on_rows = self.part == SEQUENCES and not self.mixer.is_lambda_layer
        return (self.batch, *((1, self.size) if on_rows else self.grid), self.depth)

    @property
    def filters(self):
        return self.depth

    @property
    def case(self) -> str:
        """Sizes that all compared mixers share, as a heading."""
        return f"{'x'.join(map(str, self.grid))}, depth {self.depth}, batch {self.batch}"

    @property
    def identity(self):
        names = ("part", "size", "depth", "batch")
        return {
            **{name: getattr(self, name) for name in names},
            "mixer": self.name,
            "time": self.mixer.time,
            "space": self.mixer.space,
            "theory_bytes": self.mixer.position_bytes(self.grid, self.batch),
        }

    def build(self):
        import keras

        keras.utils.set_random_seed(0)
        layer = self.mixer.layer(self.depth, self.dtype)
        layer.build((None, *self.input_shape[1:]))
        return layer


def _mixers(part: str) -> dict[str, ComparedMixer]:
    return mixers.SEQUENCES if part == SEQUENCES else mixers.MAPS


def _size(text: str) -> None:
    if parse_size(text)[1] % DEPTHS:
        raise ValueError(
            f"expected depths divisible by {DEPTHS}, twice the number of heads. Received: {text!r}"
        )


def _one_of(what: str, names: Collection[str]) -> AfterValidator:
    def check(name: str) -> None:
        if name not in names:
            raise ValueError(f"no such {what}. {unknown(name, names)}")

    return each(check)


Sizes = Annotated[tuple[str, ...], EachOnce, each(_size)]
AS = "as SIZExDEPTH or SIZExDEPTHxBATCH"


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark attention"):
    """Measures lambda layers beside the attention that they are compared with (Tables 2 and 4).

    Four parts: maps, the layers on the four maps of a ResNet-50; growth, from small maps to large
    ones; sequences; network, a ResNet-50 with one of the layers in all blocks. Beside every figure
    stands what theory says. What needs more memory than --limit_gb is marked so.
    """

    parts: Annotated[tuple[str, ...], EachOnce, _one_of("part", PARTS)] = Field(
        default=PARTS, description=f"What to measure: {', '.join(PARTS)}."
    )
    mixers: Annotated[tuple[str, ...], _one_of("mixer", MIXERS)] = Field(
        default=(),
        description=f"Mixers beside {LAMBDA}, which all are compared with; empty: all.",
    )
    maps: Sizes = Field(
        default=("56x64", "28x128", "14x256", "7x512"), description=f"Square maps, {AS}."
    )
    growth: Sizes = Field(
        default=tuple(f"{side}x128x1" for side in (14, 28, 56, 96, 128)),
        description=f"Square maps, larger and larger, {AS}.",
    )
    sequences: Sizes = Field(
        default=tuple(f"{length}x256x1" for length in (1024, 4096, 16384, 65536)),
        description=f"Sequences, longer and longer, {AS}.",
    )
    batch: int = Field(default=2, ge=1, description="Examples, for sizes that do not say.")
    image_size: int = Field(default=224, ge=32, le=2048, description="Of the images of networks.")
    modes: Modes = MODES
    dtype: MixedDtype = Field(default="float32", description="Keras dtype policy.")
    memory: Memory = True
    limit_gb: float | None = Field(
        default=8, gt=0, description="Memory of each fresh process; None: any. Linux only."
    )
    seconds: int | None = Field(
        default=300, ge=1, description="Time limit of each fresh process; None: any."
    )

    def layers(self, part: str) -> Iterator[list[MixerLayer]]:
        """Yields the layers that are compared on each map or sequence of a part, lambda first."""
        names = self._chosen(_mixers(part))
        for size, depth, *batch in map(parse_size, getattr(self, part)):
            shape = (size, depth, batch[0] if batch else self.batch)
            yield [MixerLayer(name, part, *shape, self.dtype) for name in names]

    def networks(self) -> dict[str, Subject]:
        """Returns the networks by their mixers, that with lambda layers first. Imports Keras."""
        return {
            name: parse(NETWORKS[name].network(self.image_size), self.batch, self.dtype)
            for name in self._chosen(NETWORKS)
        }

    def _chosen(self, table: Mapping[str, ComparedMixer]) -> list[str]:
        return [name for name in table if name in (LAMBDA, *(self.mixers or table))]


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    if config.limit_gb is not None:
        memory.check_platform("limit_gb")
    # This process leaves the memory of an accelerator to those that it starts.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    bench = Bench(config, arguments, CONVENTIONS)
    if not {GROWTH, SEQUENCES} & set(config.parts):
        bench.draw = None
    bench.content["theory"] = theory()
    print_table("ResNet-50 of Table 4", "mixer", THEORY_COLUMNS, bench.content["theory"])
    host_gb = None if bench.backend.accelerator else config.limit_gb
    limits = fresh.Limits(config.seconds, host_gb)
    for part in config.parts:
        if part == NETWORK:
            measure_networks(bench, config, limits)
        else:
            measure_layers(bench, config, part, None if part == MAPS else limits)
    bench.finish()


def measure_layers(bench: Bench, config: Config, part: str, limits: fresh.Limits | None) -> None:
    """Measures layers beside each other, on one map or sequence after another."""
    modes = [FORWARD_BACKWARD if mode == TRAINING else mode for mode in config.modes]
    for layers in config.layers(part):
        title = f"{part}, {layers[0].case}, "
        bench.measure(layers, modes, LAYER_COLUMNS, compare, title, limits)


def measure_networks(bench: Bench, config: Config, limits: fresh.Limits) -> None:
    """Measures networks beside each other."""
    networks = config.networks()
    tpu = {subject.name: published(name) for name, subject in networks.items()}
    beside = partial(compare_networks, config.batch, tpu)
    title = f"{NETWORK}, batch {config.batch}, "
    bench.measure(list(networks.values()), config.modes, NETWORK_COLUMNS, beside, title, limits)


def theory() -> list[dict[str, Any]]:
    """Returns the rows of Table 4, with those that it does not have."""
    return [
        {
            "mixer": name,
            "time": mixer.time,
            "space": mixer.space,
            "output_gib": mixer.network_gib(),
            "input_gib": mixer.network_gib(strided_inputs=True),
            "published_gb": mixer.published and mixer.published.gigabytes,
            "published_images_per_second": published(name),
            "published_top1": mixer.published and mixer.published.top1,
        }
        for name, mixer in NETWORKS.items()
    ]


def published(name: str) -> int | None:
    """Returns the images/s of Table 4."""
    row = NETWORKS[name].published
    return row and row.images_per_second


def compare(mode: str, figures: Mapping[str, dict[str, Any]]) -> None:
    """Adds the ratio to the first one."""
    first = next(iter(figures.values()))["ms"]
    for found in figures.values():
        found["ratio"] = found["ms"] and first and found["ms"] / first


def compare_networks(
    batch: int, tpu: Mapping[str, int | None], mode: str, figures: Mapping[str, dict[str, Any]]
) -> None:
    """Adds images per second, and the published ones of inference."""
    compare(mode, figures)
    for name, found in figures.items():
        found["images_per_second"] = found["ms"] and 1e3 * batch / found["ms"]
        found["published"] = tpu[name] if mode == FORWARD else None
