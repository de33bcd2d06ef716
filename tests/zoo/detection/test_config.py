"""Settings of detectors: described, saved and read back."""

import pytest

from zoo import run_folder
from zoo.detection.config import DetectionConfig
from zoo.detection.convert import ConvertConfig


def test_every_setting_is_described():
    sections = {"task", "model", "data", "optimizer", "training"}
    for of in (DetectionConfig, ConvertConfig, *map(type, dict(DetectionConfig()).values())):
        fields = getattr(of, "model_fields", {})
        assert not [name for name, field in fields.items() if not field.description] or (
            fields.keys() >= sections
        )


def test_resolved_settings_are_read_back(tmp_path):
    heads = {"decoder": {"fpn": {"num_filters": 8}}}
    config = DetectionConfig(
        output_dir=tmp_path / "run",
        model={"overrides": {"stem": "rs"}, "heads": heads},
        data={"scale_min": 1, "scale_max": 1},  # one scale
    )
    folder = run_folder.start(config, "# A detector\n")
    assert (folder / "config.yaml").read_text().startswith("# A detector\n")
    assert run_folder.check(config)  # an unfinished run, which goes on
    run_folder.write_metrics(folder, {})
    assert run_folder.load_config(folder, DetectionConfig).to_yaml() == config.to_yaml()
    with pytest.raises(ValueError, match=r"a run of classification. Received: .*detection"):
        run_folder.load_config(folder)


@pytest.mark.parametrize(
    "words",
    [
        ["--model.heads", "{decoder: {fpn: {num_filters: 64}}}"],
        ["--model.heads={decoder: {fpn: {num_filters: 64}}}"],
        ["--model.heads", '{"decoder": {"fpn": {"num_filters": 64}}}'],
        ["--model.heads", "decoder={fpn: {num_filters: 64}}"],
        ["--model.heads", "num_classes=9", "--model.heads", "decoder={fpn: {num_filters: 64}}"],
    ],
)
def test_heads_on_the_command_line(words):
    """As the help writes them, in YAML."""
    config = DetectionConfig.from_command_line(words)
    assert config.model.heads["decoder"] == {"fpn": {"num_filters": 64}}
    assert config.model.heads.get("num_classes", 9) == 9


def test_warm_up_ends_before_training():
    training = dict.fromkeys(("steps", "evaluation_steps", "checkpoint_steps"), 10)
    with pytest.raises(ValueError, match=r"expected fewer than training\.steps \(10\)"):
        DetectionConfig(
            optimizer={"warmup_steps": 10}, training={**training, "steps_per_execution": 1}
        )
