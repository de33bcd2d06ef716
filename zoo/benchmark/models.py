"""Times whole networks in turn, named on the command line: `python -m zoo.benchmark models`."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, partial
from importlib import import_module
from typing import Annotated, Any, ClassVar

import numpy as np

from zoo.benchmark.report import Case, CaseReport, Results, quotient, threads
from zoo.benchmark.settings import BackendSettings, Dtype, EachOnce, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.errors import unknown
from zoo.fields import IMAGE_SIZES, SIZE_RANGE, BatchSize, Entries, checked_by, one_of, typed
from zoo.measurements import FORWARD, TRAINING, columns, installed
from zoo.precision import precision
from zoo.registry import create_model, find_model
from zoo.variables import trainable_parameters

FIGURES = ("parameters", "ms", "images_per_second", "ratio", "temporary_bytes")
COLUMNS = columns(*FIGURES)
BATCH = 1024  # images of a training step whose latency the paper reports (E.2)
OUT_OF_MEMORY = re.compile(
    "RESOURCE_EXHAUSTED|ResourceExhausted|out of memory|OutOfMemory|MemoryError|"
    "can't allocate memory",
    re.I,
)
MODES = (FORWARD, TRAINING)
SHAPED_HERE = {"include_top", "input_shape", "input_tensor"}  # arguments that are not options
FOLDED = "folded"  # extra argument of the zoo's networks, unknown to their constructors
FORM = "expected NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]..., such as resnet50@224:placement=LLLL"
Modes = Annotated[tuple[Annotated[str, one_of("mode", MODES)], ...], EachOnce]


@dataclass(frozen=True)
class Network(Case):
    """A network of one library with random weights on random images of one size."""

    model: str  # name in the library
    image_size: int  # height and width in pixels
    overrides: Mapping[str, Any]  # arguments of its constructor
    batch: int
    dtype: Dtype  # Keras dtype policy

    library: ClassVar[str]
    arguments: ClassVar[frozenset[str] | None] = frozenset()  # allowed arguments; None: any
    packages: ClassVar[tuple[str, ...]] = ()  # required in addition to Keras and its backend

    @abstractmethod
    def build(self) -> Any:
        """Creates the network with its library."""

    @property
    def identity(self):
        names = ("image_size", "batch", "parameters")
        return {"entry": self.name, **{name: getattr(self, name) for name in names}}


class ZooNetwork(Network):
    """A network of the zoo; with `folded=true` as zoo.predict runs it, for inference only."""

    library = "lambda_keras"
    arguments = None

    def build(self):
        import keras

        keras.utils.set_random_seed(0)
        with precision(self.dtype):
            model = self.create((self.image_size, self.image_size, 3))
        # Unlike trained networks, new ones have scales and shifts of 0. Compilers drop products
        # with 0, and TensorFlow fuses a convolution with its activation only if there is a bias.
        random = np.random.default_rng(0)
        for weight in model.trainable_variables:
            if len(weight.shape) == 1 and not keras.ops.convert_to_numpy(weight).any():
                weight.assign(random.uniform(0.1, 0.3, weight.shape))
        return model

    def create(self, shape: tuple[int, int, int]) -> Any:
        """Creates a model for images of a shape."""
        arguments = {key: value for key, value in self.overrides.items() if key != FOLDED}
        return create_model(self.model, input_shape=shape, **arguments)

    @cached_property
    def built(self) -> Any:
        """Model that all steps share."""
        return self.build()

    @property
    def parameters(self):
        return trainable_parameters(self.built)

    def step(self, mode, backend):
        from keras import ops

        from zoo.benchmark.backends import random_tensor

        shape = (self.batch, self.image_size, self.image_size, 3)
        images = random_tensor(shape, "float32", 1)
        if self.overrides.get(FOLDED):
            from zoo.inference.classifier import with_constants

            if mode == TRAINING:
                raise ValueError("folded networks do not train")
            return backend.compile(with_constants(self.built), images)
        if mode == FORWARD:
            return backend.forward(self.built, images)
        classes = self.built.output_shape[-1]
        labels = ops.one_hot(ops.arange(self.batch) % classes, classes)
        model = self.compile()
        model.optimizer.build(model.trainable_variables)
        return backend.train(model, images, labels)

    def compile(self) -> Any:
        """Compiles the model with a loss and an optimizer."""
        import keras

        # Weights stay the same, so that no step can run into NaN.
        optimizer = keras.optimizers.SGD(learning_rate=0.0, momentum=0.9)
        self.built.compile(optimizer, "categorical_crossentropy", jit_compile=False)
        return self.built


class KerasNetwork(ZooNetwork):
    """A network of keras.applications, by the name of its constructor."""

    library = "keras"
    arguments = frozenset()

    def create(self, shape):
        import keras

        names = [name for name in dir(keras.applications) if name[0].isupper()]
        if self.model not in names:
            received = unknown(self.model, names)
            raise ValueError(f"expected a network of keras.applications. {received}")
        return getattr(keras.applications, self.model)(weights=None, input_shape=shape)


class TimmNetwork(Network):
    """A network of timm on PyTorch; neither its compiler nor `channels_last` is always faster."""

    library = "timm"
    arguments = frozenset({"compile", "channels_last"})
    packages = ("timm", "torch")

    def build(self):
        timm = import_module("timm")
        if not timm.is_model(self.model):
            near = " or ".join(get_close_matches(self.model, timm.list_models(), cutoff=0.0))
            raise ValueError(f"expected a network of timm, such as {near}. Received: {self.model}")
        import_module("torch").manual_seed(0)
        return timm.create_model(self.model)

    @cached_property
    def parameters(self):
        return sum(weight.numel() for weight in self.build().parameters() if weight.requires_grad)

    def step(self, mode, backend):
        from zoo.benchmark.backends import Step, Torch

        backend = Torch()
        torch, training = backend.module, mode == TRAINING
        torch.set_num_threads(threads())
        torch.backends.cudnn.benchmark = True
        device = "cuda" if backend.accelerator else "cpu"
        module = self.build().to(device).train(training)
        images = torch.randn(self.batch, 3, self.image_size, self.image_size, device=device)
        if self.overrides.get("channels_last"):
            images = images.to(memory_format=torch.channels_last)
            for weight in module.parameters():
                if weight.ndim == 4:  # `Module.to(memory_format)` fails on Conv3d
                    weight.data = weight.data.to(memory_format=torch.channels_last)
        dtype = getattr(torch, self.dtype.removeprefix("mixed_"))
        mixed = torch.autocast(device, dtype, enabled=dtype != torch.float32)
        # Compiled anew for every size: dynamic shapes are slower, and fail in some networks.
        compiled = self.overrides.get("compile")
        network = torch.compile(module, dynamic=False) if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.0, momentum=0.9)
        labels = torch.arange(self.batch, device=device)

        def start():
            with torch.inference_mode(not training), mixed:
                outputs = network(images)
                if not training:
                    return outputs
                loss = torch.nn.functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return Step(start, backend)


LIBRARIES: dict[str, type[Network]] = {"": ZooNetwork, "keras": KerasNetwork, "timm": TimmNetwork}


def parse(
    text: str,
    batch: int = 1,
    dtype: Dtype = "float32",
    libraries: Mapping[str, type[Network]] = LIBRARIES,
) -> Network:
    """Parses `NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]...`; the size defaults to the published one.

    Example:
    >>> from zoo.benchmark.models import parse
    >>> parse("resnet50@160:placement=LLLL").overrides
    {'placement': 'LLLL'}
    """
    entry, overrides = read_arguments(text)
    match = re.fullmatch(r"([\w.]+)(?:@(\d+)(?:x([1-9]\d*))?)?", entry)
    if not match:
        raise ValueError(f"{FORM}. Received: {text!r}")
    name, given_size, given_batch = match.groups()
    library, _, model = name.rpartition(".")
    if library not in libraries:
        raise ValueError(f"expected LIBRARY.NAME. {unknown(library, filter(None, libraries))}")
    kind = libraries[library]
    published = find_model(model).image_size if kind.library == ZooNetwork.library else None
    size = int(given_size or published or 0)
    if size not in IMAGE_SIZES:
        raise ValueError(f"expected an image size {SIZE_RANGE}. Received: {text!r}")
    if kind.arguments is not None and not overrides.keys() <= kind.arguments:
        known = ", ".join(sorted(kind.arguments)) or "no arguments"
        raise ValueError(f"expected {known} for networks of {kind.library}. Received: {text!r}")
    if taken := ", ".join(sorted(SHAPED_HERE & overrides.keys())):
        raise ValueError(f"expected other arguments than {taken}. Received: {text!r}")
    return kind(text, model, size, overrides, int(given_batch or batch), dtype)


def read_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """Splits `NAME[:ARGUMENT=VALUE]...` into the name and the arguments."""
    if not re.fullmatch(r"[^:]+(:\w+=[^:]+)*", text):
        raise ValueError(f"{FORM}. Received: {text!r}")
    name, *arguments = text.split(":")
    return name, typed(dict(argument.split("=", 1) for argument in arguments))


class Config(BackendSettings):
    """Times whole networks, forward and training step, compared with keras.applications.

    --models lists NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]..., separated by commas. NAME is a network
    of the zoo (python -m zoo.list), keras.NAME of keras.applications (keras.EfficientNetB1), or
    timm.NAME of timm on PyTorch. SIZE of the zoo's networks defaults to the one of their
    published accuracy. Arguments are of the zoo's constructors, as in
    resnet50@224:placement=LLLL:implementation=einsum, and folded=true for the network as
    zoo.predict runs it, for inference only; for networks of timm, compile=true for PyTorch's
    compiler, and channels_last=true for the other memory format.
    """

    models: Annotated[Entries[tuple[Annotated[str, checked_by(parse)], ...]], EachOnce] = (
        "lambda_resnet50@160",
        "keras.EfficientNetB1@240",
        "lambda_resnet101@192",
        "keras.EfficientNetB3@300",
    )
    """Networks; ratios are relative to the first one."""
    batch: BatchSize = 8
    """Images per step, for networks without xBATCH."""
    halve: bool = False
    """Halve the batch until it fits in memory, and print seconds per 1024 images (E.2)."""
    dtype: Annotated[tuple[MixedDtype, ...], EachOnce] = ("float32",)
    """Keras dtype policies of the networks; timm's run under autocast."""
    modes: Modes = MODES
    """Computations to time."""


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    networks = [
        parse(text, config.batch, dtype) for dtype in config.dtype for text in config.models
    ]
    if len(config.dtype) > 1:
        networks = [
            replace(network, name=f"{network.name} {network.dtype}") for network in networks
        ]
    packages = list(dict.fromkeys(name for network in networks for name in network.packages))
    installed(packages, f"pip install {' '.join(packages)}")
    for package in packages:
        import_module(package)  # PyTorch's compiler crashes if TensorFlow's LLVM is loaded first
    bench = Bench(config, packages)
    shown = columns("batch", *FIGURES, "seconds_per_1024") if config.halve else COLUMNS
    for mode in config.modes:
        fitting: Sequence[Network] | None = networks
        while fitting:  # all networks again, so that the rows of a table are timed in turn
            measured = fitting
            bench.measure(measured, [mode], shown, partial(compare, measured))
            fitting = halved(measured, mode, bench) if config.halve else None
    bench.finish()


def halved(networks: Sequence[Network], mode: str, report: CaseReport) -> list[Network]:
    """Halves the batches of networks that ran out of memory; returns [] if none did."""

    def fits(network: Network) -> bool:
        result = report.look_up(mode, entry=network.name, batch=network.batch)
        return network.batch == 1 or not OUT_OF_MEMORY.search(result["reason"] or "")

    smaller = [
        network if fits(network) else replace(network, batch=network.batch // 2)
        for network in networks
    ]
    return [] if smaller == networks else smaller


def compare(networks: Sequence[Network], results: Results) -> None:
    """Adds images per second, and their ratio to the first network of the same precision."""
    for network in networks:
        result = results[network.name]
        result["images_per_second"] = quotient(1e3 * network.batch, result["ms"])
        result["seconds_per_1024"] = quotient(BATCH, result["images_per_second"])
        first = next(other.name for other in networks if other.dtype == network.dtype)
        result["ratio"] = quotient(result["images_per_second"], results[first]["images_per_second"])
