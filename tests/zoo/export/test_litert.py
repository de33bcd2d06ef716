"""LiteRT: names, batch sizes, operations, answers, quantisation."""

import dataclasses
from functools import partial

import keras
import numpy as np
import pytest
import rich.progress
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from support.servables import SMALL, answers, assert_answers_like_keras, pixels, small_servable

from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from zoo.export import litert, verify
from zoo.export.exporter import Check, largest_difference
from zoo.export.runtimes import run
from zoo.inference.classifier import predict


@pytest.fixture(scope="module")
def servables():
    return {name: small_servable(name) for name in SMALL}


@pytest.fixture(scope="module")
def folders(servables, tmp_path_factory):
    """Exports of each, without quantization."""
    parent = tmp_path_factory.mktemp("litert")
    for name, servable in servables.items():
        litert.write(servable, parent / name)
    return {name: parent / name for name in servables}


def interpreter_of(folder):
    interpreter = Interpreter(str(folder / "model.tflite"))
    interpreter.allocate_tensors()
    return interpreter


def size(folder):
    (path,) = folder.iterdir()
    assert path.name == "model.tflite"
    return path.stat().st_size


def write_images(folder, count):
    files = [folder / f"{i}.png" for i in range(count)]
    for path, image in zip(files, pixels(count, 48), strict=True):
        path.write_bytes(tf.io.encode_png(image.astype("uint8")).numpy())
    return files


@pytest.mark.parametrize("name", SMALL)
def test_answers_like_keras_under_its_names(name, servables, folders):
    assert_answers_like_keras(servables[name], "litert", folders[name])
    interpreter = interpreter_of(folders[name])
    assert interpreter.get_signature_list() == {
        "serving_default": {"inputs": ["images"], "outputs": ["probabilities"]}
    }
    details = interpreter.get_signature_runner().get_input_details()["images"]
    pixels = [servables[name].image_size] * 2
    assert details["shape"].tolist() == [1, *pixels, 3]
    assert details["shape_signature"].tolist() == [-1, *pixels, 3]


@pytest.mark.parametrize("name", SMALL)
def test_all_operations_are_built_in(name, folders):
    names = {operation["op_name"] for operation in interpreter_of(folders[name])._get_ops_details()}
    assert {"CONV_2D", "BATCH_MATMUL", "SOFTMAX"} <= names
    assert not [name for name in names if name.startswith("Flex") or "CUSTOM" in name]


def test_float16_halves_the_file(servables, folders, tmp_path):
    name = "lambda_resnet14"  # random MobileNets multiply what rounds
    litert.write(servables[name], tmp_path, "float16")
    assert size(tmp_path) < 0.6 * size(folders[name])
    images = pixels(8, servables[name].image_size)
    difference = answers("litert", tmp_path, images) - predict(servables[name].model, images)
    assert 0 < np.abs(difference).max() < verify.MAX_DIFFERENCE["float16"]


@pytest.mark.parametrize("name", SMALL)
def test_int8_is_calibrated_on_images(name, servables, folders, tmp_path, monkeypatch):
    servable, seen = servables[name], []

    def track(items, title, *_, **__):
        seen.extend(items if title == "Calibrating" else ())
        return items

    monkeypatch.setattr(rich.progress, "track", track)
    monkeypatch.setattr(litert, "MAX_IMAGES", 16)
    files = write_images(tmp_path, 31)
    litert.write(servable, tmp_path / "int8", "int8", files)
    assert seen == files[::2]
    assert size(tmp_path / "int8") < 0.5 * size(folders[name])
    images = np.stack([servable.view(path) for path in files])
    expected, got = predict(servable.model, images), answers("litert", tmp_path / "int8", images)
    if name == "lambda_resnet14":  # no MobileNetV2 with random weights keeps its answers
        assert np.abs(got - expected).max() < 0.05
        assert (got.argmax(-1) == expected.argmax(-1)).mean() > 0.8
    interpreter = interpreter_of(tmp_path / "int8")
    ends = interpreter.get_input_details() + interpreter.get_output_details()
    assert [end["dtype"] for end in ends] == [np.float32, np.float32]
    tensors = interpreter.get_tensor_details()
    assert sum(tensor["dtype"] == np.int8 for tensor in tensors) > len(tensors) / 3


@pytest.mark.parametrize(("io_type", "zero_point"), [("int8", -128), ("uint8", 0)])
def test_integers_alone_and_static_shapes(servables, tmp_path, io_type, zero_point):
    servable = servables["lambda_resnet14"]
    files = write_images(tmp_path, 16)
    litert.write(servable, tmp_path / "1", "int8", files, 2, io_type)
    interpreter = interpreter_of(tmp_path / "1")
    ends = [interpreter.get_input_details()[0], interpreter.get_output_details()[0]]
    assert [end["quantization"] for end in ends] == [(1, zero_point), (1 / 256, zero_point)]
    assert [end["shape_signature"].tolist() for end in ends] == [[2, 32, 32, 3], [2, 10]]
    tensors = {one["index"]: one for one in interpreter.get_tensor_details()}
    assert all(-1 not in one["shape_signature"] for one in tensors.values())
    for operation in interpreter._get_ops_details():
        assert operation["op_name"] not in ("SHAPE", "PACK", "STRIDED_SLICE")
        used = [tensors[i] for i in (*operation["inputs"], *operation["outputs"]) if i in tensors]
        assert np.float32 not in [one["dtype"] for one in used]
    images = np.stack([servable.view(path) for path in files])
    expected = predict(servable.model, images)
    check = Check({"images": images}, partial(largest_difference, {"probabilities": expected}))
    check = verify.as_in_file(check, {"io_type": io_type})
    outputs = run("litert", tmp_path / "1", {"serving_default": check.inputs}, 2)
    assert outputs["serving_default"]["probabilities"].dtype == io_type
    assert check.difference(outputs["serving_default"]) < 0.05


@pytest.mark.parametrize(("pool_size", "strides", "size"), [(3, 2, 7), (3, 2, 8), (5, 3, 8)])
def test_finite_padding_changes_nothing(pool_size, strides, size):
    inputs = keras.Input((size, size, 2))
    model = keras.Model(inputs, SymmetricMaxPooling2D(pool_size, strides, name="pool")(inputs))
    images = np.random.default_rng(0).normal(-5, 1, (2, size, size, 2)).astype("float32")
    changed = litert._with_finite_padding(model)
    assert type(changed.get_layer("pool")) is not SymmetricMaxPooling2D
    np.testing.assert_array_equal(changed(images), model(images))


def test_int8_with_symmetric_pooling(tmp_path):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(8, 3, activation="silu"),
            SymmetricMaxPooling2D(),
            layers.Conv2D(8, 3, activation="silu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, "softmax"),
        ]
    )
    servable = dataclasses.replace(small_servable("lambda_resnet14"), model=model)
    files = write_images(tmp_path, 8)
    litert.write(servable, tmp_path / "int8", "int8", files)
    images = np.stack([servable.view(path) for path in files])
    got = answers("litert", tmp_path / "int8", images)
    np.testing.assert_allclose(got, predict(model, images), rtol=0, atol=0.02)


def test_unreadable_images_are_named(servables, photos, tmp_path):
    broken = photos / "broken.jpg"
    broken.write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"unreadable image files: .*broken\.jpg"):
        litert.write(servables["lambda_resnet14"], tmp_path / "1", "int8", [broken])
    assert not (tmp_path / "1").exists()
