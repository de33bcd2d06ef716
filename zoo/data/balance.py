"""Class weights for imbalanced data."""

from collections.abc import Sequence

import numpy as np

from zoo.errors import needs_extra


def balanced_weights(labels: Sequence[int] | np.ndarray, classes: int) -> list[float]:
    """Returns the weight of an image of each class, by which all classes weigh the same in sum.

    That is the number of images by the number of classes and of images of the class, as
    scikit-learn has it; the mean over all images is 1.

    Example:

    >>> from zoo.data.balance import balanced_weights
    >>> balanced_weights([0, 0, 0, 1], 2)
    [0.6666666666666666, 2.0]

    Raises:
        ValueError: If there is no image of a class.
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
