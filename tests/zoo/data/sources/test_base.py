"""Order of the records that sources read."""

import numpy as np
import tensorflow as tf

from zoo.data.sources.base import StreamSource
from zoo.devices import ONLY_HOST


def test_the_parts_share_the_shuffle_buffer():
    """A buffer of 32 is chunks of two records for each of eight parts; each part is of 10."""

    def read(part, order, first):
        return tf.data.Dataset.range(10 * part.index + first, 10 * (part.index + 1)).map(
            lambda number: {"number": number}
        )

    records = StreamSource(80, read, 32).training(8, 0, ONLY_HOST, seed=0).take(80)
    numbers = np.array([int(record["number"]) for record, _ in records]).reshape(10, 8).T
    assert (numbers // 10 == np.arange(8)[:, None]).all()
    assert (numbers // 2 == np.arange(80).reshape(8, 10) // 2).all()
    assert (numbers != np.arange(80).reshape(8, 10)).any()
