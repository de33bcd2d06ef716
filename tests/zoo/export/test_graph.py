"""Graphs without variables."""

import numpy as np
import pytest
from support.servables import SMALL, pixels, small_servable

from zoo.export.graph import classifier_graph
from zoo.inference.classifier import predict


@pytest.mark.parametrize("name", SMALL)
def test_graph_has_constants_alone_and_named_ends(name):
    servable = small_servable(name)
    graph = classifier_graph(servable.model).get_concrete_function()
    assert list(graph.variables) == []
    assert [tensor.name for tensor in graph.inputs] == ["images:0"]
    assert graph.inputs[0].shape.as_list() == [None, *servable.model.input_shape[1:]]
    static = classifier_graph(servable.model, batch_size=5).get_concrete_function()
    assert static.inputs[0].shape.as_list() == [5, *servable.model.input_shape[1:]]
    images = pixels(3, servable.image_size)
    expected = predict(servable.model, images)
    outputs = graph(images)
    assert list(outputs) == ["probabilities"]
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)
    servable.model.set_weights([0 * weight for weight in servable.model.get_weights()])
    np.testing.assert_allclose(graph(images)["probabilities"], expected, rtol=0, atol=1e-5)
