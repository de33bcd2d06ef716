"""OpenVINO: what int8 computes in 8 bits, precision."""

import re

import numpy as np
import pytest
from support.servables import pixels, write_images

from zoo.export import openvino
from zoo.export.base import Options
from zoo.inference.classifier import predict


@pytest.mark.slow
@pytest.mark.parametrize("float_layers", [(), ("lambda",)])
def test_int8_is_calibrated_on_images(servable, tmp_path, float_layers):
    files = write_images(tmp_path, 12)
    options = Options("int8", files, float_layers=float_layers)
    openvino.OpenVINO().write(servable, tmp_path / "1", options)
    layers = re.findall(r'name="(\S+)" type="(\w+)"', (tmp_path / "1/model.xml").read_text())
    quantized = [name for name, kind in layers if kind == "FakeQuantize"]
    assert len(quantized) > 20
    assert any("lambda_1/MatMul" in name for name in quantized) == (not float_layers)
    images = np.stack([servable.view(path) for path in files])
    found = openvino.Runtime(tmp_path / "1", 1).run("serving_default", {"images": images})
    difference = np.abs(found["probabilities"] - predict(servable.model, images)).max()
    assert 1e-4 < difference < 0.1


def test_bfloat16_rounds(servable, tmp_path):
    openvino.OpenVINO().write(servable, tmp_path, Options())
    runtimes = [openvino.Runtime(tmp_path, 1, precision) for precision in ("f32", "bf16")]
    names = [str(one._model.get_property("INFERENCE_PRECISION_HINT")) for one in runtimes]
    assert "float32" in names[0]
    assert "bfloat16" in names[1]
    exact, found = (
        one.run("serving_default", {"images": pixels(3, 16)})["probabilities"] for one in runtimes
    )
    assert np.abs(found - exact).max() < 0.1  # processors without bfloat16 compute in float32
