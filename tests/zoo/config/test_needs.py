"""Settings that have an effect with others only: each is refused alone, and accepted with them."""

from typing import Any

import pytest
from pydantic import ValidationError

from zoo.config import TrainConfig
from zoo.config.needs import Dependent, Needs

pytestmark = pytest.mark.one_backend
DECOUPLED = "is for name=adamw or name=lamb or name=lion only. Received:"
EXPONENTIAL = "is for schedule=exponential only. Received:"
# Section, setting and value, the rest of the message, and settings with which it is accepted.
CASES = [
    ("model", "weights_model", "resnet50", "=resnet50 needs weights. Received: None", {}),
    ("model", "weights_overrides", {"x": 1}, " needs weights_model. Received: {'x': 1}", {}),
    ("data.pseudo", "ratio", 2, " needs dir. Received: dir=None", {"dir": "x"}),
    ("data.pseudo", "labels", "hard", " needs dir. Received: dir=None", {"dir": "x"}),
    ("data.pseudo", "temperature", 2, " needs dir. Received: dir=None", {"dir": "x"}),
    (
        "data",
        "randaugment_layers",
        3,
        " needs randaugment_magnitude. Received: randaugment_layers=3",
        {"randaugment_magnitude": 0},
    ),
    (
        "optimizer",
        "momentum",
        0.5,
        " is for name=sgd or name=rmsprop only. Received: momentum=0.5, name=lion",
        {"name": "rmsprop"},
    ),
    (
        "optimizer",
        "nesterov",
        True,
        " is for name=sgd only. Received: nesterov=True, name=lion",
        {"name": "sgd"},
    ),
    ("optimizer", "beta_1", 0.5, f" {DECOUPLED} beta_1=0.5, name=sgd", {"name": "adamw"}),
    ("optimizer", "beta_2", 0.5, f" {DECOUPLED} beta_2=0.5, name=sgd", {"name": "lion"}),
    (
        "optimizer",
        "epsilon",
        0.5,
        " is for name=rmsprop or name=adamw or name=lamb only. Received: epsilon=0.5, name=lion",
        {"name": "lamb"},
    ),
    (
        "optimizer",
        "decay_rate",
        0.5,
        f" {EXPONENTIAL} decay_rate=0.5, schedule=cosine",
        {"schedule": "exponential"},
    ),
    (
        "optimizer",
        "decay_epochs",
        2,
        f" {EXPONENTIAL} decay_epochs=2.0, schedule=cosine",
        {"schedule": "exponential"},
    ),
    (
        "training",
        "binary_threshold",
        0.2,
        " is for loss=binary_crossentropy only. Received: binary_threshold=0.2, "
        "loss=categorical_crossentropy",
        {"loss": "binary_crossentropy"},
    ),
    ("distillation", "overrides", {"x": 1}, " needs model. Received: {'x': 1}", {}),
]


def kind(section: str) -> Any:
    config: Any = TrainConfig
    for name in section.split("."):
        config = config.model_fields[name].annotation
    return config


@pytest.mark.parametrize(("section", "name", "value", "message", "others"), CASES)
def test_refused_alone(section, name, value, message, others):
    alone = {"name": "lion"} if message.endswith("name=lion") else {}
    with pytest.raises(ValidationError) as refused:
        kind(section)(**{name: value, **alone})
    assert f"Value error, {name}{message} [" in str(refused.value)
    if others:
        assert getattr(kind(section)(**{name: value, **others}), name) == value


def test_every_need_has_a_case():
    declared = {  # other tests import the module again, whose classes are counted then, too
        (section.__name__, name)
        for section in Dependent.__subclasses__()
        for name, field in section.model_fields.items()
        if any(isinstance(one, Needs) for one in field.metadata)
    }
    assert sorted(declared) == sorted((kind(case[0]).__name__, case[1]) for case in CASES)
