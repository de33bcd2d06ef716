"""The table of models."""

import inspect

import pytest

from lambda_keras import applications
from zoo.registry import ROWS, Row, create_model, find_model, index, list_models


def test_every_row_names_a_constructor():
    for row in ROWS:
        arguments = inspect.signature(getattr(applications, row.constructor)).parameters
        assert {"classes", "input_shape", "weights"} <= arguments.keys()


def test_published_accuracy_has_a_source():
    assert all((row.top1 is None) == (row.source == "") for row in ROWS)


def test_list_models_by_pattern():
    assert list_models("lambda_resnet5*") == ["lambda_resnet50"]
    assert len(list_models()) == len(ROWS)
    assert list_models("nothing*") == []


def test_create_model_passes_overrides_on():
    model = create_model("lambda_resnet14", classes=3, input_shape=(16, 16, 3), name="tiny")
    assert model.output_shape == (None, 3)
    assert model.name == "tiny"


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'lambda_resnet101'"):
        find_model("lambda_resnet1o1")
    with pytest.raises(ValueError, match=r"LambdaResNet14.*did you mean 'classes'"):
        create_model("lambda_resnet14", clases=3)


def test_duplicates_raise():
    with pytest.raises(ValueError, match="twice: 'a'"):
        index([Row("a", "A", 32), Row("a", "B", 32)])
