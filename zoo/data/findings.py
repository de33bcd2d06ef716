"""Dataset warnings: usual faults of one's own images, found before the first step."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from zoo.data.image_folder import Files
from zoo.errors import printable, some

FEW = 10  # images of a class, below which hardly anything is learned of it
UNEQUAL = 5  # times the images of another class, from which on weights of classes are worth a word


def of_files(train: Files, test: Files, image_size: int) -> list[str]:
    """Returns a line on test images that are in training, too, and one on images that are small.

    Args:
        train: Training files, with what is known of each.
        test: Test files.
        image_size: Height and width of what the network gets.
    """
    lines = []
    known = defaultdict(list)
    for path, facts in zip(train.paths, train.facts, strict=True):
        known[facts.digest].append(path)
    twice = [
        f"{printable(path)} = {printable(known[facts.digest][0])}"
        for path, facts in zip(test.paths, test.facts, strict=True)
        if facts.digest in known
    ]
    if twice:
        lines.append(
            f"{len(twice)} of {len(test.paths)} test images are in training, too, which makes "
            f"accuracy look better than it is: {some(twice)}"
        )
    small = [
        f"{printable(path)} ({facts.width} x {facts.height})"
        for path, facts in zip(train.paths, train.facts, strict=True)
        if min(facts.width, facts.height) < image_size
    ]
    if small:
        lines.append(
            f"{len(small)} of {len(train.paths)} training images are smaller than the "
            f"{image_size} pixels that the network gets, and are enlarged (model.image_size): "
            f"{some(small)}"
        )
    return lines


def of_classes(
    labels: Sequence[int] | np.ndarray, class_names: Sequence[str], weighted: bool
) -> list[str]:
    """Returns a line on classes with few training images, and one on very unequal classes.

    Args:
        labels: Indices of the classes of the training images.
        class_names: Their names.
        weighted: Whether classes have weights in the loss.
    """
    lines = []
    counts = np.bincount(np.asarray(labels), minlength=len(class_names))
    few = [
        f"{printable(name)} ({count})"
        for name, count in zip(class_names, counts, strict=True)
        if count < FEW
    ]
    if few:
        lines.append(f"classes with fewer than {FEW} training images: {some(few)}")
    ratio = counts.max() / max(counts.min(), 1)
    if ratio >= UNEQUAL and not weighted:
        lines.append(
            f"the largest class has {ratio:.0f} times the images of the smallest: "
            "--data.class_weights balanced lets every class count as much"
        )
    return lines
