"""OpenVINO: names, batch sizes, answers."""

import pytest
from support.servables import FIRST_OF_SMALL, assert_answers_like_keras, small_servable

from zoo.export import openvino as exporting


@pytest.mark.parametrize("name", FIRST_OF_SMALL)
def test_answers_like_keras_under_its_names(name, tmp_path):
    servable = small_servable(name)
    exporting.write(servable, tmp_path / "1")
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert files == ["model.bin", "model.xml"]
    assert_answers_like_keras(servable, "openvino", tmp_path / "1")
    import openvino

    model = openvino.Core().read_model(tmp_path / "1" / "model.xml")
    size = servable.image_size
    assert model.input().names == {"images"}
    assert model.output().names == {"probabilities"}
    assert model.input().partial_shape == openvino.PartialShape([-1, size, size, 3])
    assert model.input().element_type == openvino.Type.f32
