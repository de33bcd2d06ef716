# pyright: strict
"""Interface of export formats, options of exports, and names of their signatures.

At their top, formats import only this module, the standard library and NumPy, because
`zoo.export.runtimes` loads their files in a process without this project.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

MAX_LOSS = 0.003  # accuracy that int8 may lose, as a fraction
DEFAULT = "serving_default"  # signature of requests that name none
# Signatures of `zoo.export.graph.endpoints`: float32 images, uint8 images, image files, features.
IMAGES, INTEGERS, FILES, FEATURES = "images", "images_uint8", "image_bytes", "features"
LAMBDA_MAPS = "lambda_maps"  # signature with lambda maps as further outputs

Arrays = Mapping[str, np.ndarray[Any, Any]]  # of any shape and dtype
Specs = Mapping[str, tuple[str, Sequence[int]]]  # dtype and shape by name; -1: any size
Signatures = Mapping[str, tuple[Specs, Specs]]  # inputs and outputs
Ways = Mapping[str, Mapping[str, Any]]  # changed options by title, with values of any type


@dataclass(frozen=True)
class Options:
    """Settings of an export; each format supports some of them."""

    quantize: Literal["none", "float16", "int8"] = "none"
    calibration: Sequence[Path] = ()  # image files, for int8
    batch_size: int | None = None  # images of every call, with static shapes; None: any
    io_type: Literal["int8", "uint8"] | None = None
    activation_type: Literal["int8", "uint8"] = "uint8"
    layout: Literal["nhwc", "nchw"] = "nhwc"
    default_signature: str = IMAGES  # what the signature `DEFAULT` computes
    lambda_maps: Sequence[str] = ()  # names of layers
    precision: str | None = None  # dtype policy; None: the model's own
    # Accuracy that int8 may lose on held-out images and their labels, as a fraction; None: any.
    max_loss: float | None = None
    held_out: Sequence[tuple[np.ndarray[Any, Any], int]] = ()
    fold: bool = True  # folds batch normalization into convolutions; weights become constants

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
    def extra(self) -> str: ...  # of pip, with the packages that running it needs
    @property
    def frameworks(self) -> Sequence[str]: ...  # of training, which running it imports
    @property
    def shared(self) -> bool: ...  # whether one runtime runs several batches at a time
    @property
    def ways(self) -> Ways: ...  # by title, tried in turn until outputs equal Keras'
    @property
    def quantizations(self) -> Mapping[str, Sequence[str]]: ...  # each with further packages
    @property
    def options(self) -> Mapping[str, str]: ...  # supported ones, with sentences for the card
    @property
    def use(self) -> str: ...  # Markdown for the card; `{name}` is the model's

    def signatures(self, options: Options) -> Mapping[str, str]:
        """Maps each signature to what it computes, such as `IMAGES` or `FILES`."""
        ...

    def write(
        self, classifier: "Classifier", folder: Path, options: Options
    ) -> Sequence[str] | None:
        """Writes a classifier to a new or empty folder, and returns lines for the card, if any."""
        ...

    def runtime(self, folder: Path, threads: int = 0) -> Runtime:
        """Loads an export; `threads` 0: one per core."""
        ...
