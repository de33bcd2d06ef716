"""The SavedModel: signatures, what it refuses, warm-up requests."""

import base64
import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from lambda_keras.applications import feature_extractor, preprocess_input
from zoo.data.crops import decode_center
from zoo.export import saved_model
from zoo.export.saved_model import WARM_UP
from zoo.inference.classifier import predict
from zoo.inference.source.weights import Weights
from zoo.registry import create_model


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported))


@pytest.fixture(scope="module")
def signatures(loaded):
    return loaded.signatures


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    photos = np.stack(load_sample_images().images)
    return photos[:, 100:116, 200:216].astype("float32") + 0.25


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def files() -> list[bytes]:
    """Images of every kind, large and small."""
    china = Image.fromarray(load_sample_images().images[0])
    return [
        encoded(china, "JPEG", quality=90),
        encoded(china.resize((50, 90)), "PNG"),
        encoded(china.convert("L").resize((9, 7)), "JPEG"),
        encoded(china.convert("RGBA").resize((31, 17)), "PNG"),
        encoded(china.resize((40, 30)), "JPEG", progressive=True),
    ]


def specs(tensors) -> dict[str, tuple[str, list[int | None]]]:
    return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in tensors.items()}


def test_names_types_and_shapes(signatures):
    images = {"images": ("float32", [None, 16, 16, 3])}
    probabilities = {"probabilities": ("float32", [None, 7])}
    expected = {
        "serving_default": (images, probabilities),
        "images_uint8": ({"images": ("uint8", [None, 16, 16, 3])}, probabilities),
        "image_bytes": (
            {"image_bytes": ("string", [None])},
            {
                "classes": ("int32", [None, 5]),
                "labels": ("string", [None, 5]),
                "scores": ("float32", [None, 5]),
            },
        ),
        "features": (
            images,
            {
                "c2": ("float32", [None, 16, 16, 64]),
                "c3": ("float32", [None, 8, 8, 128]),
                "c4": ("float32", [None, 4, 4, 256]),
                "c5": ("float32", [None, 2, 2, 512]),
            },
        ),
    }
    got = {
        name: (specs(s.structured_input_signature[1]), specs(s.structured_outputs))
        for name, s in signatures.items()
    }
    assert got == expected


@pytest.mark.parametrize("batch", [1, 3])
def test_images(signatures, servable, images, batch):
    images = np.concatenate([images, images[:1] / 2])[:batch]
    got = signatures["serving_default"](images=tf.constant(images))["probabilities"]
    integers = tf.cast(images, tf.uint8)
    of_integers = signatures["images_uint8"](images=integers)["probabilities"]
    assert got.shape == (batch, 7)
    np.testing.assert_allclose(got, predict(servable.model, images), atol=1e-6)
    expected = predict(servable.model, integers.numpy())
    np.testing.assert_allclose(of_integers, expected, atol=1e-6)


def test_features(signatures, servable, images):
    got = signatures["features"](images=tf.constant(images))
    expected = feature_extractor(servable.model)(preprocess_input(images), training=False)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5 * np.abs(value).max())


@pytest.mark.parametrize("count", [1, 5])
def test_files(signatures, servable, count):
    photos = files()[:count]
    got = signatures["image_bytes"](image_bytes=tf.constant(photos))
    images = np.stack([decode_center(photo, servable.preprocessing) for photo in photos])
    expected = predict(servable.model, images)
    assert np.ptp(expected, axis=0).max() > 1e-3 or count == 1, "images that all look alike"
    order = np.argsort(-expected, axis=-1)[:, :5]
    np.testing.assert_array_equal(got["classes"], order)
    np.testing.assert_allclose(got["scores"], np.take_along_axis(expected, order, -1), atol=1e-6)
    names = [[servable.class_names[i].encode() for i in row] for row in order]
    assert got["labels"].numpy().tolist() == names


def test_no_images_have_empty_outputs(signatures):
    for signature in signatures.values():
        ((name, spec),) = signature.structured_input_signature[1].items()
        outputs = signature(**{name: tf.zeros([0, *spec.shape[1:]], spec.dtype)})
        expected = {key: (0, *one.shape[1:]) for key, one in signature.structured_outputs.items()}
        assert {key: tuple(one.shape) for key, one in outputs.items()} == expected


def test_files_as_the_default(servable, signatures, images, tmp_path):
    saved_model.write(servable, tmp_path, default_signature="image_bytes")
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    assert set(loaded) == {*signatures, "images"}
    photos = tf.constant(files())
    expected, got = signatures["image_bytes"](photos), loaded["serving_default"](photos)
    assert got["labels"].numpy().tolist() == expected["labels"].numpy().tolist()
    np.testing.assert_allclose(got["scores"], expected["scores"], atol=1e-6)
    expected = predict(servable.model, images)
    got = loaded["images"](images=tf.constant(images))
    np.testing.assert_allclose(got["probabilities"], expected, atol=1e-6)
    records = tf.data.TFRecordDataset(str(tmp_path / WARM_UP))
    requests = [PredictionLog.FromString(one.numpy()).predict_log.request for one in records]
    assert {one.model_spec.signature_name for one in requests} == set(loaded)


def test_models_of_fewer_classes_name_all(tmp_path):
    path = tmp_path / "random.weights.h5"
    create_model("lambda_resnet14", classes=2, input_shape=(16, 16, 3)).save_weights(path)
    served = Weights("lambda_resnet14", str(path), ["x", "y"], 16).load()
    saved_model.write(served, tmp_path / "1")
    loaded = tf.saved_model.load(str(tmp_path / "1"))
    got = loaded.signatures["image_bytes"](image_bytes=tf.constant(files()[:1]))
    assert sorted(got["labels"].numpy()[0].tolist()) == [b"x", b"y"]
    assert got["scores"].numpy().sum() == pytest.approx(1)


def png_header(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02"


def jpeg_of_size(width: int, height: int) -> bytes:
    """A small JPEG that says it is large."""
    content = bytearray(files()[2])
    begin = content.index(b"\xff\xc0")
    content[begin + 5 : begin + 9] = struct.pack(">HH", height, width)
    return bytes(content)


REFUSED = {
    "empty": (b"", "expected a JPEG or PNG image"),
    "text": (b"no image at all, but long enough", "expected a JPEG or PNG image"),
    "gif": (encoded(Image.new("L", (99, 99)), "GIF"), "expected a JPEG or PNG image"),
    "cut jpeg": (files()[0][:9000], "Invalid JPEG data"),
    "cut header of a jpeg": (files()[0][:20], "Invalid JPEG data"),
    "cut png": (files()[1][:1000], "Invalid PNG data|decode"),
    "16 bits": (encoded(Image.new("I;16", (99, 99)), "PNG"), "16-bit PNG; scale it to 8 bits"),
    "cut header of a png": (files()[1][:20], "expected a JPEG or PNG image"),
    "large png": (png_header(10_000, 9_000), "at most 50 megapixels. Received: 10000 x 9000"),
    "huge png": (png_header(2**31 - 1, 2**31 - 1), "at most 50 megapixels"),
    "impossible png": (png_header(2**32 - 1, 7), "Invalid PNG data|decode"),
    "base64": (base64.b64encode(files()[1]), "image 1: .*JSON .*Received: base64 text"),
    "base64 of a jpeg": (base64.encodebytes(files()[0]), "Received: base64 text"),
    "base64 twice": (base64.b64encode(base64.b64encode(files()[1])), "Received: base64 text"),
    "url-safe base64": (base64.urlsafe_b64encode(b"\xff\xd8\xff" * 9), "Received: base64 text"),
    "data url": (b"data:image/png;base64,iVBO", "Received: base64 text"),
    "large jpeg": (jpeg_of_size(10_000, 9_000), "at most 50 megapixels. Received: 10000 x 9000"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_files(signatures, kind):
    content, message = REFUSED[kind]
    ask = signatures["image_bytes"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(image_bytes=tf.constant([files()[1], content]))
    assert ask(image_bytes=tf.constant([files()[1]]))["scores"].shape == (1, 5)


def test_the_network_is_written_once(exported, servable):
    proto = SavedModel()
    proto.ParseFromString((exported / "saved_model.pb").read_bytes())
    (graph,) = (meta.graph_def for meta in proto.meta_graphs)
    nodes = [node for function in graph.library.function for node in function.node_def]
    network = tf.function(lambda x: servable.model(x, training=False))
    traced = network.get_concrete_function(tf.TensorSpec((None, 16, 16, 3))).graph
    convolutions = sum(operation.type == "Conv2D" for operation in traced.get_operations())
    assert convolutions > 10
    assert sum(node.op == "Conv2D" for node in [*nodes, *graph.node]) == convolutions


def test_warm_up_requests(exported, signatures):
    asked = set()
    for record in tf.data.TFRecordDataset(str(exported / WARM_UP)):
        request = PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "lambda_resnet14"
        inputs = {name: tf.constant(tf.make_ndarray(t)) for name, t in request.inputs.items()}
        outputs = signatures[request.model_spec.signature_name](**inputs)
        assert all(len(output) == 1 for output in outputs.values())
        asked.add(request.model_spec.signature_name)
    assert asked == set(signatures)


def test_without_the_server_s_package_there_are_no_warm_up_requests(
    servable, tmp_path, monkeypatch, capsys
):
    for name in ("predict_pb2", "prediction_log_pb2"):
        monkeypatch.setitem(sys.modules, f"tensorflow_serving.apis.{name}", None)
    saved_model.write(servable, tmp_path / "1")
    assert "no warm-up requests, which need" in capsys.readouterr().out
    assert not (tmp_path / "1" / WARM_UP.parent).exists()
    assert (tmp_path / "1" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_saved_model_cli(exported):
    command = [Path(sys.executable).with_name("saved_model_cli"), "show", "--dir", exported]
    result = subprocess.run([*command, "--all"], capture_output=True, text=True, check=True)
    shown = result.stdout
    for signature in ("serving_default", "images_uint8", "image_bytes", "features"):
        assert f"signature_def['{signature}']" in shown
    for tensor in ("images", "image_bytes"):
        assert f"inputs['{tensor}']" in shown
    for tensor in ("probabilities", "classes", "labels", "scores", "c2", "c5"):
        assert f"outputs['{tensor}']" in shown
