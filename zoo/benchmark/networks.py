"""Networks by their names on the command line, and the steps of them that are timed."""

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from zoo.cli.plain_yaml import typed
from zoo.errors import unknown
from zoo.registry import TABLE, create_model, find_model

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

FORWARD, TRAINING = "forward", "training"
MODES = (FORWARD, TRAINING)
ZOO, KERAS, TIMM = "lambda_keras", "keras", "timm"
Dtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
SHAPED_HERE = ("include_top", "input_shape", "input_tensor")  # overrides nobody may set
SAME_OUTPUTS = {"implementation"}  # overrides that leave the published accuracy as it is
MEMORY_FORMATS = ("contiguous_format", "channels_last")  # PyTorch's: none is always the faster

# keras.applications by name: constructor, published image size, published ImageNet top-1 in percent
# (https://keras.io/api/applications).
KERAS_APPLICATIONS = {
    "efficientnet_b0": ("EfficientNetB0", 224, 77.1),
    "efficientnet_b1": ("EfficientNetB1", 240, 79.1),
    "efficientnet_b2": ("EfficientNetB2", 260, 80.1),
    "efficientnet_b3": ("EfficientNetB3", 300, 81.6),
    "efficientnet_b4": ("EfficientNetB4", 380, 82.9),
    "efficientnet_b5": ("EfficientNetB5", 456, 83.6),
    "efficientnet_b6": ("EfficientNetB6", 528, 84.0),
    "efficientnet_b7": ("EfficientNetB7", 600, 84.3),
    "mobilenet": ("MobileNet", 224, 70.4),
    "mobilenet_v2": ("MobileNetV2", 224, 71.3),
    "resnet50": ("ResNet50", 224, 74.9),
}


@dataclass(frozen=True)
class Entry:
    """One network for one image size.

    Args:
        text: The entry as it was given.
        library: `"lambda_keras"`, `"keras"` (keras.applications) or `"timm"`.
        name: Name of the network in its library.
        image_size: Height and width of the images in pixels.
        overrides: Arguments of its constructor.
    """

    text: str
    library: str
    name: str
    image_size: int
    overrides: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> "Entry":
        """Reads `NAME[@SIZE][:ARGUMENT=VALUE]...`.

        Without a size it is the published one. The networks of the zoo alone take arguments.

        Raises:
            ValueError: If it reads otherwise, or there is no such network.

        Example:

        >>> Entry.parse("resnet50@160:placement=LLLL").overrides
        {'placement': 'LLLL'}
        """
        match = re.fullmatch(r"([\w.]+)(?:@(\d+))?((?::\w+=[^:]+)*)", text)
        if not match:
            raise ValueError(
                "expected NAME[@SIZE][:ARGUMENT=VALUE]..., such as lambda_resnet50@160 or "
                f"resnet50@224:placement=LLLL. Received: {text!r}"
            )
        name, given_size, arguments = match.groups()
        library, _, name = name.rpartition(".")
        published = _published_size(library or ZOO, name)
        size = int(given_size) if given_size else published
        if size is None:
            raise ValueError(f"expected an image size, NAME@SIZE. Received: {text!r}")
        if not 8 <= size <= 2048:
            raise ValueError(f"expected an image size from 8 to 2048. Received: {text!r}")
        pairs = [argument.split("=", 1) for argument in arguments.split(":")[1:]]
        overrides = typed(dict(pairs))
        if overrides and library:
            raise ValueError(f"expected arguments for networks of the zoo only. Received: {text!r}")
        for taken in SHAPED_HERE:
            if taken in overrides:
                raise ValueError(f"expected other arguments than {taken}. Received: {text!r}")
        return cls(text, library or ZOO, name, size, overrides)

    @property
    def title(self) -> str:
        """The entry without its image size."""
        return re.sub(r"@\d+", "", self.text)

    @property
    def published(self) -> tuple[float | None, str]:
        """Published ImageNet top-1 in percent at this image size, and where it was published."""
        if self.image_size == _published_size(self.library, self.name):
            if self.library == KERAS:
                return KERAS_APPLICATIONS[self.name][2], "keras.io/api/applications"
            row = TABLE.get(self.name)
            if row and self.overrides.keys() <= SAME_OUTPUTS:
                return row.top1, row.source
        return None, ""


def _published_size(library: str, name: str) -> int | None:
    if library == ZOO:
        return find_model(name).image_size
    if library == KERAS:
        if name not in KERAS_APPLICATIONS:
            raise ValueError(
                f"expected a network of keras.applications. {unknown(name, KERAS_APPLICATIONS)}"
            )
        return KERAS_APPLICATIONS[name][1]
    if library == TIMM:  # whose names are known when it is imported
        row = TABLE.get(name)
        return row.image_size if row and row.source == TIMM else None
    raise ValueError(f"expected keras.NAME or timm.NAME. {unknown(library, (KERAS, TIMM))}")


class Network(ABC):
    """A network and what it computes on random images.

    Args:
        entry: Which network.
        batch: Images.
        dtype: Keras dtype policy.
        backend: Compiles, waits and measures memory.
    """

    def __init__(self, entry: Entry, batch: int, dtype: Dtype, backend: "Backend"):
        self.entry, self.batch, self.dtype, self.backend = entry, batch, dtype, backend

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Number of trainable parameters."""

    @abstractmethod
    def steps(self, mode: str) -> "dict[str, Callable[[], Step]]":
        """Returns what prepares a step, by variant; of several variants the fastest counts."""


class KerasNetwork(Network):
    """A network of the zoo or of keras.applications, with random weights."""

    def __init__(self, entry: Entry, batch: int, dtype: Dtype, backend: "Backend"):
        super().__init__(entry, batch, dtype, backend)
        import keras

        keras.utils.set_random_seed(0)
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy(dtype)
        try:
            shape = (entry.image_size, entry.image_size, 3)
            if entry.library == KERAS:
                constructor = getattr(keras.applications, KERAS_APPLICATIONS[entry.name][0])
                self.model = constructor(weights=None, input_shape=shape)
            else:
                self.model = create_model(entry.name, input_shape=shape, **entry.overrides)
        finally:
            keras.config.set_dtype_policy(policy)

    @property
    def parameters(self):
        return sum(math.prod(weight.shape) for weight in self.model.trainable_variables)

    @cached_property
    def images(self) -> Any:
        """Random images, shape `(batch, size, size, 3)`."""
        from zoo.benchmark.backends import random_tensor

        size = self.entry.image_size
        return random_tensor((self.batch, size, size, 3), "float32", 1)

    def steps(self, mode):
        return {"": self._forward if mode == FORWARD else self._training}

    def _forward(self) -> "Step":
        return self.backend.forward(self.model, self.images)

    def _training(self) -> "Step":
        import keras

        classes = self.model.output_shape[-1]
        labels = keras.ops.one_hot(keras.ops.arange(self.batch) % classes, classes)
        # With rate 0 every step sees the same weights, so that none can run into NaN.
        optimizer = keras.optimizers.SGD(learning_rate=0.0, momentum=0.9)
        self.model.compile(optimizer, "categorical_crossentropy", jit_compile=False)
        self.model.optimizer.build(self.model.trainable_variables)
        return self.backend.train(self.model, self.images, labels)


class TimmNetwork(Network):
    """A network of timm on PyTorch, in inference, with random weights."""

    def __init__(self, entry: Entry, batch: int, dtype: Dtype):
        from zoo.benchmark.backends import Torch

        super().__init__(entry, batch, dtype, Torch())
        self.torch, self.timm = import_module("torch"), import_module("timm")
        if not self.timm.is_model(entry.name):
            nearest = get_close_matches(entry.name, self.timm.list_models(), cutoff=0.0)
            raise ValueError(
                f"expected the name of a network of timm, such as {' or '.join(nearest)}. "
                f"Received: {entry.name!r}"
            )
        self.torch.set_num_threads(threads())
        self.torch.backends.cudnn.benchmark = True

    @cached_property
    def parameters(self):
        weights = self.timm.create_model(self.entry.name).parameters()
        return sum(weight.numel() for weight in weights if weight.requires_grad)

    def steps(self, mode):
        names = MEMORY_FORMATS if mode == FORWARD else ()
        return {name: lambda name=name: self._forward(name) for name in names}

    def _forward(self, memory_format: str) -> "Step":
        torch, size = self.torch, self.entry.image_size
        torch.manual_seed(0)
        device = "cuda" if self.backend.accelerator else "cpu"
        layout = getattr(torch, memory_format)
        module = self.timm.create_model(self.entry.name).eval().to(device)
        for weight in module.parameters():
            if weight.ndim == 4:  # `Module.to(memory_format)` fails on those of Conv3d
                weight.data = weight.data.to(memory_format=layout)
        images = torch.randn(self.batch, 3, size, size).to(device, memory_format=layout)
        dtype = getattr(torch, self.dtype.removeprefix("mixed_"))

        def step():
            mixed = dtype != torch.float32
            with torch.inference_mode(), torch.autocast(device, dtype, enabled=mixed):
                return module(images)

        return step


def create(entry: Entry, batch: int, dtype: Dtype, backend: "Backend") -> Network:
    """Builds the network of an entry.

    Raises:
        ValueError: If there is no such network, or it has no such argument or image size.
    """
    if entry.library == TIMM:
        return TimmNetwork(entry, batch, dtype)
    return KerasNetwork(entry, batch, dtype, backend)


def threads() -> int:
    """Returns how many threads TensorFlow computes with on this CPU."""
    from zoo.benchmark.report import cores

    return int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or cores()
