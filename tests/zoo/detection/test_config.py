"""Settings of detectors: described, saved and read back."""

import pytest

from zoo import api, run_folder
from zoo.cli.tasks import find_task
from zoo.detection.config import DetectionConfig


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
    with pytest.raises(ValueError, match=r"starts anew, with more --training.steps"):
        run_folder.check(config)


@pytest.mark.parametrize("head", ["", "task: detection\n"])
def test_task_of_a_run_is_stated_or_known_by_its_settings(tmp_path, head):
    text = DetectionConfig().to_yaml().replace("task: detection\n", "")
    assert "task" not in text
    (tmp_path / "config.yaml").write_text(head + text)
    assert find_task({"run": tmp_path}) == "detection"
    assert find_task({"config": tmp_path / "config.yaml"}) == "detection"
    assert find_task({"data": {"test_batch_size": 3}}) == "detection"
    assert find_task({"config": "lambda_resnet14_shapes"}) == "detection"


def test_wrong_settings_and_backends_of_functions(tmp_path, request):
    with pytest.raises(ValueError, match=r"training\.steps: Input should be"):
        api.train("lambda_resnet14_shapes", training={"steps": 0})
    request.getfixturevalue("on_jax")
    with pytest.raises(ValueError, match=r"expected Keras on tensorflow .*Received: 'jax'"):
        api.train(task="detection", output_dir=tmp_path, data={"dir": tmp_path})
    assert not list(tmp_path.iterdir())


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
