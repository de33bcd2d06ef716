"""OpenVINO: names, batch sizes, answers."""

import sys

import pytest
from servables import FIRST_OF_SMALL, assert_answers_like_keras, small_servable

from zoo.export import openvino as exporting
from zoo.inference.runtimes import import_openvino


@pytest.mark.parametrize("name", FIRST_OF_SMALL)
def test_answers_like_keras_under_its_names(name, tmp_path):
    servable = small_servable(name)
    exporting.write(servable, tmp_path / "1")
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert files == ["model.bin", "model.xml"]
    assert_answers_like_keras(servable, "openvino", tmp_path / "1")
    openvino = import_openvino()
    model = openvino.Core().read_model(tmp_path / "1" / "model.xml")
    size = servable.image_size
    assert model.input().names == {"images"}
    assert model.output().names == {"probabilities"}
    assert model.input().partial_shape == openvino.PartialShape([-1, size, size, 3])
    assert model.input().element_type == openvino.Type.f32


def test_missing_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ImportError, match=r"openvino.*pip install 'SOURCE\[export\]'"):
        exporting.write(small_servable("lambda_resnet14"), tmp_path / "1")
    assert list(tmp_path.iterdir()) == []
