"""Holding out a part of a data set."""

from collections.abc import Sequence

from zoo.errors import needs_extra


def stratified_split(
    labels: Sequence[int], test_size: int | float, seed: int
) -> tuple[list[int], list[int]]:
    """Splits examples with these labels at random, every class in the same proportion.

    `test_size` is a number of examples, or a part of all if a float between 0 and 1. Returns the
    indices of the training examples and of the test examples.

    Raises:
        ValueError: If that leaves a class without training or test examples.
    """
    with needs_extra("train"):
        from sklearn.model_selection import train_test_split
    train, test = train_test_split(
        range(len(labels)), test_size=test_size, stratify=labels, random_state=seed
    )
    return list(train), list(test)
