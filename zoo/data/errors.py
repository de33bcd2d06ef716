"""One-line errors about bad data in a pipeline, and the decorator for pipeline functions."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from zoo.data.record_layout import damaged_record
from zoo.errors import printable

# Autograph would convert Python's control flow, which these pipelines do not have.
no_autograph = tf.autograph.experimental.do_not_convert


def reason(error: Exception) -> str:
    """Returns the first line of an error without the names of TensorFlow's functions.

    The second line, where the bucket client names the object, is joined to the first.
    """
    lines = re.sub(r"\{\{.*?\}\} | \[Op:.*|\n\t(?= when )", "", str(error)).splitlines()
    return printable(lines[0]) if lines else type(error).__name__


def in_one_line(text: tf.Tensor) -> tf.Tensor:
    """Replaces control characters and bytes that are not UTF-8."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(text, r"\p{Cc}", "\N{REPLACEMENT CHARACTER}")


@contextmanager
def naming_errors(files: Iterable[str] = ()) -> Iterator[None]:
    """Turns TensorFlow's errors about data in the `with` block into a `ValueError` of one line.

    A damaged record of the TFRecord `files` is named.
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        place = damaged_record(files, error)
        raise ValueError(f"data: {place or reason(error)}") from None
    except tf.errors.InvalidArgumentError as error:
        match = re.search(r"assertion failed: \[(data: .*?)\](\s|$)", error.message, re.DOTALL)
        if match is None:
            raise
        raise ValueError(match[1]) from None
