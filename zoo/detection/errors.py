"""Errors of TensorFlow that are no fault of the program, in one line."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming_full_disks(path: Path) -> Iterator[None]:
    """Wraps what writes through TensorFlow, whose error of a full disk is none of Python's.

    Args:
        path: File or folder that is written.

    Raises:
        OSError: With the path, if the disk is full.
    """
    import tensorflow as tf

    full = os.strerror(errno.ENOSPC)
    try:
        yield
    except (tf.errors.OpError, OSError, RuntimeError) as error:
        if full not in str(error):
            raise
        raise OSError(errno.ENOSPC, full, str(path)) from None
