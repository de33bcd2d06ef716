"""The SavedModel: signatures, what it refuses, warm-up requests."""

import base64
import dataclasses
import io
import struct
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images
from support.networks import tiny_model
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from lambda_keras.applications import feature_extractor, preprocess_input
from zoo.data.crops import decode_center
from zoo.export import graph, saved_model
from zoo.export.base import Options
from zoo.export.graph import endpoints
from zoo.export.saved_model import WARM_UP
from zoo.inference.classifier import predict


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported))


@pytest.fixture(scope="module")
def signatures(loaded):
    return loaded.signatures


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


def test_names_types_and_shapes(exported):
    images = {"images": ("float32", [-1, 16, 16, 3])}
    probabilities = {"probabilities": ("float32", [-1, 10])}
    of_files = {"classes": "int32", "labels": "string", "scores": "float32"}
    found = saved_model.Runtime(exported).signatures()
    of_images, maps = found.pop("features")
    assert (of_images, sorted(maps)) == (images, ["c2", "c3", "c4", "c5"])
    assert found == {
        "serving_default": (images, probabilities),
        "images_uint8": ({"images": ("uint8", [-1, 16, 16, 3])}, probabilities),
        "image_bytes": (
            {"image_bytes": ("string", [-1])},
            {name: (dtype, [-1, 5]) for name, dtype in of_files.items()},
        ),
    }


def test_images_and_features(signatures, servable):
    images = np.stack(load_sample_images().images)[:, 100:116, 200:216].astype("float32") + 0.25
    images = np.concatenate([images, images[:1] / 2])
    integers = tf.cast(images, tf.uint8)
    for name, given in (("serving_default", images), ("images_uint8", integers.numpy())):
        got = signatures[name](images=tf.constant(given))["probabilities"]
        np.testing.assert_allclose(got, predict(servable.model, given), atol=1e-5)
    got = signatures["features"](images=tf.constant(images))
    expected = feature_extractor(servable.model)(preprocess_input(images), training=False)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5 * np.abs(value).max())


def test_files(signatures, servable):
    photos = files()
    got = signatures["image_bytes"](image_bytes=tf.constant(photos))
    images = np.stack([decode_center(photo, servable.preprocessing) for photo in photos])
    expected = predict(servable.model, images)
    assert np.ptp(expected, axis=0).max() > 1e-3, "images that all look alike"
    order = np.argsort(-expected, axis=-1)[:, :5]
    np.testing.assert_array_equal(got["classes"], order)
    np.testing.assert_allclose(got["scores"], np.take_along_axis(expected, order, -1), atol=1e-5)
    names = [[servable.class_names[i].encode() for i in row] for row in order]
    assert got["labels"].numpy().tolist() == names


def test_no_images_have_empty_outputs(signatures):
    for signature in signatures.values():
        ((name, spec),) = signature.structured_input_signature[1].items()
        outputs = signature(**{name: tf.zeros([0, *spec.shape[1:]], spec.dtype)})
        expected = {key: (0, *one.shape[1:]) for key, one in signature.structured_outputs.items()}
        assert {key: tuple(one.shape) for key, one in outputs.items()} == expected


def test_files_as_the_default_and_few_classes(servable):
    """The signatures of a SavedModel, without writing it."""
    found, form = endpoints(servable, Options()), saved_model.SavedModel()
    signatures = form.signatures(Options(default_signature="image_bytes"))
    assert signatures == {"serving_default": "image_bytes", **{name: name for name in found}}
    assert signatures.keys() - form.signatures(Options()).keys() == {"images"}
    model = tiny_model(classes=2, classifier_activation="softmax")
    few = dataclasses.replace(servable, model=model, class_names=["x", "y"])
    computed = endpoints(few, Options(fold=False))
    images = np.random.default_rng(0).uniform(0, 255, (3, 16, 16, 3)).astype("float32")
    expected = model(preprocess_input(images), training=False)
    received = computed["images"][0](tf.constant(images))["probabilities"]
    np.testing.assert_allclose(received, expected, atol=1e-6)
    got = computed["image_bytes"][0](tf.constant(files()[:1]))
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


UNKNOWN = "image 1: expected a JPEG or PNG image"
LARGE = "image 1: expected at most 50 megapixels. Received: "
TEXT = "image 1: .*JSON .*Received: base64 text"
REFUSED = {
    "empty": (b"", UNKNOWN),
    "text": (b"no image at all, but long enough", UNKNOWN),
    "gif": (encoded(Image.new("L", (99, 99)), "GIF"), UNKNOWN),
    "cut header of a jpeg": (files()[0][:20], "Invalid JPEG data"),
    "cut header of a png": (files()[1][:20], UNKNOWN),
    "cut png": (files()[1][:1000], "Invalid PNG data|decode"),
    "16 bits": (encoded(Image.new("I;16", (99, 99)), "PNG"), "16-bit PNG; scale it to 8 bits"),
    "large png": (png_header(10_000, 5_001), f"{LARGE}10000 x 5001"),
    "huge png": (png_header(2**31 - 1, 2**31 - 1), LARGE),
    "large jpeg": (jpeg_of_size(10_000, 9_000), f"{LARGE}10000 x 9000"),
    "base64": (base64.b64encode(files()[1]), TEXT),
    "base64 of a jpeg": (base64.encodebytes(files()[0]), TEXT),
    "url-safe base64": (base64.urlsafe_b64encode(b"\xff\xd8\xff" * 9), TEXT),
    "data url": (b"data:image/png;base64,iVBO", TEXT),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_files(signatures, kind):
    content, message = REFUSED[kind]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["image_bytes"](image_bytes=tf.constant([files()[1], content]))


def test_fifty_megapixels_are_accepted():
    file = png_header(10_000, 5_000)
    assert graph.check_file(tf.constant(file), tf.constant(0)).numpy() == file


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


def warm_up_requests(path) -> dict:
    """Inputs by signature."""
    asked = {}
    for record in tf.data.TFRecordDataset(str(path)):
        request = PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "lambda_resnet14"
        inputs = {name: tf.constant(tf.make_ndarray(t)) for name, t in request.inputs.items()}
        asked[request.model_spec.signature_name] = inputs
    return asked


def test_warm_up_requests(exported, signatures, servable, tmp_path):
    asked = warm_up_requests(exported / WARM_UP)
    assert asked.keys() == set(signatures)
    for name, inputs in asked.items():
        assert all(len(output) == 1 for output in signatures[name](**inputs).values())
    signed = saved_model.SavedModel().signatures(Options(default_signature="image_bytes"))
    saved_model.write_warm_up(servable, tmp_path / "x/y", signed)
    asked = warm_up_requests(tmp_path / "x/y")
    assert asked.keys() == {*signatures, "images"}
    assert list(asked["serving_default"]) == ["image_bytes"]


def test_without_the_server_s_package_there_are_no_warm_up_requests(
    servable, tmp_path, monkeypatch, capsys
):
    for name in ("predict_pb2", "prediction_log_pb2"):
        monkeypatch.setitem(sys.modules, f"tensorflow_serving.apis.{name}", None)
    saved_model.write_warm_up(servable, tmp_path / WARM_UP, {})
    assert "no warm-up requests, which need" in capsys.readouterr().out
    assert not (tmp_path / WARM_UP.parent).exists()
