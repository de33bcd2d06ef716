"""OpenVINO: what int8 computes in 8 bits, precision, signals."""

import gc
import os
import re
import signal

import keras
import numpy as np
import pytest
from openvino import Core
from support.servables import int8_difference, pixels, probabilities, write_images

from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.layers import LambdaLayer
from zoo.export import openvino
from zoo.export.base import Options
from zoo.inference.classifier import Classifier, predict


def exit_code_after_a_signal() -> int:
    """Returns that of a copy of this process which handles a signal."""
    if not (child := os.fork()):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.raise_signal(signal.SIGUSR1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_8_bits(folder) -> list[str]:
    """Returns the names of what rounds to 8 bits."""
    layers = re.findall(r'name="(\S+)" type="(\w+)"', (folder / "model.xml").read_text())
    return [name for name, kind in layers if kind == "FakeQuantize"]


@pytest.mark.slow
def test_int8_is_calibrated_on_images(servable, tmp_path):
    assert 1e-4 < int8_difference("openvino", servable, tmp_path, 12) < 0.1
    assert exit_code_after_a_signal() == 0
    quantized = in_8_bits(tmp_path / "1")
    assert len(quantized) > 20
    assert any("lambda_1/MatMul" in name for name in quantized)


@pytest.mark.slow
def test_operations_stay_in_float32_for_accuracy(servable, tmp_path):
    files = write_images(tmp_path, 12)
    # From one image to another, so that some are close to the border of two classes.
    starts, ends = pixels(32, 16).reshape(2, 16, 1, 16, 16, 3)
    shares = np.linspace(0, 1, 10, dtype="float32").reshape(-1, 1, 1, 1)
    images = ((1 - shares) * starts + shares * ends).reshape(-1, 16, 16, 3)
    classes = predict(servable.model, images).argmax(-1)
    held_out, notes, rounded, right = [*zip(images, classes, strict=True)], {}, {}, {}
    for max_loss in (1, 0):
        folder = tmp_path / str(max_loss)
        options = Options("int8", files, 2, max_loss=max_loss, held_out=held_out)
        (note,) = openvino.OpenVINO().write(servable, folder, options)
        notes[max_loss] = note.removeprefix("in float32 for the sake of accuracy: ")
        rounded[max_loss] = {name.rpartition("/fq_")[0] for name in in_8_bits(folder)}
        runtime = openvino.Runtime(folder, 1)
        found = [probabilities(runtime, two) for two in np.split(images, 80)]
        right[max_loss] = (np.concatenate(found).argmax(-1) == classes).mean()
    assert exit_code_after_a_signal() == 0
    assert notes[1] == "nothing"
    named = notes[0].removesuffix(" in model.xml").split(", ")
    assert len(named) == len(rounded[1]) - len(rounded[0]) > 0
    assert not rounded[0] & set(named)
    assert 1 / 2 < right[1] <= right[0]
    assert right[1] < 1


def test_lambda_layers_on_large_maps_with_large_scopes(tmp_path):
    inputs = keras.Input((24, 24, 3))
    maps = LambdaLayer(16, num_heads=2, scope=23)(inputs)
    outputs = keras.layers.Dense(4, "softmax")(keras.layers.GlobalAveragePooling2D()(maps))
    model = keras.Model(inputs, outputs, name="large")
    classifier = Classifier("large", model, Preprocessing(24, 1), "abcd")
    openvino.OpenVINO().write(classifier, tmp_path, Options())
    images = pixels(2, 24)
    found = probabilities(openvino.Runtime(tmp_path, 1), images)
    np.testing.assert_allclose(found, predict(model, images), atol=1e-5)


def test_bfloat16_rounds(servable, tmp_path):
    openvino.OpenVINO().write(servable, tmp_path, Options())
    runtimes = [openvino.Runtime(tmp_path, 1, precision) for precision in ("f32", "bf16")]
    names = [str(one.model.get_property("INFERENCE_PRECISION_HINT")) for one in runtimes]
    assert "float32" in names[0]
    has_bfloat16 = "BF16" in Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert ("bfloat16" in names[1]) == has_bfloat16
    exact, found = (probabilities(one, pixels(3, 16)) for one in runtimes)
    assert np.abs(found - exact).max() < 0.1  # processors without bfloat16 compute in float32


def test_signals_are_handled_while_networks_come_and_go(servable, tmp_path):
    openvino.OpenVINO().write(servable, tmp_path, Options())
    runtimes = [openvino.Runtime(tmp_path, 1) for _ in range(3)]
    assert exit_code_after_a_signal() == 0
    while runtimes:
        runtimes.pop(0)
        gc.collect()
        assert exit_code_after_a_signal() == 0
