"""Stopping early, and what a run says while it goes on."""

import json
import re
import sys

import pytest

from zoo.train.callbacks import (
    Bar,
    DecodingSpeed,
    SaveProgress,
    load_callback,
    write_epochs,
)
from zoo.train.checkpoints import Checkpoints, Progress


def after(*accuracies) -> Progress:
    history = [{"val_accuracy": accuracy} for accuracy in accuracies]
    return Progress(len(history), history, list(range(1, len(history) + 1)))


@pytest.mark.parametrize(
    ("accuracies", "patience", "expected"),
    [
        ((), 1, False),
        ((0.5, 0.4, 0.3), None, False),
        ((0.5, 0.4), 2, False),
        ((0.5, 0.4, 0.5), 2, True),  # the first of equal ones is the best
        ((0.5, 0.4, 0.6), 2, False),
    ],
)
def test_stopped_early(accuracies, patience, expected):
    assert after(*accuracies).stopped_early(patience) is expected


def test_time_of_all_processes_counts(monkeypatch, tmp_path):
    clock = iter([10.0, 12.5, 13.0])
    monkeypatch.setattr("zoo.train.callbacks.time.monotonic", lambda: next(clock))
    progress = Progress(step=3, seconds=4.0)  # of a process before
    callback = SaveProgress(Checkpoints(tmp_path / "checkpoints", []), progress, 1, None, bool)
    (tmp_path / "config.yaml").touch()
    callback.set_model(Model())
    for _ in range(2):
        callback._save()
    assert progress.seconds == 7.0
    assert Checkpoints(tmp_path / "checkpoints", []).restore() == progress


class Model:
    def __init__(self):
        self.steps_done = 0
        self.optimizer = type("Optimizer", (), {"learning_rate": 0.25})


def created_bar(batch_size: int, run_epochs: int, steps: int) -> Bar:
    bar = Bar(batch_size, run_epochs)
    bar.set_model(Model())
    bar.set_params({"verbose": 1, "epochs": 1, "steps": steps})
    bar.on_epoch_begin(0)
    return bar


def test_bar_counts_images(monkeypatch):
    clock = iter([100.0, 102.0, 103.0])
    monkeypatch.setattr("zoo.train.callbacks.time.monotonic", lambda: next(clock))
    bar = created_bar(batch_size=8, run_epochs=1, steps=22)
    bar.model.steps_done = 5
    logs = {}
    bar.on_train_batch_end(4, logs)
    assert logs == {"images_per_second": 20.0}  # 5 steps of 8 images in 2 s
    bar.on_epoch_end(0, logs)
    assert logs == {"images_per_second": 20.0, "learning_rate": 0.25}


@pytest.mark.parametrize(
    ("trained", "epoch", "said"), [(9, 70, True), (8, 70, False), (9, 50, False)]
)
def test_says_once_that_devices_wait_for_images(monkeypatch, capsys, trained, epoch, said):
    """A batch of 20 images comes every 2 seconds: 10 per second are decoded."""
    clock = iter([0.0, epoch, *range(epoch, epoch + 20, 2)])
    monkeypatch.setattr("zoo.train.callbacks.time.monotonic", lambda: float(next(clock)))
    callback = DecodingSpeed(lambda: range(100), 20, seconds=9.5)
    callback.on_epoch_begin(0)
    for _ in range(2):
        callback.on_epoch_end(0, {"images_per_second": trained})
        if not callback.told:
            break
    printed = capsys.readouterr().out
    assert printed.count("\n") == said
    assert ("decoded at 10 per second, and trained on at 9" in printed) is said


def test_one_line_of_json_for_each_epoch(tmp_path):
    write_epochs(tmp_path / "epochs.jsonl", after(0.5, 0.75))
    lines = (tmp_path / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"epoch": 1, "step": 1, "val_accuracy": 0.5},
        {"epoch": 2, "step": 2, "val_accuracy": 0.75},
    ]


def test_bar_ends_once_at_the_last_step_and_says_the_time_left(monkeypatch, capsys):
    """Executions of 10 steps, epochs of 22, of 10 s with the evaluation."""
    clock = iter([100.0, 103.0, 106.0, 109.0, 110.0])
    monkeypatch.setattr("zoo.train.callbacks.time.monotonic", lambda: next(clock))
    bar = created_bar(batch_size=8, run_epochs=721, steps=22)
    for last in (9, 19, 29):
        bar.on_train_batch_end(last, {"loss": 0.5})
    assert bar.seen == 22
    bar.on_epoch_end(0, {"loss": 0.5})
    output = capsys.readouterr().out
    assert "30/22" not in output
    bars = [line for line in re.split(r"[\r\n]+", output) if "/22" in line]
    assert "22/22" in bars[-1]
    assert output.splitlines()[-1] == "2 h 0 min left"


def test_bar_estimates_long_runs_from_their_first_steps(monkeypatch, capsys):
    """An execution of 10 steps takes 100 s, the first one 500 s more, for compilation."""
    clock = iter([0.0, 600.0, 700.0, 800.0])
    monkeypatch.setattr("zoo.train.callbacks.time.monotonic", lambda: next(clock))
    bar = created_bar(batch_size=8, run_epochs=10, steps=100)
    for done in (10, 20, 30):
        bar.model.steps_done = done
        bar.on_train_batch_end(done - 1, {"loss": 0.5})
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "left" in line)
    assert line == "2 h 43 min left, by 10 s a step, without evaluations"  # of 980 steps


SOURCE = """
import keras

class Logger(keras.callbacks.Callback):
    pass

def with_arguments():
    logger = Logger()
    logger.project = "mine"
    return logger

def nothing():
    return None

def needs(project):
    return Logger()
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_callbacks.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_callbacks", None)


def test_classes_and_functions(module):
    one, other = map(load_callback, ["my_callbacks:Logger", "my_callbacks:with_arguments"])
    assert type(one) is type(other)
    assert other.project == "mine"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module:Logger", "ModuleNotFoundError"),
        ("my_callbacks:Missing", "AttributeError"),
        ("my_callbacks:needs", "TypeError"),
        ("my_callbacks:nothing", "NoneType from 'my_callbacks:nothing'"),
    ],
)
def test_what_is_no_callback(module, place, reason):
    with pytest.raises(ValueError, match=rf"training\.callbacks: expected .*{reason}"):
        load_callback(place)
