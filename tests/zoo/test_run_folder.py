"""Run folders: what is refused, what is removed."""

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from zoo import run_folder
from zoo.config import TrainConfig
from zoo.devices import Devices, Host
from zoo.files import location
from zoo.train import run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def config(folder, **settings):
    return TrainConfig(output_dir=folder, **settings)


def start(folder):
    return run_folder.start(config(folder))


def test_settings_say_how_a_new_process_loads_the_model(run):
    head = (run / "config.yaml").read_text().splitlines()[0]
    program = head.removeprefix("# In Python: ") + "; print(model.name)"
    options = {"env": {**os.environ, "PYTHONPATH": os.getcwd()}, "capture_output": True}
    loaded = subprocess.run([sys.executable, "-c", program], cwd=run, text=True, **options)
    assert loaded.stdout == "lambda_resnet14\n", loaded.stderr


def test_hosts_that_start_at_the_same_time_do_not_see_one_another(tmp_path):
    """Of 200 starts by two processes, a quarter failed when a trial made the folders themselves."""
    together = threading.Barrier(2)

    def begin(number):
        together.wait()
        return run_folder.check(config(tmp_path / str(number // 2) / "run"))

    with ThreadPoolExecutor(2) as hosts:
        starts = [hosts.submit(begin, number) for number in range(400)]
    assert not any(start.result() for start in starts)
    assert list(tmp_path.iterdir()) == []


def test_new_unfinished_and_finished_runs(folder):
    """An unfinished run goes on, a finished one is refused, and read by commands."""
    assert run_folder.check(config(folder)) is False
    folder.mkdir()
    assert run_folder.check(config(folder)) is False
    start(folder)
    assert run_folder.check(config(folder)) is True
    assert run_folder.check(config(folder, overwrite=True)) is False
    with pytest.raises(ValueError, match="expected the folder of a finished run"):
        run_folder.load_config(folder)
    with pytest.raises(ValueError, match="JSON"):  # metrics are never half written
        run_folder.write_metrics(folder, {"loss": float("nan")})
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    values = {"test": {"accuracy": 1, "loss": 0.1}, "test_images": 2, "training_images": 8}
    run_folder.write_metrics(folder, {**values, "class_names": ["a", "b"], "history": {}})
    with pytest.raises(ValueError, match=r"holds a finished run.*--overwrite true"):
        run_folder.check(config(folder))
    assert run_folder.check(config(folder, overwrite=True)) is False
    assert run_folder.load_config(folder).to_yaml() == TrainConfig(output_dir=folder).to_yaml()
    metrics = run_folder.load_metrics(folder)
    assert (metrics.class_names, metrics.test.accuracy) == (["a", "b"], 1)
    assert (metrics.test_images, metrics.training_images) == (2, 8)


@pytest.mark.parametrize("warm", [{}, {"weights_model": "resnet_rs50", "weights": "imagenet"}])
def test_finished_run_says_how_to_train_longer(folder, warm):
    """The settings that it names are those of the same network, from the weights of the run."""
    settings = {"model": {"name": "lambda_resnet50", **warm}, "optimizer": {"learning_rate": 0.4}}
    start(folder)
    run_folder.write_metrics(folder, {})
    (folder / run_folder.WEIGHTS).touch()
    with pytest.raises(ValueError, match="for more epochs") as caught:
        run_folder.check(config(folder, **settings))
    arguments = str(caught.value).partition(": add ")[2].partition(";")[0].split()
    new = TrainConfig.from_values({"_cli_parse_args": arguments, **settings})
    assert (new.model.name, new.model.weights) == ("lambda_resnet50", str(folder))
    assert new.model.weights_model is None
    assert (new.optimizer.learning_rate, new.optimizer.warmup_epochs) == (0.4, 0)


OTHERS = {
    "data.batch_size, training.seed": {"data": {"batch_size": 8}, "training": {"seed": 3}},
    "model.overrides.scope": {"model": {"overrides": {"scope": None}}},  # not the default
    "training.epochs": {"training": {"epochs": 9}},
    "": {"tpu_cores": 32, "tpu": "two"},  # say nothing of the run
}


@pytest.mark.parametrize("names", OTHERS)
def test_unfinished_run_with_other_settings_is_refused(folder, names):
    start(folder)
    other = config(folder, **OTHERS[names])
    assert ", ".join(run_folder.differing(other)) == names
    refused = pytest.raises(ValueError, match=rf"other settings \({names}\)")
    with refused if names else nullcontext():
        assert run_folder.check(other) is True


def test_what_a_killed_start_left_does_not_block_the_same_command(folder):
    folder.mkdir()
    (folder / ".partial-1-config.yaml").touch()
    assert run_folder.check(config(folder)) is False
    start(folder)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    (folder / ".partial-1-metrics.json").mkdir()
    assert run_folder.check(config(folder)) is True
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_folders_are_always_refused(folder, overwrite):
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="other files"):
        run_folder.check(config(folder, overwrite=overwrite))


def test_start_removes_the_old_run_and_nothing_else(folder):
    start(folder)
    run_folder.write_metrics(folder, {"test": 1})
    names = (
        "checkpoints/step-000000001.safetensors logs/events model.keras model.weights.h5 "
        "raw.weights.h5 epochs.jsonl records.json curves.png predictions.png notes.txt"
    )
    for name in names.split():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    start(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "notes.txt"]


def test_host_that_does_not_see_the_folder(folder):
    """A run ends before its first step where hosts do not share the folder."""
    assert not run_folder.is_shared(folder, 0)
    start(folder)
    assert run_folder.is_shared(folder, 0)

    class Hosts(Devices):
        def gather(self, number):
            return [True, number]

    devices = Hosts(2, Host(1, 2), "CPU")
    run.check_shared(config(folder), devices)
    with pytest.raises(ValueError, match=r"elsewhere, where 1 of 2 hosts do not find"):
        run.check_shared(config(folder.parent / "elsewhere"), devices, 0)


def test_bucket_that_does_not_answer(bucket, bucket_server):
    message = f"{bucket}/run does not answer: "
    for read in (lambda place: run_folder.check(config(place)), run_folder.load_config):
        bucket_server.fail(403, f"(stat|list) {bucket[5:]}/", times=99)
        with pytest.raises(ValueError, match=message) as caught:
            read(location(f"{bucket}/run"))
        assert "\n" not in str(caught.value)
        bucket_server.faults.clear()


def test_data_at_another_path_are_compared_by_their_source(folder):
    here, there = ({"source": "image_folder", "dir": name} for name in ("here", "there"))
    run_folder.start(config(folder, data=here))
    with pytest.raises(ValueError, match=r"with other settings \(data\.dir\)"):
        run_folder.check(config(folder, data=there))
    (folder / "records.json").touch()
    assert run_folder.check(config(folder, data=there)) is True
    with pytest.raises(ValueError, match=r"with other settings \(training\.seed\)"):
        run_folder.check(config(folder, data=there, training={"seed": 1}))
    (folder / "here").mkdir()
    with contextlib.chdir(folder):
        assert run_folder.differing(config(folder, data=here | {"dir": str(folder / "here")})) == []
