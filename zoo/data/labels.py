"""Labels of a dataset: class weights, warnings about few or unequal classes."""

from collections.abc import Sequence

import numpy as np

from zoo.errors import needs_extra, printable, some

FEW = 10  # images of a class, below which a network hardly learns it
UNEQUAL = 5  # ratio of the largest class to the smallest, from which class weights are advised


def balanced_weights(labels: Sequence[int] | np.ndarray, classes: int) -> list[float]:
    """Returns class weights that give all classes the same total weight; their mean is 1.

    Example:
        >>> from zoo.data.labels import balanced_weights
        >>> balanced_weights([0, 0, 0, 1], 2)
        [0.6666666666666666, 2.0]

    Raises:
        ValueError: If a class has no image.
    """
    with needs_extra("train"):
        from sklearn.utils.class_weight import compute_class_weight
    missing = set(range(classes)) - {int(label) for label in labels}
    if missing:
        raise ValueError(
            "data.class_weights: expected training images of every class. Received: none of class "
            f"number {min(missing)}"
        )
    return compute_class_weight(
        "balanced", classes=np.arange(classes), y=np.asarray(labels)
    ).tolist()


def class_warnings(
    labels: Sequence[int] | np.ndarray, class_names: Sequence[str], weighted: bool
) -> list[str]:
    """Returns a line on classes with few training images, and one on very unequal classes.

    `weighted` says whether classes have weights in the loss.
    """
    lines = []
    counts = np.bincount(np.asarray(labels), minlength=len(class_names))
    few = [f"{printable(class_names[i])} ({counts[i]})" for i in np.flatnonzero(counts < FEW)]
    if few:
        lines.append(f"classes with fewer than {FEW} training images: {some(few)}")
    ratio = counts.max() / max(counts.min(), 1)
    if ratio >= UNEQUAL and not weighted:
        lines.append(
            f"the largest class has {ratio:.0f} times the images of the smallest: "
            "--data.class_weights balanced lets every class count as much"
        )
    return lines
