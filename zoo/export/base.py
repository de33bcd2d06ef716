# pyright: strict
"""Interface of export formats, options of exports, and names of their signatures.

Formats import this module, the standard library and NumPy alone at their top: their files are also
loaded in a process without this project (`zoo.export.runtimes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

MAX_LOSS = 0.003  # of accuracy, by int8
DEFAULT = "serving_default"  # signature of requests that name none
# Signatures of `zoo.export.graph.endpoints`: float32 images, uint8 images, image files, features.
IMAGES, INTEGERS, FILES, FEATURES = "images", "images_uint8", "image_bytes", "features"
LAMBDA_MAPS = "lambda_maps"  # signature of exports that have these outputs, too

Arrays = Mapping[str, np.ndarray[Any, Any]]  # of any shape and dtype
Specs = Mapping[str, tuple[str, Sequence[int]]]  # dtype and shape by name; -1: any size
Signatures = Mapping[str, tuple[Specs, Specs]]  # inputs and outputs
Ways = Mapping[str, Mapping[str, Any]]  # changes of options, which have values of all types


@dataclass(frozen=True)
class Options:
    """Settings of an export; each format has some of them."""

    quantize: Literal["none", "float16", "int8"] = "none"
    calibration: Sequence[Path] = ()  # image files, for int8
    batch_size: int | None = None  # of every call, with static shapes; None: any
    io_type: Literal["int8", "uint8"] | None = None
    activation_type: Literal["int8", "uint8"] = "uint8"
    layout: Literal["nhwc", "nchw"] = "nhwc"
    default_signature: str = IMAGES  # the one that `DEFAULT` equals
    lambda_maps: Sequence[str] = ()  # names of layers
    precision: str | None = None  # dtype policy; None: the model's own
    # Accuracy that int8 may lose on held-out images and their labels, as a fraction; None: any.
    max_loss: float | None = None
    held_out: Sequence[tuple[np.ndarray[Any, Any], int]] = ()
    fold: bool = True  # batch normalization into convolutions, with weights as constants

    def changed(self) -> dict[str, Any]:  # Any: values of all types
        """Returns the values that are not defaults, by name."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


class Runtime(Protocol):
    """Runs an export, without this project."""

    def signatures(self) -> Signatures:
        """Returns inputs and outputs of every signature."""
        ...

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        """Returns the outputs of a signature."""
        ...


class Format(Protocol):
    """An export format: a class in a file of its name, next to its `Runtime`."""

    @property
    def title(self) -> str: ...  # name in cards and on the screen
    @property
    def file(self) -> str: ...  # a file that all exports of the format have
    @property
    def purpose(self) -> str: ...  # its use, in a few words
    @property
    def packages(self) -> Sequence[str]: ...  # modules that writing or running it imports
    @property
    def ways(self) -> Ways: ...  # by title, tried in turn until outputs equal Keras'
    @property
    def quantizations(self) -> Mapping[str, Sequence[str]]: ...  # further packages of each
    @property
    def options(self) -> Mapping[str, str]: ...  # names of its options, sentences for the card
    @property
    def use(self) -> str: ...  # Markdown for the card; `{name}` is the model's

    def signatures(self, options: Options) -> Mapping[str, str]:
        """Returns the computation of each signature, by its name at the top of this file."""
        ...

    def write(
        self, classifier: "Classifier", folder: Path, options: Options
    ) -> Sequence[str] | None:
        """Writes a classifier to a new or empty folder, and returns lines for the card, if any."""
        ...

    def runtime(self, folder: Path, threads: int = 0) -> Runtime:
        """Loads an export; `threads` 0: one per core."""
        ...
