"""ONNX: names, batch sizes, answers of onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from support.servables import FIRST_OF_SMALL, assert_answers_like_keras, pixels, small_servable

from lambda_keras.applications import preprocess_input
from zoo.export import onnx, verify
from zoo.export.runtimes import run
from zoo.inference.classifier import predict
from zoo.inference.lambda_maps import lambda_layers, lambda_maps


@pytest.mark.parametrize("name", FIRST_OF_SMALL)
def test_answers_like_keras_under_its_names(name, tmp_path):
    servable = small_servable(name)
    onnx.write(servable, tmp_path / "1")
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["model.onnx"]
    assert_answers_like_keras(servable, "onnx", tmp_path / "1")
    session = onnxruntime.InferenceSession(tmp_path / "1" / "model.onnx")
    (images,), (probabilities,) = session.get_inputs(), session.get_outputs()
    size = servable.image_size
    assert (images.name, images.type) == ("images", "tensor(float)")
    assert images.shape == ["batch", size, size, 3]
    assert (probabilities.name, probabilities.shape) == ("probabilities", ["batch", 10])


@pytest.mark.parametrize("batch_size", [None, 2])
def test_channels_first_and_static_shapes(servable, tmp_path, batch_size):
    onnx.write(servable, tmp_path, batch_size=batch_size, layout="nchw")
    runtime = onnx.Runtime(tmp_path, 1)
    images = pixels(2, servable.image_size)
    (node,) = runtime._session.get_inputs()
    assert (node.name, node.shape) == ("images", [batch_size or "batch", 3, 16, 16])
    found = runtime.run("serving_default", {"images": images.transpose(0, 3, 1, 2)})
    expected = predict(servable.model, images)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-5)
    with pytest.raises(Exception, match="invalid dimensions for input: images"):
        runtime.run("serving_default", {"images": images})


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_those_of_the_session(servable, tmp_path, threads, monkeypatch):
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda _, options, **__: options)
    assert onnx.Runtime(tmp_path, threads)._session.intra_op_num_threads == threads


def test_lambda_maps_are_those_of_the_zoo(servable, tmp_path):
    """Of folded weights, at some queries of some images of a batch."""
    layers = lambda_layers(servable.model)
    onnx.write(servable, tmp_path, lambda_maps=list(layers))
    images = pixels(3, servable.image_size)
    outputs = run("onnx", tmp_path, {"lambda_maps": {"images": images}})["lambda_maps"]
    np.testing.assert_allclose(
        outputs["probabilities"], predict(servable.model, images), rtol=0, atol=1e-5
    )
    for name, (height, width) in layers.items():
        for number, row, column in ((0, 0, width - 1), (2, height - 1, 1)):
            image = preprocess_input(images)[number]
            maps = lambda_maps(servable.model, name, image, row, column)
            for kind, expected in vars(maps).items():
                found = outputs[f"{name}_{kind}"][number, row, column]
                np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert len(outputs) == 1 + 2 * len(layers)


def test_float16_halves_the_file(servable, tmp_path):
    for quantize in (None, "float16"):
        onnx.write(servable, tmp_path / str(quantize), quantize)
    whole, half = ((tmp_path / name / "model.onnx").stat().st_size for name in ("None", "float16"))
    assert half < 0.6 * whole
    images = pixels(3, servable.image_size)
    found = onnx.Runtime(tmp_path / "float16", 1).run("serving_default", {"images": images})
    assert list(found) == ["probabilities"]
    difference = np.abs(found["probabilities"] - predict(servable.model, images))
    assert 0 < difference.max() < verify.MAX_DIFFERENCE["float16"]
