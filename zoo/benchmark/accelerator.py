"""Measures layers and networks on the accelerator of this machine."""

import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Annotated

from pydantic import Field

from zoo.benchmark import layer
from zoo.benchmark import models as networks
from zoo.benchmark.settings import BackendSettings, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.fields import BatchSize, Entries, checked_by

MODELS = ("lambda_resnet50@160", "resnet_rs50_no_se@160", "keras.EfficientNetB1@240")
MODELS += ("lambda_resnet101@192", "resnet_rs101_no_se@192", "keras.EfficientNetB3@300")
MODELS += ("lambda_resnet152@224", "resnet_rs152_no_se@224", "keras.EfficientNetB5@456")
TIMM_PAIRS = ("lambda_resnet26t@256", "timm.lambda_resnet26t@256:compile=true")
TIMM_PAIRS += ("halonet26t@256", "timm.halonet26t@256:compile=true")
TIMM_PAIRS += ("botnet26t_256@256", "timm.botnet26t_256@256:compile=true")


class Config(layer.LayerSettings, BackendSettings):
    """Measures the layer and whole networks on a GPU or TPU within minutes; later calls resume.

    Times every implementation of the layer, then training and inference of networks with the
    largest batch that fits. The loop over calls is part of the compiled program on JAX. Results in
    the JSON file of --output are not measured again. Needs Keras and one of JAX, PyTorch and
    TensorFlow:

      python -m zoo.benchmark accelerator --backend jax --output h100.json
    """

    looping = True

    dtype: MixedDtype = "mixed_bfloat16"
    """Keras dtype policy."""
    scopes: layer.Scopes = (23, 7)
    sizes: layer.Sizes = (*layer.STAGES, *(f"{size}x8" for size in layer.STAGES))
    batch: layer.Batch = 128
    models: Entries[tuple[Annotated[str, checked_by(networks.parse)], ...] | None] = None
    """Networks, as for `models`. None: LambdaResNets, ResNet-RS and EfficientNets; on PyTorch with
    timm also timm's compiled networks."""
    largest_batch: BatchSize = 256
    """Batch size of networks, halved until they fit."""
    minutes: float = Field(default=8, gt=0)
    """Time limit in minutes; the same command resumes."""


def run(config: Config) -> None:
    """Measures until the time limit; prints and writes the results."""
    bench = AcceleratorBench(config)
    for _ in bench.measurements():
        if not bench.time_left():
            print("\nThe time is up: the same command measures the rest.")
            break
    bench.finish()


class AcceleratorBench(Bench):
    """Benchmark that adds to the file of earlier calls and keeps a time limit."""

    def __init__(self, config: Config):
        self.start = self.last = time.monotonic()
        self.longest = 0.0  # seconds of one measurement
        super().__init__(config)
        counts = bool(self.backend.memory_method)
        self.settings, self.config = config, config.model_copy(update={"memory": counts})
        self.go_on("dtype", "repeats")

    def time_left(self) -> bool:
        """Whether a measurement as long as the longest so far would end in time."""
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        return now + self.longest < self.start + 60 * self.settings.minutes

    def measurements(self) -> Iterator[None]:
        """Measures what the file of earlier calls lacks; yields after each measurement."""
        for cases in self.settings.cases():
            compare = partial(layer.compare, cases[0])
            for mode in layer.MODES:
                if not all(self.look_up(mode, **case.identity) for case in cases):
                    self.measure(cases, [mode], layer.COLUMNS, compare, f"{cases[0].title}, ")
                    yield
        models = self.settings.models
        if models is None:
            with_timm = self.backend.package == "torch" and find_spec("timm")
            models = MODELS + TIMM_PAIRS * bool(with_timm)
        for text in models:
            for mode in networks.MODES:
                yield from self._halve(text, mode)

    def _halve(self, text: str, mode: str) -> Iterator[None]:
        """Measures a network with the largest batch that fits."""
        cases = [networks.parse(text, self.settings.largest_batch, self.settings.dtype)]
        while cases:
            if not self.look_up(mode, entry=cases[0].name, batch=cases[0].batch):
                head, compare = f"batch {cases[0].batch}, ", partial(networks.compare, cases)
                self.measure(cases, [mode], networks.COLUMNS, compare, head)
                yield
            cases = networks.halved(cases, mode, self)
