"""Decoding of small datasets into memory."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.data.crops import decode
from zoo.data.errors import no_autograph
from zoo.data.sources.base import Records
from zoo.data.sources.stored import Pixels, Record, Stored
from zoo.errors import needs_extra

BATCH = 256


def decoded(records: Records, stored: Stored, limit: float, windows: bool) -> Records | None:
    """Decodes images of one size, up to `limit` bytes in all; returns their records with pixels.

    Returns None if sizes differ, an image is unreadable, images take more than `limit`, or records
    hold pixels already; also for JPEG files that training decodes by `windows`, because colors
    differ at the borders of a window.
    """
    if isinstance(stored, Pixels) or limit == 0:
        return None
    with needs_extra("train"):
        from rich.progress import track

    @no_autograph
    def decode_one(record: Record) -> tuple[tf.Tensor, Record]:
        file = stored.file(record["image"])
        lossless = tf.debugging.Assert(~(tf.image.is_jpeg(file) & windows), ["JPEG"])
        with tf.control_dependencies([lossless]):
            return decode(file), record

    images = records.in_order().map(decode_one, tf.data.AUTOTUNE)
    try:
        shape: Any = next(iter(images))[0].shape
        if math.prod(shape.as_list()) * records.count > limit:
            return None
        same = no_autograph(lambda image, record: (tf.ensure_shape(image, shape), record))
        batches = images.map(same).batch(BATCH).prefetch(1)
        steps = math.ceil(records.count / BATCH)
        pixels, labels, names = zip(
            *(
                (image, record["label"], record["name"])
                for image, record in track(
                    batches.as_numpy_iterator(), "Decoding images", steps, transient=True
                )
            ),
            strict=True,
        )
    except tf.errors.OpError:  # unreadable images are named when their turn comes
        return None
    parts: list[Any] = [np.concatenate(part) for part in (pixels, labels, names)]
    return records.with_pixels(*parts)
