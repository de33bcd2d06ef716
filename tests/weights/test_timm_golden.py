"""The networks that timm has, with the outputs that timm gave for the same weights and images."""

import json

import numpy as np
import pytest

from lambda_keras.weights.state_dicts import SCHEMES, expected_tensors
from tools import timm_parity
from zoo.registry import create_model

GOLDEN = json.loads(timm_parity.GOLDEN.read_text(encoding="utf-8"))
OF_OTHERS = {"resnet_rs50": SCHEMES[1], "resnet50_pytorch": SCHEMES[-1]}


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.parametrize("name", timm_parity.SIZES)
def test_outputs_are_those_of_timm(name):
    model = create_model(name)
    scheme = OF_OTHERS.get(name, SCHEMES[0])
    shapes = {tensor.key: tensor.shape for tensor in expected_tensors(model, scheme)}
    assert timm_parity.digest(shapes) == GOLDEN["tensors"][name]
    outputs = timm_parity.our_outputs(name, shapes, timm_parity.SIZES[name])
    expected = {key: value for key, value in GOLDEN["outputs"].items() if key.split("/")[0] == name}
    assert outputs.keys() == expected.keys()
    for key, array in outputs.items():
        largest = expected[key]["max"]
        assert list(array.shape) == expected[key]["shape"]
        near = {"rtol": 0, "atol": timm_parity.TOLERANCE * largest, "err_msg": key}
        np.testing.assert_allclose(np.abs(array).max(), largest, **near)
        np.testing.assert_allclose(timm_parity.few(array), expected[key]["few"], **near)
