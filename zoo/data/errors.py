"""What a pipeline says about bad data, in one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def naming_errors() -> Iterator[None]:
    """Wraps what reads batches, so that bad data end it with one line.

    Raises:
        ValueError: With the name of the image, in place of TensorFlow's error about it.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(r"assertion failed: \[(data: .*?)\](\s|$)", error.message, re.DOTALL)
        if found is None:
            raise
        raise ValueError(found[1]) from None
