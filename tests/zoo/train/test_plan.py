"""What a run says before its first step."""

from dataclasses import replace

from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.train.plan import plan


def test_plan_of_digits():
    config = TrainConfig(
        data={"batch_size": 64},
        training={"epochs": 30, "gradient_accumulation_steps": 4},
        model={"image_size": 16},
    )
    data = replace(load_data(config.data, 16), findings=("something is odd",))
    classes, steps, warning = plan(config, data)
    assert classes == "training images of a class: 139 (8) to 146 (1)"
    assert steps == "30 epochs of 22 steps, 660 in all, of 64 images of 16 x 16 pixels in 4 parts"
    assert warning == "warning: something is odd"
