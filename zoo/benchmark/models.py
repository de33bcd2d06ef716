"""Times whole networks in turn: `python -m zoo.benchmark models`."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Annotated

from pydantic import Field

from zoo.benchmark.networks import MODES, Modes, Network, parse
from zoo.benchmark.report import Results, columns, installed, quotient
from zoo.benchmark.settings import BackendSettings, EachOnce, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.cli.settings import checked_by

COLUMNS = columns("parameters", "ms", "images_per_second", "ratio", "temporary_bytes")


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark models"):
    """Times whole networks, forward and training step, compared with keras.applications.

    --models lists NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]..., separated by commas. NAME is a network
    of the zoo (python -m zoo.list), keras.NAME of keras.applications (keras.EfficientNetB1), or
    timm.NAME of timm on PyTorch. SIZE of the zoo's networks is that of their published accuracy.
    Arguments are those of the zoo's constructors, as in
    resnet50@224:placement=LLLL:implementation=einsum, and folded=true for the network as
    zoo.predict runs it, for inference only; for networks of timm, compile=true for PyTorch's
    compiler, and channels_last=true for the other memory format.
    """

    models: Annotated[tuple[Annotated[str, checked_by(parse)], ...], EachOnce] = (
        "lambda_resnet50@160",
        "keras.EfficientNetB1@240",
        "lambda_resnet101@192",
        "keras.EfficientNetB3@300",
    )
    """Networks; the first one is what the others are compared with."""
    batch: int = Field(default=8, ge=1)
    """Images per step, for networks that do not say."""
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the networks."""
    modes: Modes = MODES
    """Computations to time."""


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    networks = [parse(text, config.batch, config.dtype) for text in config.models]
    packages = list(dict.fromkeys(name for network in networks for name in network.packages))
    installed(packages, f"pip install {' '.join(packages)}")
    for package in packages:
        import_module(package)  # PyTorch's compiler crashes if TensorFlow's LLVM is loaded first
    bench = Bench(config, arguments, packages)
    bench.measure(networks, config.modes, COLUMNS, partial(compare, networks))
    bench.finish()


def compare(networks: Sequence[Network], found: Results) -> None:
    """Adds images per second, and their ratio to the first network."""
    for network in networks:
        one = found[network.name]
        one["images_per_second"] = quotient(1e3 * network.batch, one["ms"])
        first = found[networks[0].name]["images_per_second"]
        one["ratio"] = quotient(one["images_per_second"], first)
