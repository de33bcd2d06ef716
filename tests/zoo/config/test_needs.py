"""Settings that have an effect with others only: each is refused alone, and accepted with them."""

from typing import Any

import pytest
from pydantic import ValidationError

from zoo.config import TrainConfig
from zoo.config.needs import Dependent, Needs

pytestmark = pytest.mark.one_backend
RAND = "randaugment_magnitude"


def only(section: str, key: str, kinds: str, other: str, name: str, value: Any) -> tuple:
    """A setting that has an effect with some values of another one only."""
    names = " or ".join(f"{key}={kind}" for kind in kinds.split())
    message = f" is for {names} only. Received: {name}={value}, {key}={other}"
    return section, name, value, message, {key: kinds.split()[-1]}


DECOUPLED = ("optimizer", "name", "adamw lamb lion", "sgd")
EXPONENTIAL = ("optimizer", "schedule", "exponential", "cosine")
LOSSES = ("training", "loss", "binary_crossentropy", "categorical_crossentropy")
# Section, setting and value, the rest of the message, and settings with which it is accepted.
CASES = [
    ("model", "weights_model", "resnet50", "=resnet50 needs weights. Received: None", {}),
    ("model", "weights_overrides", {"x": 1}, " needs weights_model. Received: {'x': 1}", {}),
    ("distillation", "overrides", {"x": 1}, " needs model. Received: {'x': 1}", {}),
    *(
        ("data.pseudo", name, value, " needs dir. Received: dir=None", {"dir": "x"})
        for name, value in (("ratio", 2), ("labels", "hard"), ("temperature", 2))
    ),
    ("data", "randaugment_layers", 3, f" needs {RAND}. Received: randaugment_layers=3", {RAND: 0}),
    only("optimizer", "name", "sgd rmsprop", "lion", "momentum", 0.5),
    only("optimizer", "name", "sgd", "lion", "nesterov", True),
    only("optimizer", "name", "rmsprop adamw lamb", "lion", "epsilon", 0.5),
    only(*DECOUPLED, "beta_1", 0.5),
    only(*DECOUPLED, "beta_2", 0.5),
    only(*EXPONENTIAL, "decay_rate", 0.5),
    only(*EXPONENTIAL, "decay_epochs", 2.0),
    only(*LOSSES, "binary_threshold", 0.2),
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
