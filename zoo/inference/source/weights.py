"""Networks of the zoo by their names, with weights."""

import reprlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from lambda_keras.applications import preprocessing_of
from lambda_keras.applications.preprocessing import classes_of
from lambda_keras.weights import find_published, is_published_name
from lambda_keras.weights.files import find_weights
from lambda_keras.weights.fit import ADVICE
from lambda_keras.weights.hub import PREFIX, sha256
from zoo.config import DataConfig
from zoo.data.load import ImageData
from zoo.data.sources.image_folder import name_warnings
from zoo.errors import printable, some
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import LICENSE, ClassifierSource, check_size, load_images
from zoo.registry import create_model, find_model


@dataclass(frozen=True)
class Weights(ClassifierSource):
    """A network by its name, with weights."""

    model: str  # one of `zoo.registry.list_models()`
    weights: str  # "imagenet", a file, or an address on the hub
    class_names: Sequence[str] | None = None  # None: classes of the weights, or ImageNet's
    image_size: int | None = None  # None: the size of the weights
    overrides: Mapping[str, Any] = field(default_factory=dict)  # arguments of the constructor
    create_model = staticmethod(create_model)

    def load(self) -> Classifier:
        names = self.class_names
        if names is None:
            names = [label.replace("_", " ") for _, label in classes_of(self.weights)]
        labels = _checked_names(names)
        size = self._size()
        check_size(size)
        arguments = {"classes": len(labels), "input_shape": (size, size, 3), **self.overrides}
        try:
            model = self.create_model(self.model, weights=self.weights, **arguments)
        except ValueError as error:
            suffix = " of ImageNet (--labels names others)" if self.class_names is None else ""
            reason = str(error)
            for advice in ADVICE:  # to callers of the constructor
                reason = reason.replace(advice, "")
            raise ValueError(f"with {len(labels)} classes{suffix}: {reason}") from None
        view = preprocessing_of(self.model, size, self.weights)
        return Classifier(self.model, model, view, labels)

    def card(self) -> dict[str, str]:
        if is_published_name(self.weights):
            row = find_published(self.model, self.weights)
            revision = f"SHA-256 {row.checksum}" if row.is_packaged else row.revision
            return {
                "Weights": f"{row.page}, {revision}",
                "Published accuracy": f"{row.top1} % on {row.data}, "
                f"{row.image_size} x {row.image_size} pixels",
                "License": row.license,
            }
        if self.weights.startswith(PREFIX):
            return {"Weights": self.weights, "License": LICENSE}
        path = find_weights(self.weights, self.model)
        return {"Weights": f"{path.name}, SHA-256 {sha256(path)}", "License": LICENSE}

    def for_data(self, class_names: Sequence[str], image_size: int) -> Self:
        """See the base class; published weights keep their class names if these cover the data."""
        if is_published_name(self.weights):
            named = () if self.class_names is None else (self.class_names,)
            class_names = _published_names(self.weights, named, class_names)
        return replace(self, class_names=class_names, image_size=image_size)

    def load_with_images(self, data: DataConfig) -> tuple[Classifier, ImageData]:
        images = load_images(data, preprocessing_of(self.model, self._size(), self.weights))
        source = self.for_data(images.class_names, self._size())
        try:
            classifier = source.load()
        except ValueError as error:
            # A weight file has no class names: its outputs may be all classes of ImageNet.
            ids = [number for number, _ in classes_of()]
            if not set(source.class_names or ()) < set(ids):
                raise
            try:
                return replace(source, class_names=ids).load(), images
            except ValueError:
                raise error from None
        if source.class_names == images.class_names:
            for line in name_warnings(images.class_names):
                print(f"warning: {line}", file=sys.stderr)
        return classifier, images

    def _size(self) -> int:
        size = find_model(self.model).size_for(self.weights)
        return size if self.image_size is None else self.image_size


def _published_names(
    weights: str, given: Sequence[Sequence[str]], names: Sequence[str]
) -> Sequence[str]:
    """Returns the names of all outputs in the naming of the data, which may have fewer classes."""
    for every in (*given, *zip(*classes_of(weights), strict=True)):  # ids, then words
        if set(names) <= set(every):
            return every
    numbers = [str(number) for number in range(len(every))]
    if set(names) == set(numbers):  # in any order, as folders are sorted as text
        return numbers
    others = some(map(printable, sorted({*names} - {*every})))
    raise ValueError(
        f"data: expected classes of {weights!r}, by their names ({', '.join(every[:3])}, ...) "
        f"or all by their numbers. Received: {others}"
    )


def _checked_names(class_names: Any) -> list[str]:
    names = []
    if isinstance(class_names, Sequence | np.ndarray) and not isinstance(class_names, str):
        names = list(class_names)
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            "class_names: expected the names of two or more classes. "
            f"Received: {reprlib.repr(class_names)}"
        )
    return list(map(str, names))
