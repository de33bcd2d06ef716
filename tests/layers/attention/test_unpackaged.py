"""Attention layers against public implementations that are on GitHub alone, by their answers."""

import numpy as np
import pytest
from support.arrays import assert_near, to_numpy

from lambda_keras.layers import AxialAttention, LinearAttention
from tools.unpackaged import ARRAYS, FILTERS, HEADS, KEY_DIM


@pytest.fixture(scope="module")
def arrays():
    with np.load(ARRAYS) as saved:
        return dict(saved)


def of(arrays, prefix):
    return {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}


def channels_last(array):
    return array.transpose(0, 2, 3, 1)


def set_axis(layer, module):
    """Copies the weights of a module for one axis to ours."""
    e = FILTERS // HEADS
    split = [e // 2, e]

    def of_heads(array):
        """Queries', keys' and values' parts of `(heads * 2 e, ...)`."""
        array = array.reshape(HEADS, 2 * e, *array.shape[1:])
        return [part.reshape(-1, *part.shape[2:]) for part in np.split(array, split, axis=1)]

    kernels = of_heads(module["qkv_transform.weight"][..., 0])
    # Its tables of queries and values run from the key to the query.
    tables = [table.T for table in np.split(module["relative"], split)]
    tables = [tables[0][::-1], tables[1], tables[2][::-1]]
    for name, kernel, table in zip(("query", "key", "value"), kernels, tables, strict=True):
        getattr(layer, f"{name}_kernel").assign(kernel.T)
        getattr(layer, f"{name}_embeddings").assign(table)
    for ours, theirs in (
        ("gamma", "weight"),
        ("beta", "bias"),
        ("moving_mean", "running_mean"),
        ("moving_variance", "running_var"),
    ):
        norms = {
            "query key value": of_heads(module[f"bn_qkv.{theirs}"]),
            "content query_position key_position": np.split(module[f"bn_similarity.{theirs}"], 3),
            "content_output position_output": module[f"bn_output.{theirs}"].reshape(FILTERS, 2).T,
        }
        for names, values in norms.items():
            for name, value in zip(names.split(), values, strict=True):
                getattr(getattr(layer, f"{name}_batch_norm"), ours).assign(value)


def test_axial_attention_is_that_of_axial_deeplab(arrays):
    theirs = of(arrays, "axial/")
    images = channels_last(theirs["images"])
    ours = AxialAttention(FILTERS, num_heads=HEADS)
    ours.build(images.shape)
    set_axis(ours.height_attention, of(theirs, "0."))
    set_axis(ours.width_attention, of(theirs, "1."))
    for training, name in ((False, "outputs"), (True, "training_outputs")):
        outputs = to_numpy(ours(images, training=training))
        assert_near(outputs, channels_last(theirs[name]))


def test_softmax_features_are_those_of_efficient_attention(arrays):
    theirs = of(arrays, "efficient/")
    images = channels_last(theirs["images"])
    ours = LinearAttention(FILTERS, num_heads=HEADS, key_dim=KEY_DIM)
    ours.build(images.shape)
    kernels = [theirs[f"{name}.weight"][..., 0, 0].T for name in ("queries", "keys", "values")]
    ours.set_weights(kernels)
    # Its output projection gives the depth of the inputs, which it adds.
    projected = to_numpy(ours(images)) @ theirs["reprojection.weight"][..., 0, 0].T
    assert_near(projected + images, channels_last(theirs["outputs"]))
