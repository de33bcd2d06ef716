"""Networks as backbones."""

import numpy as np
import pytest
from keras import ops
from support import networks

from lambda_keras.applications import LambdaMobileNetV2, LambdaResNet14, feature_extractor


@pytest.mark.one_backend
def test_features_by_name_at_any_size():
    model = LambdaResNet14(classes=5)
    networks.randomize(model)
    features = feature_extractor(model)
    assert features.input_shape == (None, None, None, 3)
    for size in [(16, 24), (21, 13)]:
        outputs = features(networks.images(2, *size, 3), training=False)
        assert {name: tuple(feature.shape) for name, feature in outputs.items()} == {
            stage: (2, *(-(-length // 2**number) for length in size), 64 * 2**number)
            for number, stage in enumerate(networks.STAGES)
        }


def test_features_share_weights_with_the_model():
    model = LambdaResNet14(include_top=False)
    networks.randomize(model)
    data = networks.images(2, 16, 16, 3)
    features = feature_extractor(model, ["c5"])
    np.testing.assert_array_equal(
        ops.convert_to_numpy(features(data)["c5"]), ops.convert_to_numpy(model(data))
    )
    assert len(features.variables) == len(model.variables)


@pytest.mark.one_backend
def test_other_endpoints():
    model = LambdaMobileNetV2(input_shape=(64, 64, 3), alpha=0.35)
    outputs = feature_extractor(model, ["c2", "block7_out"]).output
    assert {name: output.shape[1] for name, output in outputs.items()} == {
        "c2": 16,
        "block7_out": 4,
    }
