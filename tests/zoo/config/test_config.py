"""Settings: precedence, descriptions, saving and reading back."""

import pytest
from support.lfs import LFS_POINTER, PULL

from zoo.config import TrainConfig
from zoo.config.model_options import read_labels


def parse(*arguments):
    return TrainConfig.from_command_line([str(a) for a in arguments])


def test_command_line_over_file_over_default(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("data: {batch_size: 8, augment: false}\n")
    config = parse("--config", file, "--data.batch_size", 16)
    assert config.data.batch_size == 16
    assert config.data.augment is False
    assert (config.data.source, config.model.size) == ("digits", 32)


def test_a_value_may_be_named_as_a_section_is():
    config = parse("--data.dir", "data", "--data.source", "image_folder", "--output_dir", "model")
    assert config.data.dir == "data"
    assert str(config.output_dir) == "model"


def test_environment_variables_are_no_settings(environ):
    environ(STRATEGY="mirrored", OUTPUT_DIR="elsewhere")
    assert parse() == TrainConfig()


def test_resolved_config_reloads_equal(tmp_path):
    words = "--model.overrides placement=CCLL --model.overrides scope=7 --data.batch_size 8"
    config = parse(*words.split())
    assert config.model.overrides == {"placement": "CCLL", "scope": 7}
    (tmp_path / "c.yaml").write_text(config.to_yaml())
    assert TrainConfig.from_file(tmp_path / "c.yaml").to_yaml() == config.to_yaml()


def test_labels_of_windows_editors(tmp_path):
    (tmp_path / "labels.txt").write_bytes("größe \r\nb\r\n".encode("utf-8-sig"))
    assert read_labels(tmp_path / "labels.txt") == ["größe", "b"]
    (tmp_path / "labels.txt").write_bytes(LFS_POINTER)
    with pytest.raises(ValueError, match=f"a text file. Received: .*labels.txt', {PULL}"):
        read_labels(tmp_path / "labels.txt")
