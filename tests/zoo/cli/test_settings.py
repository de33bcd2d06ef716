"""Configurations by name."""

from pathlib import Path

import pytest

from zoo.cli.settings import configurations
from zoo.config import TrainConfig

CONFIGS = Path(__file__).parents[3] / "tpu_configs"


def test_every_configuration_has_its_name():
    assert list(configurations()) == sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    for name, path in configurations().items():
        assert path.samefile(CONFIGS / f"{name}.yaml")


def test_a_name_is_understood_in_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = TrainConfig.from_command_line(["--config", "lambda_resnet14_digits"])
    of_file = TrainConfig.from_file(CONFIGS / "lambda_resnet14_digits.yaml")
    assert named.to_yaml() == of_file.to_yaml()
    changed = ["--config", "lambda_resnet14_digits", "--training.epochs", "7"]
    assert TrainConfig.from_command_line(changed).training.epochs == 7


def test_a_file_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lambda_resnet14_digits").write_text("training: {epochs: 7}\n")
    config = TrainConfig.from_command_line(["--config", "lambda_resnet14_digits"])
    assert config.training.epochs == 7


@pytest.mark.parametrize("text", ["name.yaml", "a/name"])
def test_what_is_no_name_is_a_file(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"expected a YAML file. Received: '{text}', not found"):
        TrainConfig.from_command_line(["--config", text])


def test_an_unknown_name_has_a_hint():
    with pytest.raises(ValueError, match=r"or the name of a configuration.*did you mean 'lambda_"):
        TrainConfig.from_command_line(["--config", "lambda_resnet14_digit"])
