"""The task of a command line, of files and of run folders."""

import json

import pytest

from zoo import run_folder
from zoo.cli.tasks import find_task, options
from zoo.config import TrainConfig
from zoo.detection.config import DetectionConfig


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ("", "classification"),
        ("--config lambda_resnet14_digits", "classification"),
        ("--config lambda_resnet14_shapes --data.dir shards", "detection"),
        ("--config=lambda_resnet101_coco", "detection"),
        ("--config nowhere.yaml", "classification"),
        ("--task detection", "detection"),
        ("--run classifier", "classification"),
        ("--run detector photo.jpg", "detection"),
        ("--run=old/detector", "detection"),
        ("--run nowhere", "classification"),
        ("photo.jpg --model old/published", "detection"),
        ("--model lambda_resnet50", "classification"),
    ],
)
def test_task_of_a_command_line(tmp_path, monkeypatch, arguments, task):
    monkeypatch.chdir(tmp_path)
    for name, config in (("classifier", TrainConfig()), ("detector", DetectionConfig())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(config.to_yaml())
    # As it was written before there were tasks.
    (tmp_path / "old" / "detector").mkdir(parents=True)
    (tmp_path / "old" / "published").mkdir()
    (tmp_path / "old" / "published" / "lambda_keras.json").write_text('{"task": "detection"}')
    text = DetectionConfig().to_yaml().replace("task: detection\n", "")
    assert "task" not in text
    (tmp_path / "old" / "detector" / "config.yaml").write_text(text)
    assert find_task(options(arguments.split())) == task


def test_files_from_before_there_were_tasks():
    assert find_task({"training": {"epochs": 3}, "data": {"batch_size": 3}}) == "classification"
    assert find_task({"training": {"steps": 3}}) == "detection"
    assert find_task({"data": {"test_batch_size": 3}}) == "detection"
    assert find_task({"training": 3}) == "classification"


def test_runs_of_another_task_are_named(tmp_path):
    (tmp_path / "config.yaml").write_text(DetectionConfig().to_yaml())
    (tmp_path / "metrics.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"a run of classification. Received: .* detection"):
        run_folder.load_config(tmp_path)
