"""Holding out a part of a data set."""

from collections.abc import Sequence

from zoo.errors import needs_extra


def stratified_split(
    labels: Sequence[int], test_size: int | float, seed: int
) -> tuple[list[int], list[int]]:
    """Splits examples at random, every class in the same proportion.

    Args:
        labels: Class index of each example.
        test_size: Number of test examples, or their part of all if a float between 0 and 1.
        seed: The same seed gives the same split.

    Returns:
        Indices of the training examples and of the test examples.

    Raises:
        ValueError: If that leaves a class without training or test examples.
    """
    with needs_extra("train"):
        from sklearn.model_selection import train_test_split
    train, test = train_test_split(
        range(len(labels)), test_size=test_size, stratify=labels, random_state=seed
    )
    return list(train), list(test)
