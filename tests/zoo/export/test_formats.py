"""The table of formats, and what each writes."""

import sys
from dataclasses import fields

import keras
import numpy as np
import pytest
from support.servables import pixels, probabilities, small_servable

from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from zoo.export.base import DEFAULT, IMAGES, Options
from zoo.export.classification import ExportConfig
from zoo.export.formats import FORMATS, check_packages
from zoo.export.graph import classifier_graph, runtime_graph
from zoo.export.runtimes import run
from zoo.inference.classifier import predict


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_all_that_others_use(name):
    form = FORMATS[name]
    assert all((form.title, form.purpose, form.use.format(name="x")))
    assert form.signatures(Options())[DEFAULT] == IMAGES
    assert next(iter(form.ways.items())) == (form.title, {})
    assert form.options.keys() <= {one.name for one in fields(Options)}
    assert form.options.keys() <= ExportConfig.model_fields.keys()


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("onnx", "tf2onnx"),
        ("openvino", "openvino"),
        ("openvino", "nncf"),
        ("litert", "ai_edge_litert.interpreter"),
    ],
)
def test_a_missing_package_says_what_to_install(monkeypatch, name, package):
    check_packages(name, "int8")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}.*pip install 'SOURCE\[export\]'"):
        check_packages(name, "int8")


def test_graph_has_constants_alone_and_named_ends(servable):
    graph = classifier_graph(servable.model).get_concrete_function()
    assert list(graph.variables) == []
    assert [tensor.name for tensor in graph.inputs] == ["images:0"]
    assert graph.inputs[0].shape.as_list() == [None, 16, 16, 3]
    images = pixels(3, 16)
    outputs = graph(images)
    assert list(outputs) == ["probabilities"]
    expected = predict(servable.model, images)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


def test_graph_for_runtimes_pads_within_max_pooling(servable):
    """Quantizers would take minus infinity for the least activation."""
    inputs = keras.Input((16, 16, 3))
    model = keras.Model(inputs, SymmetricMaxPooling2D(name="probabilities")(inputs))
    graph = runtime_graph(model).get_concrete_function()
    operations = [one for one in graph.graph.get_operations() if one.type in ("MaxPool", "PadV2")]
    assert [one.get_attr("padding") for one in operations] == [b"EXPLICIT"]
    images = pixels(2, 16)
    expected = classifier_graph(model)(images)
    np.testing.assert_array_equal(graph(images)["probabilities"], expected["probabilities"])


@pytest.mark.parametrize(
    ("name", "batch_size", "files"),
    [
        ("onnx", None, ["model.onnx"]),
        ("litert", 3, ["model.tflite"]),
        ("openvino", None, ["model.bin", "model.xml"]),
        ("openvino", 3, ["model.bin", "model.xml"]),
    ],
)
def test_outputs_are_those_of_keras_under_their_names(servable, tmp_path, name, batch_size, files):
    FORMATS[name].write(servable, tmp_path / "1", Options(batch_size=batch_size))
    assert sorted(path.name for path in (tmp_path / "1").iterdir()) == files
    assert FORMATS[name].file in files
    runtime = FORMATS[name].runtime(tmp_path / "1", 1)
    size = batch_size or -1
    ends = {"images": ("float32", [size, 16, 16, 3])}, {"probabilities": ("float32", [size, 10])}
    assert runtime.signatures() == {"serving_default": ends}
    images = pixels(3, 16)
    expected = predict(servable.model, images)
    assert expected.std(0).max() > 1e-3  # else any outputs would do
    np.testing.assert_allclose(probabilities(runtime, images), expected, rtol=0, atol=1e-5)


NETWORKS = {
    "lambda": ("lambda_resnet14", {}),
    "mobile": ("lambda_mobilenet_v2", {}),
    **{name: ("lambda_resnet14", {"mixer": name}) for name in ("global", "halo", "axial", "favor")},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_every_kind(network, form, tmp_path):
    name, arguments = NETWORKS[network]
    servable = small_servable(name, **arguments)
    FORMATS[form].write(servable, tmp_path / "1", Options())
    images = pixels(35, servable.image_size)  # 32 are sent at once
    expected = predict(servable.model, images)
    assert expected.std(axis=0).max() > 0.01  # else any answer would do
    found = run(form, tmp_path / "1", {DEFAULT: {"images": images}})[DEFAULT]
    assert list(found) == ["probabilities"]
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-5)
