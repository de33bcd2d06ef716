"""Lines of a run before its first step."""

from dataclasses import replace

import pytest

from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.train.plan import plan


def test_plan_of_digits():
    config = TrainConfig(
        data={"batch_size": 64},
        training={"epochs": 30, "gradient_accumulation_steps": 4},
        model={"image_size": 16},
    )
    data = replace(load_data(config.data, 16), warnings=("something is odd",))
    classes, steps, warning = plan(config, data)
    assert classes == "training images of a class: 139 (8) to 146 (1)"
    assert steps.startswith("30 epochs of 22 steps, 660 in all, of 64 images of 16 x 16 pixels in")
    assert steps.endswith("in 4 micro-batches")
    assert warning == "warning: something is odd"


@pytest.mark.parametrize(
    ("model", "optimizer", "named"),
    [
        ({}, {"layer_decay": 0.75}, "optimizer.layer_decay: for pretrained weights"),
        ({"freeze_up_to": "c3"}, {"layer_decay": 1}, "model.freeze_up_to: for pretrained weights"),
        ({"freeze_backbone": True}, {"layer_decay": 0.75}, "decay and model.freeze_backbone: for"),
        ({"weights": "imagenet", "name": "lambda_resnet26t"}, {"layer_decay": 0.75}, None),
        ({}, {}, None),
    ],
    ids=str,
)
def test_settings_for_pretrained_weights_from_random_ones(model, optimizer, named):
    """Such as those of fine_tune."""
    config = TrainConfig(model={"image_size": 32, **model}, optimizer=optimizer)
    warnings = plan(config, load_data(config.data, 32))[2:]
    assert len(warnings) == (named is not None)
    assert all(named in warning for warning in warnings)
