"""Settings: precedence, descriptions, saving and reading back."""

import subprocess
import sys

import pytest
from support.lfs import LFS_POINTER, PULL

from zoo.config import (
    DataConfig,
    DistillationConfig,
    ModelConfig,
    OptimizerConfig,
    PseudoConfig,
    TrainConfig,
    TrainingConfig,
)
from zoo.config.model_options import read_labels

SECTIONS = ("model", "data", "pseudo", "optimizer", "training", "distillation")


def parse(*arguments):
    return TrainConfig.from_command_line([str(a) for a in arguments])


def test_defaults():
    config = parse()
    assert config.model.size == 32
    assert (config.model.batch_norm_momentum, config.training.label_smoothing) == (0.99, 0.1)
    optimizer = config.optimizer
    assert (optimizer.momentum, optimizer.warmup_epochs, optimizer.schedule) == (0.9, 5, "cosine")


def test_command_line_over_file_over_default(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("data: {batch_size: 8, augment: false}\n")
    config = parse("--config", file, "--data.batch_size", 16)
    assert config.data.batch_size == 16
    assert config.data.augment is False
    assert config.data.source == "digits"


def test_a_value_may_be_named_as_a_section_is():
    config = parse("--data.dir", "data", "--data.source", "image_folder", "--output_dir", "model")
    assert config.data.dir == "data"
    assert str(config.output_dir) == "model"


def test_environment_variables_are_no_settings(monkeypatch):
    monkeypatch.setenv("STRATEGY", "mirrored")
    monkeypatch.setenv("OUTPUT_DIR", "elsewhere")
    assert parse() == TrainConfig()


def test_resolved_config_reloads_equal(tmp_path):
    config = parse(
        "--model.overrides",
        "placement=CCLL",
        "--model.overrides",
        "scope=7",
        "--data.batch_size",
        8,
    )
    assert config.model.overrides == {"placement": "CCLL", "scope": 7}
    (tmp_path / "c.yaml").write_text(config.to_yaml())
    assert TrainConfig.from_file(tmp_path / "c.yaml").to_yaml() == config.to_yaml()


@pytest.mark.parametrize(
    "section",
    [
        ModelConfig,
        DataConfig,
        PseudoConfig,
        OptimizerConfig,
        TrainingConfig,
        DistillationConfig,
        TrainConfig,
    ],
)
def test_every_setting_is_described(section):
    undescribed = [
        name
        for name, field in section.model_fields.items()
        if not field.description and name not in SECTIONS
    ]
    assert undescribed == []


def test_labels_of_windows_editors(tmp_path):
    (tmp_path / "labels.txt").write_bytes("größe \r\nb\r\n".encode("utf-8-sig"))
    assert read_labels(tmp_path / "labels.txt") == ["größe", "b"]
    (tmp_path / "labels.txt").write_bytes(LFS_POINTER)
    with pytest.raises(ValueError, match=f"a text file. Received: .*labels.txt', {PULL}"):
        read_labels(tmp_path / "labels.txt")


@pytest.mark.slow
def test_help_and_errors_come_without_tensorflow():
    code = (
        "import sys; from zoo.train.__main__ import main\n"
        "for words in (['--help'], ['--epochs', '3']):\n"
        "    sys.argv[1:] = words\n"
        "    try: main.run()\n"
        "    except SystemExit as end: print(end.code, file=sys.stderr)\n"
        "print('imported', 'tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "--training.label_smoothing float" in process.stdout
    assert "(default: 0.1)" in " ".join(process.stdout.split())
    assert process.stdout.endswith("imported False\n")
    ends = process.stderr.splitlines()
    assert [ends[0], ends[2]] == ["0", "2"]
    assert ends[1].startswith("error: no such setting. Received: '--epochs'")
