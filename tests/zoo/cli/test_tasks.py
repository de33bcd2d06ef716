"""The task of a command line, of files, of runs and of published networks."""

import json

import pytest

from zoo import run_folder
from zoo.cli import tasks
from zoo.cli.tasks import Task, choose_source, find_task, options
from zoo.config import TrainConfig


@pytest.fixture(autouse=True)
def drawing(monkeypatch):
    """A task of its own."""
    row = Task({}, {"source": "zoo.files:location"}, marks={"training": {"strokes"}})
    monkeypatch.setitem(tasks.TASKS, "drawing", row)


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ("", "classification"),
        ("--config lambda_resnet14_digits", "classification"),
        ("--config drawing.yaml --data.dir shards", "drawing"),
        ("--config=drawing.yaml", "drawing"),
        ("--config nowhere.yaml", "classification"),
        ("--config of_run.yaml", "drawing"),
        ("--task drawing", "drawing"),
        ("--task=drawing --config lambda_resnet14_digits", "drawing"),
        ("--run classifier", "classification"),
        ("--run stated photo.jpg", "drawing"),
        ("--run=marked", "drawing"),
        ("--run nowhere", "classification"),
        ("photo.jpg --model ./published", "drawing"),
        ("--model lambda_resnet50", "classification"),
    ],
)
def test_task_of_a_command_line(here, arguments, task):
    runs = {
        "classifier": TrainConfig().to_yaml(),
        "stated": "task: drawing",
        "marked": "training: {strokes: 3}",
    }
    for name, text in runs.items():
        (here / name).mkdir()
        (here / name / "config.yaml").write_text(text)
    (here / "published").mkdir()
    (here / "published" / "lambda_keras.json").write_text('{"task": "drawing"}')
    (here / "drawing.yaml").write_text(runs["stated"])
    (here / "of_run.yaml").write_text("run: marked")
    assert find_task(options(arguments.split())) == task


def test_settings_that_state_no_task():
    assert find_task({"training": {"strokes": 3}}) == "drawing"
    for training in ({"epochs": 3}, 3):
        assert find_task({"training": training}) == "classification"


def test_a_source_is_of_the_task_and_unknown_tasks_are_refused(tmp_path):
    class Settings:
        run = tmp_path

        def __fspath__(self):
            return "found"

    (tmp_path / "config.yaml").write_text("task: drawing")
    assert choose_source(Settings()).name == "found"
    (tmp_path / "config.yaml").write_text("task: drwing")
    with pytest.raises(ValueError, match=r"task: no such task. Received: 'drwing' \(did you mean"):
        choose_source(Settings())


def test_runs_of_another_task_are_named(tmp_path):
    (tmp_path / "config.yaml").write_text("task: drawing")
    (tmp_path / "metrics.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"a run of classification. Received: .* drawing"):
        run_folder.load_config(tmp_path)
