"""LiteRT: operations, quantization."""

import dataclasses

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from support.servables import int8_difference, pixels, probabilities

from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from zoo.export import litert, verify
from zoo.export.base import Options
from zoo.inference.classifier import predict


def interpreter_of(folder):
    interpreter = Interpreter(str(folder / "model.tflite"))
    interpreter.allocate_tensors()
    return interpreter


@pytest.fixture(scope="module")
def plain(servable, tmp_path_factory):
    """Export without quantization."""
    folder = tmp_path_factory.mktemp("litert") / "plain"
    litert.LiteRT().write(servable, folder, Options())
    return folder


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_all_operations_are_built_in(servable, plain, tmp_path, precision):
    folder = plain
    if precision == "float16":
        folder = tmp_path
        litert.LiteRT().write(servable, folder, Options("float16"))
    interpreter = interpreter_of(folder)
    names = {operation["op_name"] for operation in interpreter._get_ops_details()}
    assert {"CONV_2D", "BATCH_MATMUL", "SOFTMAX"} <= names
    assert not [name for name in names if name.startswith("Flex") or "CUSTOM" in name]
    types = {one["dtype"] for one in interpreter.get_tensor_details()}
    assert (np.float16 in types) == (precision == "float16")
    images = pixels(8, 16)
    found = probabilities(litert.Runtime(folder), images)
    difference = np.abs(found - predict(servable.model, images)).max()
    assert 0 < difference < verify.MAX_DIFFERENCE[precision]


def test_int8_is_calibrated_on_images(servable, tmp_path):
    assert 1e-4 < int8_difference("litert", servable, tmp_path, 16) < 0.1
    interpreter = interpreter_of(tmp_path / "1")
    ends = interpreter.get_input_details() + interpreter.get_output_details()
    assert [end["dtype"] for end in ends] == [np.float32, np.float32]
    tensors = interpreter.get_tensor_details()
    assert sum(tensor["dtype"] == np.int8 for tensor in tensors) > len(tensors) / 3


@pytest.mark.parametrize(("io_type", "zero_point"), [("int8", -128), ("uint8", 0)])
def test_integers_alone_and_static_shapes(servable, tmp_path, io_type, zero_point):
    difference = int8_difference("litert", servable, tmp_path, 16, batch_size=2, io_type=io_type)
    assert difference < 0.1
    interpreter = interpreter_of(tmp_path / "1")
    ends = [interpreter.get_input_details()[0], interpreter.get_output_details()[0]]
    assert [np.dtype(end["dtype"]).name for end in ends] == [io_type] * 2
    assert [end["quantization"] for end in ends] == [(1, zero_point), (1 / 256, zero_point)]
    assert [end["shape_signature"].tolist() for end in ends] == [[2, 16, 16, 3], [2, 10]]
    tensors = {one["index"]: one for one in interpreter.get_tensor_details()}
    assert all(-1 not in one["shape_signature"] for one in tensors.values())
    for operation in interpreter._get_ops_details():
        assert operation["op_name"] not in ("SHAPE", "PACK", "STRIDED_SLICE")
        used = [tensors[i] for i in (*operation["inputs"], *operation["outputs"]) if i in tensors]
        assert np.float32 not in [one["dtype"] for one in used]


def test_other_scales_of_integers_are_refused(plain):
    with pytest.raises(ValueError, match=r"io_type: expected images and probabilities of \(scale"):
        litert.check_ends((plain / "model.tflite").read_bytes(), 0)


@pytest.mark.parametrize(("pool_size", "strides", "size"), [(3, 2, 7), (3, 2, 8), (5, 3, 8)])
def test_finite_padding_changes_nothing(pool_size, strides, size):
    inputs = keras.Input((size, size, 2))
    model = keras.Model(inputs, SymmetricMaxPooling2D(pool_size, strides, name="pool")(inputs))
    images = np.random.default_rng(0).normal(-5, 1, (2, size, size, 2)).astype("float32")
    changed = litert.with_finite_padding(model)
    assert type(changed.get_layer("pool")) is not SymmetricMaxPooling2D
    np.testing.assert_array_equal(changed(images), model(images))


def test_int8_with_symmetric_pooling(servable, tmp_path):
    inputs = keras.Input((16, 16, 3))
    x = keras.layers.Conv2D(8, 3, activation="silu")(inputs)
    x = keras.layers.GlobalAveragePooling2D()(SymmetricMaxPooling2D()(x))
    model = keras.Model(inputs, keras.layers.Dense(10, "softmax")(x))
    assert int8_difference("litert", dataclasses.replace(servable, model=model), tmp_path, 8) < 0.02
