"""ONNX: names, batch sizes, answers of onnxruntime."""

import pytest
from support.servables import FIRST_OF_SMALL, assert_answers_like_keras, small_servable

from zoo.export import onnx


@pytest.mark.parametrize("name", FIRST_OF_SMALL)
def test_answers_like_keras_under_its_names(name, tmp_path):
    import onnxruntime

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
