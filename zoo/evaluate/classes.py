"""Evaluated classes: all classes of a network, or a subset by name."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from zoo.inference.classifier import Classifier


class Classes(NamedTuple):
    """The evaluated classes, and their places among the outputs of a network and the labels."""

    names: Sequence[str]
    outputs: np.ndarray  # index of each among the outputs
    labels: np.ndarray  # index of each among the labels of the images
    label_names: Sequence[str]

    def select(self, probabilities: np.ndarray) -> np.ndarray:
        """Renormalizes probabilities of all outputs, as if softmax had only these classes' logits.

        float64 `(n, outputs)` -> `(n, classes)`.
        """
        # Outputs are float32: the most improbable ones are 0.
        chosen = np.maximum(probabilities[:, self.outputs], np.finfo("float32").tiny)
        return chosen / chosen.sum(-1, keepdims=True)


def match_classes(
    classifier: Classifier, label_names: Sequence[str], subset: Sequence[str] | None = None
) -> Classes:
    """Finds the classes of images, or a subset of them, among a network's, by their names.

    Images may have fewer classes than the network, in another order. If the network's class names
    are ImageNet's in words, they are replaced by WordNet ids.
    """
    known, wanted = list(classifier.class_names), list(subset or label_names)
    if not set(wanted) <= set(known):
        known = _wordnet_ids(known)
    if known == wanted:  # in this case, names need not be unique
        outputs = range(len(known))
    elif set(wanted) <= set(known) and len(set(known)) == len(known):
        outputs = map(known.index, wanted)
    else:
        raise _differ(classifier.name, known, wanted)
    places = {name: number for number, name in enumerate(label_names)}
    labels = range(len(wanted)) if subset is None else map(places.__getitem__, wanted)
    return Classes(wanted, np.array(list(outputs)), np.array(list(labels)), list(label_names))


def _wordnet_ids(names: list[str]) -> list[str]:
    words = [word.replace("_", " ") for _, word in imagenet_classes()]
    if [name.replace("_", " ") for name in names] == words:
        return [number for number, _ in imagenet_classes()]
    return names


def _differ(name: str, expected: Sequence[str], received: Sequence[str]) -> ValueError:
    if len(expected) != len(received):
        other = [label for label in received if label not in expected] or received
        return ValueError(
            f"data: expected images of the {len(expected)} classes that {name} knows, or of some "
            f"of them. Received: {len(received)} classes ({', '.join(other[:3])}, ...)"
        )
    pairs = enumerate(zip(expected, received, strict=True))
    number = next(number for number, (known, other) in pairs if known != other)
    return ValueError(
        f"data: expected the classes of {name}, of which number {number} is "
        f"{expected[number]!r}. Received: {received[number]!r}"
    )
