"""Exports run in a process that has TensorFlow alone."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.export.runtimes import run


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


def _import_keras(images):
    import keras  # noqa: F401

    return images
