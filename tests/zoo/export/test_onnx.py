"""ONNX: layouts, threads, lambda maps, halves."""

import numpy as np
import onnx as library
import onnxruntime
import pytest
from support.servables import int8_difference, pixels, probabilities

from lambda_keras.applications import preprocess_input
from zoo.export import onnx, verify
from zoo.export.base import Options
from zoo.export.formats import FORMATS
from zoo.inference.classifier import predict
from zoo.inference.lambda_maps import lambda_layers, lambda_maps


def test_channels_first_static_shapes_and_halves(servable, tmp_path):
    onnx.Onnx().write(servable, tmp_path, Options("float16", batch_size=2, layout="nchw"))
    graph = library.load(tmp_path / "model.onnx").graph
    float32, float16 = library.TensorProto.FLOAT, library.TensorProto.FLOAT16
    types = {(one.data_type, len(one.dims) > 1) for one in graph.initializer}
    assert {(float16, True), (float32, False)} <= types
    assert not {(float32, True), (float16, False)} & types
    runtime = onnx.Runtime(tmp_path, 1)
    (node,) = runtime.session.get_inputs()
    assert (node.name, node.shape) == ("images", [2, 3, 16, 16])
    images = pixels(2, 16)
    found = probabilities(runtime, images.transpose(0, 3, 1, 2))
    difference = np.abs(found - predict(servable.model, images)).max()
    assert 0 < difference < verify.MAX_DIFFERENCE["float16"]


KINDS = ("Conv", "MatMul", "QuantizeLinear", "DequantizeLinear")


class Exact(onnx.Runtime):
    """Rounds to 8 bits, and computes in float32: kernels of CPUs without VNNI overflow."""

    def __init__(self, folder, threads=0):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", options)


@pytest.mark.parametrize("activation_type", ["int8", "uint8"])
def test_int8_has_convolutions_in_8_bits(servable, tmp_path, monkeypatch, activation_type):
    monkeypatch.setattr(FORMATS["onnx"], "runtime", Exact)
    options = {"batch_size": 2, "layout": "nchw", "activation_type": activation_type}
    assert 1e-4 < int8_difference("onnx", servable, tmp_path, 12, **options) < 0.1
    graph = library.load(tmp_path / "1" / "model.onnx").graph
    kinds = {kind: [one for one in graph.node if one.op_type == kind] for kind in KINDS}
    floats, quantized = (
        {name for node in kinds[kind] for name in node.output}
        for kind in ("MatMul", "DequantizeLinear")
    )
    assert len([node for node in kinds["Conv"] if {*node.input[:2]} <= quantized]) > 8
    assert not floats & {node.input[0] for node in kinds["QuantizeLinear"]}
    constants = {one.name: library.numpy_helper.to_array(one) for one in graph.initializer}
    points = [constants[node.input[2]] for kind in KINDS[2:] for node in kinds[kind]]
    biases = [{*node.input[2:]} <= quantized for node in kinds["Conv"]]
    if activation_type == "int8":  # TensorRT takes no other
        assert all(point.dtype == np.int8 and not point.any() for point in points)
        assert not any(biases)
    else:
        assert all(biases)
        assert any(point.dtype == np.uint8 and point.any() for point in points)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_those_of_the_session(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda _, options, **__: options)
    assert onnx.Runtime(tmp_path, threads).session.intra_op_num_threads == threads


@pytest.mark.slow
def test_lambda_maps_are_those_of_the_zoo(servable, tmp_path):
    """Of folded weights, at some queries of some images of a batch."""
    layers = dict(list(lambda_layers(servable.model).items())[:1])
    onnx.Onnx().write(servable, tmp_path, Options(lambda_maps=list(layers)))
    images = pixels(3, 16)
    runtime = onnx.Runtime(tmp_path, 1)
    assert set(runtime.signatures()) == {"serving_default", "lambda_maps"}
    assert len(probabilities(runtime, images)) == 3
    outputs = runtime.run("lambda_maps", {"images": images})
    expected = predict(servable.model, images)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)
    for name, (height, width) in layers.items():
        for number, row, column in ((0, 0, width - 1), (2, height - 1, 1 % width)):
            image = preprocess_input(images)[number]
            maps = lambda_maps(servable.model, name, image, row, column)
            for kind, expected in vars(maps).items():
                found = outputs[f"{name}_{kind}"][number, row, column]
                np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert len(outputs) == 1 + 2 * len(layers)
