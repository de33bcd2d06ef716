"""Saving, stopping, and what a run prints."""

import json
import re
from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import networks

from zoo.train import callbacks
from zoo.train.checkpoints import Progress
from zoo.train.loop import TrainingModel
from zoo.train.network import with_logits


@pytest.fixture
def times(monkeypatch):
    """Sets what the clock shows, one time after the other."""

    def set_times(*seconds):
        clock = iter(map(float, seconds))
        monkeypatch.setattr(callbacks.time, "monotonic", lambda: next(clock))

    return set_times


class Model:
    def __init__(self):
        self.steps_done = 0
        self.stop_training = False
        self.optimizer = SimpleNamespace(learning_rate=0.25)
        self.metrics_variables = [keras.Variable([1.0, 2.0])]


@pytest.fixture
def saving(tmp_path):
    """Creates the callback of a run, its model, and the progress after each saved file."""
    (tmp_path / "config.yaml").touch()
    saved, files = [], SimpleNamespace(folder=tmp_path / "checkpoints")
    files.save = lambda progress: saved.append((progress.step, len(progress.history)))

    def create(every_steps=None, patience=None, stop=lambda: False, progress=None):
        save = callbacks.SaveProgress(files, progress or Progress(), every_steps, patience, stop)
        save.set_model(Model())
        return save, save.model, saved

    return create


def test_checkpoints_every_few_steps_and_after_epochs(saving):
    save, model, saved = saving(every_steps=4, patience=1)
    for steps in (2, 5, 8, 9, 10):  # executions are of one step or several
        model.steps_done = steps
        save.on_train_batch_end(0, {"loss": 1.0})
    assert saved == [(5, 0), (9, 0)]
    for accuracy in (0.5, 0.5):
        assert not model.stop_training
        model.steps_done += 1
        save.on_epoch_end(0, {"val_accuracy": np.float32(accuracy)})
    assert saved[2:] == [(11, 1), (12, 2)]
    assert save.progress.epoch_steps == [11, 12]
    assert save.progress.history == [{"val_accuracy": 0.5}] * 2
    assert model.stop_training
    save.on_epoch_end(0, {"val_accuracy": 0.75})
    assert model.stop_training  # as another callback may have it


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_ends_the_run(saving, loss):
    save, model, saved = saving(every_steps=1, progress=Progress(3))
    model.steps_done = 4
    message = r"no longer finite at step 4; the last .* of step 3; lower optimizer\.learning_rate"
    with pytest.raises(ValueError, match=message):
        save.on_train_batch_end(0, {"loss": loss})
    assert saved == []


@pytest.mark.parametrize("in_evaluation", [False, True])
@pytest.mark.parametrize("before", [4, 5])
def test_interrupted_run_saves_its_step_once(saving, in_evaluation, before):
    """Within an evaluation, with the training metrics from before it."""
    stopped = [False]
    save, model, saved = saving(stop=lambda: stopped[0], progress=Progress(before))
    model.steps_done = 5
    save.on_train_batch_end(0, {})
    save.on_test_begin()
    model.metrics_variables[0].assign([7.0, 7.0])
    save.on_test_batch_end(0)
    stopped[0] = True
    message = "^stopped at step 5; the same command resumes from there$"
    with pytest.raises(SystemExit, match=message):
        (save.on_test_batch_end if in_evaluation else save.on_train_batch_end)(0, {})
    assert saved == [(5, 0)] * (before == 4)
    metrics = keras.ops.convert_to_numpy(model.metrics_variables[0]).tolist()
    assert metrics == ([1, 2] if in_evaluation else [7, 7])


def test_time_of_all_processes_counts(times, saving):
    times(10, 12.5, 13)
    save, *_ = saving(progress=Progress(step=3, seconds=4.0))  # of a process before
    for _ in range(2):
        save.on_epoch_end(0, {"val_accuracy": 1})
    assert save.progress.seconds == 7.0


def test_removed_run_is_not_written_again(saving, tmp_path):
    save, model, saved = saving(every_steps=1)
    (tmp_path / "config.yaml").unlink()
    model.steps_done = 1
    with pytest.raises(ValueError, match="was removed while the run went on"):
        save.on_train_batch_end(0, {})
    assert saved == []


def created_bar(batch_size: int, run_epochs: int, steps: int, done=(), first=0) -> callbacks.Bar:
    """A bar in its first epoch, after executions that end at some steps."""
    bar = callbacks.Bar(batch_size, run_epochs)
    bar.set_model(Model())
    bar.set_params({"verbose": 1, "epochs": 1, "steps": steps})
    bar.on_epoch_begin(first)
    for bar.model.steps_done in done:
        bar.on_train_batch_end(bar.model.steps_done - 1, {"loss": 0.5})
    return bar


def test_bar_counts_images(times):
    times(100, 102, 103)
    bar = created_bar(batch_size=8, run_epochs=1, steps=22)
    bar.model.steps_done = 5
    logs = {}
    bar.on_train_batch_end(4, logs)
    assert logs == {"images_per_second": 20.0}  # 5 steps of 8 images in 2 s
    bar.on_epoch_end(0, logs)
    assert logs == {"images_per_second": 20.0, "learning_rate": 0.25}


def test_bar_ends_once_at_the_last_step_and_says_the_time_left(times, capsys):
    """Executions of 10 steps, epochs of 22, of 10 min with the evaluation, after the first one."""
    times(100, 1000, 1015, 1018, 1300, 1300, 1400, 1900)
    bar = created_bar(batch_size=8, run_epochs=14, steps=22)
    for last in (9, 19, 29):
        bar.model.steps_done = min(last + 1, 22)
        bar.on_train_batch_end(last, {"loss": 0.5})
    bar.on_epoch_end(0, {"loss": 0.5})
    assert "left" not in capsys.readouterr().out  # steps of 18 s, most of an epoch is compilation
    bar.on_epoch_begin(1)
    bar.model.steps_done = 44
    bar.on_train_batch_end(29, {"loss": 0.5})
    assert bar.seen == 22
    bar.on_epoch_end(1, {"loss": 0.5})
    output = capsys.readouterr().out
    assert "30/22" not in output
    bars = [line for line in re.split(r"[\r\n]+", output) if "/22" in line]
    assert "22/22" in bars[-1]
    assert output.splitlines()[-1] == "2 h 0 min left"


LEFT = "2 h 43 min left, by 10 s a step, without evaluations"


@pytest.mark.parametrize(
    ("seconds", "epochs", "steps", "done", "lines"),
    [
        # Executions of 10 steps take 100 s, the first one 500 s more, for compilation: 980 steps.
        ((0, 600, 700, 800), 10, 100, (10, 20, 30), [LEFT]),
        ((0, 600, 700, 800), 2, 100, (10, 20, 30), []),  # a run of half an hour is not long
        # 100 s of compilation; then 5 steps in 25 s, and an evaluation of 10 s: 60 s an epoch.
        ((0, 100, 125, 135), 11, 10, (5, 10, "end"), ["0 h 10 min left"]),
    ],
)
def test_bar_leaves_compilation_out_of_the_time_left(
    times, capsys, seconds, epochs, steps, done, lines
):
    times(*seconds)
    bar = created_bar(8, epochs, steps, [one for one in done if one != "end"])
    if "end" in done:
        bar.on_epoch_end(0, {"loss": 0.5})
    assert [line for line in capsys.readouterr().out.splitlines() if "left" in line] == lines


@pytest.mark.parametrize(
    ("trained", "epoch", "said", "waits"), [(9, 58, 1, True), (8, 58, 1, False), (9, 56, 0, False)]
)
def test_says_once_how_fast_images_are_read(times, capsys, trained, epoch, said, waits):
    """A batch of 20 images comes every 2 seconds: 10 per second are read."""
    times(0, epoch, *range(epoch, epoch + 20, 2))
    callback = callbacks.DecodingSpeed(lambda: range(100), 20, seconds=9.5)
    callback.on_epoch_begin(0)
    for _ in range(2):
        callback.on_epoch_end(0, {"images_per_second": trained})
        if not callback.told:
            break
    printed = capsys.readouterr().out
    assert printed.count("\n") == said
    assert ("images are read at 10 per second alone, and trained on at " in printed) is bool(said)
    assert ("trained on at 9: the devices wait for them" in printed) is waits


def test_one_line_of_json_for_each_epoch(tmp_path):
    history = [{"val_accuracy": 0.5}, {"val_accuracy": 0.75, "val_loss": float("nan")}]
    callbacks.write_epochs(tmp_path / "epochs.jsonl", Progress(9, history, [4, 8]))
    lines = (tmp_path / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"epoch": 1, "step": 4, "val_accuracy": 0.5},
        {"epoch": 2, "step": 8, "val_accuracy": 0.75, "val_loss": None},
    ]


class Mine:
    """Callbacks of a user, which are imported from this module."""

    made = keras.callbacks.LambdaCallback
    nothing = staticmethod(lambda: None)
    needs = staticmethod(lambda project: keras.callbacks.LambdaCallback())
    LearningRateScheduler = partial(keras.callbacks.LearningRateScheduler, float)
    ModelCheckpoint = partial(keras.callbacks.ModelCheckpoint, "model.keras")

    class BackupAndRestore(keras.callbacks.BackupAndRestore):
        def __init__(self):
            super().__init__("folder")


ONE_HOST = ("EarlyStopping", "ModelCheckpoint")
IN_PLACE_OF = [kind.__name__ for kind in callbacks.IN_PLACE_OF]


@pytest.mark.parametrize(
    ("name", "hosts", "reason"),
    [
        ("made", 2, None),
        ("TerminateOnNaN", 2, None),
        *((name, 1, None) for name in ONE_HOST),
        *((name, 2, f"{name} on 2 hosts, which needs one") for name in ONE_HOST),
        *((name, 1, f"{name}: instead use .*(optim|ema|resumes)") for name in IN_PLACE_OF),
        ("Missing", 1, "AttributeError"),
        ("needs", 1, "TypeError"),
        ("nothing", 1, "NoneType from '.*Mine.nothing'"),
        ("no_such_module:Logger", 1, "ModuleNotFoundError"),
    ],
)
def test_callbacks_of_users(name, hosts, reason):
    place = f"{__name__}:Mine.{name}" if hasattr(Mine, name) else f"keras.callbacks:{name}"
    if reason is None:
        assert isinstance(callbacks.load_callback(place, hosts), keras.callbacks.Callback)
        return
    with pytest.raises(ValueError, match=rf"training\.callbacks: expected .*{reason}"):
        callbacks.load_callback(name if ":" in name else place, hosts)


def fitted(*given, ema=None, epochs=2):
    """Trains a small network with callbacks of users; returns what trains it, and the network."""
    keras.utils.set_random_seed(0)
    network = networks.linear_model(classes=5)
    model = TrainingModel(with_logits(network), 2, 1, ema)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, weighted_metrics=["accuracy"])
    for callback in given:
        callbacks.give_network(callback, "mine:made", network, model)
    batch = networks.images(4, 8, 8, 3), np.eye(5, dtype="float32")[:4]
    data = tf.data.Dataset.from_tensors(batch).repeat()
    options = {"validation_data": data, "validation_steps": 1, "steps_per_epoch": 2, "verbose": 0}
    model.fit(data, epochs=epochs, shuffle=False, callbacks=list(given), **options)
    return model, network


@pytest.mark.parametrize("ema", [None, 0.5])
def test_callbacks_of_users_save_the_network(tmp_path, ema):
    """As it is evaluated: with probabilities, and its EMA weights."""
    last = {"monitor": "val_accuracy", "save_best_only": True, "initial_value_threshold": -1.0}
    whole, weights, by_own = (tmp_path / f"{name}.h5" for name in ("m", "n.weights", "o.weights"))
    whole = whole.with_suffix(".keras")
    saving = [keras.callbacks.ModelCheckpoint(whole, **last)]
    saving += [keras.callbacks.ModelCheckpoint(weights, save_weights_only=True, **last)]
    save = lambda *_: own.model.save_weights(by_own)  # noqa: E731
    own = keras.callbacks.LambdaCallback(on_epoch_end=save)
    model, network = fitted(*saving, own, ema=ema, epochs=1)
    averages = networks.values(
        (model.network if model.averages is None else model.averages).weights
    )
    loaded = keras.models.load_model(whole)
    images = networks.images(2, 8, 8, 3)
    np.testing.assert_allclose(networks.predict(loaded, images).sum(-1), 1, rtol=1e-6)
    for path in (None, weights, by_own):
        if path:
            loaded = keras.models.clone_model(own.model)
            loaded.load_weights(path)
        np.testing.assert_equal(networks.values(loaded.weights), averages)
    assert loaded.count_params() == own.model.count_params() == network.count_params()
    assert own.model.optimizer is model.optimizer
    # Outside of the callbacks the network has the weights that are trained.
    trained = networks.values(network.weights)
    assert all(map(np.array_equal, trained, averages)) is (ema is None)


@pytest.mark.parametrize("ema", [None, 0.5])
def test_callbacks_of_users_stop_and_set_weights(ema):
    """The weights of the first epoch, which is the best by a score that falls."""
    kept = []

    class Score(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["score"] = -epoch
            kept.append(self.model.get_weights())

    best = {"mode": "max", "patience": 2, "restore_best_weights": True}
    early = keras.callbacks.EarlyStopping("score", **best)
    model, network = fitted(Score(), early, ema=ema, epochs=9)
    assert len(kept) == 3
    np.testing.assert_equal(networks.values((model.averages or network).weights), kept[0])
    assert not any(map(np.array_equal, kept[0], kept[2]))
    assert (network.weights[0].numpy() != kept[0][0]).any() == bool(ema)


@pytest.mark.parametrize("hook", ["on_train_batch_end", "on_batch_end", "on_test_begin"])
def test_error_of_a_callback_names_it(hook):
    def fail(self, *_, **__):
        raise RuntimeError("api.example.com unreachable")

    callback = type("Fails", (keras.callbacks.Callback,), {hook: fail})()
    message = rf"training.callbacks: mine:made failed in {hook} \(RuntimeError: api\.example\.com "
    with pytest.raises(ValueError, match=message + r"unreachable\); the same command resumes"):
        fitted(callback)
