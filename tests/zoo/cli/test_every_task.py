"""What commands and other tasks rely on, of every row of the table of tasks."""

import json
from types import SimpleNamespace
from typing import get_args

import pytest

from zoo.cli.tasks import TASKS, choose_source, find_task, load
from zoo.inference.source.base import Source
from zoo.run_folder import RUN_CONFIG

pytestmark = pytest.mark.parametrize("name", TASKS)
TRAIN = {name: task.commands["train"].settings for name, task in TASKS.items()}


def sections(name):
    """The settings of training: names in each section."""
    fields = load(TRAIN[name]).model_fields
    return {
        key: set(getattr(field.annotation, "model_fields", ())) for key, field in fields.items()
    }


def settings(run=None, model=None):
    return SimpleNamespace(run=run, model=model, weights=None, image_size=None)


def test_settings_state_their_task(name):
    field = load(TRAIN[name]).model_fields["task"]
    assert (field.default, get_args(field.annotation)) == (name, (name,))
    assert find_task({"task": field.default}) == name


def test_marks_are_settings_of_this_task_alone(name):
    for section, marks in TASKS[name].marks.items():
        for mark in marks:
            assert [task for task in TASKS if mark in sections(task).get(section, ())] == [name]
            assert find_task({section: {mark: 1}}) == name


def test_a_source_of_a_run_ends_with_one_line_that_names_it(name, tmp_path):
    (tmp_path / RUN_CONFIG).write_text(f"task: {name}")
    source = choose_source(settings(run=tmp_path))
    assert isinstance(source, Source)
    with pytest.raises(ValueError, match=rf"\A.*{tmp_path}.*\Z"):
        source.load()


def test_a_damaged_published_network_is_named(name, tmp_path):
    (tmp_path / "lambda_keras.json").write_text(json.dumps({"task": name}))
    source = choose_source(settings(model=str(tmp_path)))
    with pytest.raises(
        ValueError, match=rf"\Amodel: expected an intact lambda_keras.json.*{tmp_path}.*\Z"
    ):
        source.load()


def test_networks_are_published_by_a_publisher(name):
    if place := TASKS[name].parts.get("publish"):
        from zoo.publish.folder import Publisher

        publisher = load(place)()
        assert isinstance(publisher, Publisher)
        assert publisher.task.endswith(name)
        assert "hf://me/my" in publisher.use.format(address="hf://me/my")


def test_extensions_of_the_evaluation_share_its_settings(name):
    row = TASKS[name]
    evaluate = load(row.commands["evaluate"].settings)
    for place in row.extensions.values():
        base = load(place)().settings
        assert base is None or issubclass(evaluate, base)
