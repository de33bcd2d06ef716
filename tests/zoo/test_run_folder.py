"""Run folders: what is refused, what is removed."""

import pytest

from zoo import run_folder
from zoo.config import TrainConfig


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def config(folder, **settings):
    return TrainConfig(output_dir=folder, **settings)


def start(folder):
    return run_folder.start(config(folder))


def test_new_and_empty_folders_are_fine(folder):
    assert run_folder.check(config(folder)) is False
    folder.mkdir()
    assert run_folder.check(config(folder)) is False


def test_finished_run_is_refused_unless_overwritten(folder):
    start(folder)
    run_folder.write_metrics(folder, {})
    with pytest.raises(ValueError, match=r"holds a finished run.*--overwrite true"):
        run_folder.check(config(folder))
    assert run_folder.check(config(folder, overwrite=True)) is False


def test_unfinished_run_goes_on_with_the_same_settings(folder):
    start(folder)
    assert run_folder.check(config(folder)) is True
    assert run_folder.check(config(folder, overwrite=True)) is False


def test_unfinished_run_with_other_settings_is_refused(folder):
    start(folder)
    other = config(folder, data={"batch_size": 8}, training={"seed": 3})
    with pytest.raises(ValueError, match=r"other settings \(data\.batch_size, training\.seed\)"):
        run_folder.check(other)


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_folders_are_always_refused(folder, overwrite):
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="other files"):
        run_folder.check(config(folder, overwrite=overwrite))


def test_start_removes_the_old_run_and_nothing_else(folder):
    start(folder)
    run_folder.write_metrics(folder, {"test": 1})
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "step-000000001.safetensors").write_bytes(b"old")
    (folder / "notes.txt").write_text("mine")
    start(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "notes.txt"]


def test_load_config_of_a_finished_run_only(folder):
    start(folder)
    with pytest.raises(ValueError, match="expected the folder of a finished run"):
        run_folder.load_config(folder)
    run_folder.write_metrics(folder, {})
    assert run_folder.load_config(folder).to_yaml() == TrainConfig(output_dir=folder).to_yaml()


def test_metrics_are_never_half_written(folder):
    start(folder)
    with pytest.raises(ValueError, match="JSON"):
        run_folder.write_metrics(folder, {"loss": float("nan")})
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
