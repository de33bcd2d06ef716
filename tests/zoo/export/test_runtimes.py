"""Exports run in a process that has TensorFlow alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from zoo.export.runtimes import _in_batches, run


def test_the_process_has_no_keras(tmp_path):
    class NeedsKeras(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="images")])
        def serve(self, images):
            return {"probabilities": tf.py_function(_import_keras, [images], tf.float32)}

    module = NeedsKeras()
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.serve})
    questions = {"serving_default": {"images": np.ones((2, 2), "float32")}}
    with pytest.raises(ValueError, match="with the runtime of its format alone"):
        run("saved_model", tmp_path, questions)


@pytest.mark.parametrize(
    ("count", "fixed", "sizes"),
    [(3, 0, [3]), (70, 0, [32, 32, 6]), (3, 1, [1, 1, 1]), (3, 4, [4]), (5, 2, [2, 2, 2])],
)
def test_batches_of_any_or_of_one_size(count, fixed, sizes):
    seen, images = [], np.arange(2.0 * count).reshape(count, 2)

    def call(signature, inputs):
        seen.append(len(inputs["images"]))
        return {signature: 2 * inputs["images"]}

    found = _in_batches(SimpleNamespace(run=call), "x", {"images": images}, fixed)
    np.testing.assert_array_equal(found["x"], 2 * images)
    assert seen == sizes


def _import_keras(images):
    import keras  # noqa: F401

    return images
