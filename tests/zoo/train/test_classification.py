"""One run from end to end, and its parts by themselves."""

import errno
import json
import math
import os
import re
import shutil
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from PIL import Image
from support import networks
from support.pseudo_labels import write_selection

from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.data.pseudo import WithPseudoLabels
from zoo.devices import ONLY_HOST, Devices, find_devices
from zoo.inference.classifier import predict
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.classification import ClassificationRun, naming_events, train
from zoo.train.network import with_logits


class LinearRun(ClassificationRun):
    """Trains a network that compiles in a second."""

    @staticmethod
    def create_network(config, classes):
        return networks.linear_model((config.size, config.size, 3), classes)


def parse(words: str, folder="runs/new") -> TrainConfig:
    return TrainConfig.from_command_line([*words.split(), "--output_dir", str(folder)])


SMALL = "--model.image_size 8 --optimizer.warmup_epochs 0 "


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Settings and results of a finished run of a small network with EMA weights."""
    words = f"{SMALL} --data.batch_size 256 --training.epochs 1 --training.ema 0.5"
    config = parse(words, tmp_path_factory.mktemp("runs") / "quick")
    return config, LinearRun.train(config)


def test_run_folder_is_complete(finished):
    folder = finished[0].output_dir
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    events = {name for name in names if re.match(r"logs/(train|validation|augmented)/ev.*", name)}
    assert len(events) == 3
    written = "config.yaml curves.png epochs.jsonl metrics.json model.keras model.weights.h5"
    assert names - events == {*written.split(), "predictions.png", "raw.weights.h5"}
    for name in ("curves.png", "predictions.png"):
        with Image.open(folder / name) as image:
            image.verify()
    assert run_folder.load_config(folder).model_dump() == finished[0].model_dump()
    assert json.loads((folder / "metrics.json").read_text()) == finished[1]


def test_metrics_are_those_of_the_saved_model(finished):
    (config, metrics), folder = finished, finished[0].output_dir
    model = keras.models.load_model(folder / "model.keras")
    images, labels = load_data(config.data, 8).test.sample(1000)
    probabilities = predict(model, images)
    accuracy = (probabilities.argmax(-1) == labels).mean()
    assert metrics["test"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert metrics["test"].keys() == {"accuracy", "loss", "top5_accuracy"}
    # Of images, not of batches, of which 104 images and padding are the last one.
    smoothed = 0.9 * np.eye(10)[labels] + 0.1 / 10
    loss = -(smoothed * np.log(probabilities)).sum(-1).mean()
    assert metrics["test"]["loss"] == pytest.approx(loss, rel=1e-4)
    assert metrics["history"]["val_accuracy"] == [pytest.approx(accuracy, abs=1e-6)]
    assert (metrics["training_images"], metrics["test_images"], len(images)) == (1437, 360, 360)
    trainable = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    assert metrics["trainable_parameters"] == trainable
    (epoch,) = map(json.loads, (folder / "epochs.jsonl").read_text().splitlines())
    assert (epoch["epoch"], epoch["step"], epoch["val_loss"]) == (1, 5, metrics["test"]["loss"])
    # The EMA weights are in both files; those of the last step beside them.
    expected = model.get_weights()
    model.load_weights(folder / "raw.weights.h5")
    assert not any(map(np.array_equal, model.get_weights(), expected))
    model.load_weights(folder / "model.weights.h5")
    np.testing.assert_equal(model.get_weights(), expected)


def test_finished_run_is_refused_before_any_work(finished, monkeypatch):
    monkeypatch.setattr(LinearRun, "load", None)  # a call would be a TypeError
    with pytest.raises(ValueError, match="holds a finished run"):
        LinearRun.train(finished[0])


def test_run_that_is_removed_does_not_end_well(finished, tmp_path):
    config = finished[0].model_copy(update={"output_dir": tmp_path / "run"})

    class Removes(LinearRun):
        def fit(self, _):
            shutil.rmtree(config.output_dir)
            return finished[1]

    with pytest.raises(ValueError, match="run was removed while the run went on"):
        Removes.train(config)


REFUSED = {
    "--model.overrides dropout_rat=0.1": r"network has \('dropout_rate'\)",
    "--data.source image_folder --data.dir nowhere": "nowhere",
    "--training.recompute true": "expected false on TensorFlow",
    "--training.gradient_accumulation_steps 3": "multiple of 3, the number of devices times train",
}


@pytest.mark.one_backend
@pytest.mark.parametrize("words", REFUSED)
def test_refused_before_anything_is_written(words, tmp_path, capsys):
    with pytest.raises(ValueError, match=REFUSED[words]):
        train(parse(words, tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().out == ""  # the settings do not hide what is wrong


def compiled(words="", kind=LinearRun):
    config = parse(f"--model.image_size 8 --data.batch_size 64 {words}")
    run = kind(config, find_devices("one_device"), resumed=False)
    run.load()
    run.build()
    return run


DECAY, FREEZE = "--optimizer.layer_decay 0.75", "--model.freeze_backbone true"
PARTS = "--training.epochs 30 --training.gradient_accumulation_steps 4"
IMAGENET = "--model.weights imagenet"
# Settings, and what one line of the plan says; None: there are three lines without a warning.
PLAN = [
    ("--model.batch_norm_momentum 0.99", "80% are still initial values after an epoch of 22"),
    ("--model.batch_norm_momentum 0.9", None),
    (PARTS, "30 epochs of 22 steps, 660 in all, of 64 images of 8 x 8 pixels in 4 micro-batches"),
    ("", "training images of a class: 139 (8) to 146 (1)"),
    ("", "warning: something is odd"),
    ("--tpu_cores 4", "warning: this configuration is for 4 TPU cores. Received: CPU, 1 rep"),
    ("--tpu_cores 4 CONFIG", "warning: fine_tune is for 4 TPU cores. Received: CPU"),
    ("--tpu_cores 3", None),
    (DECAY, "layers then learn little or nothing: pass --optimizer.layer_decay None"),
    (f"{DECAY} {FREEZE}", "optimizer.layer_decay and model.freeze_backbone: for pretrained"),
    ("--model.freeze_up_to c2 --optimizer.layer_decay 1", "pass --model.freeze_up_to None"),
    ("--optimizer.layer_decay 1", None),
    ("FEW", "warning: 16 training images are few for random weights: expect poor"),
    ("FEW CONFIG", "pretrained weights (--model.weights FILE or RUN)"),
    ("FEW", "pretrained weights (--config fine_tune, or --model.weights FILE or RUN)"),
    ("FEW", "training images of a class: 8 of each"),
    ("ENOUGH", None),
    (f"FEW {IMAGENET}", None),
    (f"{IMAGENET} {DECAY}", None),
]


@pytest.mark.parametrize(("words", "found"), PLAN)
def test_plan_of_a_run(photos, words, found):
    class Planned(LinearRun):
        enough_images = 17 if "FEW" in words else 16  # of which 16 of the 20 are for training

        def load(self):
            super().load()
            self.data = replace(self.data, warnings=("something is odd",))

    momentum, images = "0.9", "--data.batch_size 64"
    if "FEW" in words or "ENOUGH" in words:
        momentum, images = "0.2", f"--data.source image_folder --data.dir {photos}"
        images += " --data.batch_size 8"
    others = re.sub("[A-Z]{3,}", "", words)  # of which the last momentum counts
    config = parse(f"{SMALL} {images} --model.batch_norm_momentum {momentum} {others}")
    if "CONFIG" in words:
        config = config.model_copy(update={"config": "fine_tune"})
    model = config.model.model_copy(update={"weights": None})  # which would be downloaded
    run = Planned(config.model_copy(update={"model": model}), find_devices("one_device"), False)
    run.load()
    assert "trainable parameters" in run.build()[0]
    run.config = config
    lines = list(run.plan())
    assert all("\n" not in line for line in lines)
    # Where nothing is looked for, there are classes, steps and the warning of the data.
    assert sum((found or "") in line for line in lines) == (1 if found else 3)


def test_loss_and_optimizer_are_those_of_the_settings():
    """With smoothing s of k classes the true one gets 1 - s + s / k, the others s / k."""
    run = compiled(
        "--data.class_weights balanced --optimizer.name lamb --optimizer.weight_decay 0.5 "
        "--optimizer.learning_rate 0.5 --optimizer.warmup_epochs 0 --training.label_smoothing 0.2 "
        "--training.precision mixed_float16 --training.gradient_accumulation_steps 2 "
        "--training.steps_per_execution 3 --training.ema 0.25"
    )
    optimizer, model = run.model.optimizer, run.model
    lamb = optimizer.inner.inner_optimizer
    kinds = [type(one).__name__ for one in (optimizer, optimizer.inner, lamb)]
    assert kinds == ["GradientAccumulation", "LossScaleOptimizer", "Lamb"]
    assert optimizer.steps == 2
    assert float(keras.ops.convert_to_numpy(lamb.learning_rate)) == pytest.approx(0.5 * 64 / 256)
    assert model.losses == []  # decoupled
    assert (model.steps_per_epoch, model.evaluation_steps) == (22, 6)
    assert (model.steps_per_execution, model.averages.decay) == (3, 0.25)
    probabilities = np.full((1, 10), 0.05, "float32")
    probabilities[0, 3] = 0.55
    expected = -0.82 * np.log(0.55) - 9 * 0.02 * np.log(0.05)
    weights = 1437 / (10 * np.bincount(run.data.train.labels))
    labels, logits = np.eye(10, dtype="float32")[[3]], np.log(probabilities)
    for training in (True, False):
        loss = model.compute_loss(None, labels, logits, training=training)
        assert float(loss) == pytest.approx(expected * (weights[3] if training else 1), rel=1e-5)
    own = {"pseudo": None, "ratio": 3, "label_smoothing": 0.2}
    run.data = replace(run.data, train=WithPseudoLabels(**vars(run.data.train), **own))
    objective = run.objective()  # whose labels are smoothed already
    assert (objective.factor, objective.loss.label_smoothing) == (4, 0.0)


@pytest.mark.parametrize(
    ("weight_decay_on", "names"),
    [("kernels", {"kernel"}), ("all_but_batch_norm", {"kernel", "bias"})],
)
def test_l2_is_of_the_variables_of_the_settings(weight_decay_on, names):
    words = f"--optimizer.weight_decay 0.5 --optimizer.weight_decay_on {weight_decay_on}"
    model = compiled(words).model
    found = [one for one in model.trainable_variables if one.regularizer is not None]
    assert {(one.name, float(one.regularizer.l2)) for one in found} == {(n, 0.25) for n in names}
    assert len(found) == len(model.losses) == 2 * len(names)  # convolution and classifier


def test_what_several_devices_cannot_do():
    several = Devices(2, ONLY_HOST, "CPU", tf.distribute.get_strategy())
    for words, message in (
        ("--training.jit_compile true", r"training\.jit_compile: expected false on several"),
        ("--data.batch_size 63", r"data\.batch_size: expected a multiple of 2"),
    ):
        with pytest.raises(ValueError, match=message):
            ClassificationRun(parse(words), several, resumed=False).load()


@pytest.fixture
def resumed(tmp_path):
    """Creates a run from a checkpoint after steps of epochs of 22; another host has its own."""

    def create(step, of_other):
        devices: Any = SimpleNamespace(chief=True, gather=lambda own: [own, of_other])
        run = ClassificationRun(TrainConfig(output_dir=tmp_path), devices, resumed=True)
        variable = keras.Variable([1.0])
        run.model = SimpleNamespace(state=[variable], steps_per_epoch=22)
        Checkpoints(tmp_path / "checkpoints", [variable]).save(Progress(step))
        return run

    return create


@pytest.mark.parametrize(
    ("step", "goes_on"), [(0, False), (4, True), (21, True), (22, False), (23, True), (44, False)]
)
def test_metrics_of_an_interrupted_epoch_go_on(resumed, step, goes_on):
    """Not those of the epoch before."""
    run = resumed(step, step)
    assert run.restore()[1] == Progress(step)
    assert (run.model.steps_done, run.model.resumed) == (step, goes_on)


def test_every_host_finds_the_same_checkpoint(resumed):
    with pytest.raises(ValueError, match=r"last steps \[4, 0\] in .* on the 2 hosts"):
        resumed(4, 0).restore()


@pytest.mark.one_backend
def test_line_of_an_epoch_that_a_killed_run_did_not_write(tmp_path):
    run = ClassificationRun(TrainConfig(output_dir=tmp_path), Devices(1, ONLY_HOST, "CPU"), True)
    image = np.zeros((1, 8, 8, 3), "float32")
    run.data = SimpleNamespace(train=SimpleNamespace(sample=lambda _: (image, None)))
    history = [{"loss": 1.5}, {"loss": 0.5}]
    run.all_callbacks(SimpleNamespace(progress=Progress(44, history, [22, 44])))
    lines = (tmp_path / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [1.5, 0.5]


FIT = {  # steps and epochs done: step of the images, epochs and steps of each call of fit
    (0, 0): [(0, 0, 3, 22)],
    (8, 0): [(8, 0, 1, 14), (22, 1, 3, 22)],
    (22, 0): ["evaluation of epoch 0", (22, 1, 3, 22)],
    (22, 1): [(22, 1, 3, 22)],
    (50, 2): [(50, 2, 3, 16)],
    (66, 2): ["evaluation of epoch 2"],
    (66, 3): [],
}


@pytest.mark.parametrize("done", FIT)
@pytest.mark.parametrize(("patience", "stops"), [(None, False), (1, False), (None, True)])
def test_rest_of_an_interrupted_run(done, patience, stops):
    calls, expected, (step, epochs) = [], FIT[done], done
    if patience and done == (50, 2):
        expected = []  # no better than before
    if stops and done == (8, 0):  # by a callback, in the rest of an epoch
        expected = expected[:1]
    progress = Progress(step, [{"val_accuracy": 0.5}] * epochs, [0] * epochs)

    def fit(data, *, initial_epoch, epochs, steps_per_epoch, validation_steps, **_):
        (first_step, parts), size = data
        assert (parts, size, validation_steps) == (4, 16, 6)
        calls.append((first_step, initial_epoch, epochs, steps_per_epoch))
        progress.step = epochs * 22
        progress.history.append({"val_accuracy": 0.25})
        run.model.stop_training = stops

    words = "--training.epochs 3 --training.gradient_accumulation_steps 4"
    config = parse(f"{SMALL} {words} --training.early_stopping_epochs {patience}")
    devices = SimpleNamespace(distribute=lambda batches, size: (batches(ONLY_HOST), size))
    run = ClassificationRun(config, devices, resumed=True)
    run.evaluate_again = lambda _, epoch, __: calls.append(f"evaluation of epoch {epoch}")
    run.classes = 10
    train = SimpleNamespace(
        batches=lambda size, classes, first_step, host, parts, normalize: (first_step, parts),
        step_size=lambda size: size,
    )
    run.data = SimpleNamespace(train=train, test=SimpleNamespace(batches=lambda *_, **__: None))
    model = {"steps_per_epoch": 22, "evaluation_steps": 6, "fit": fit, "stop_training": False}
    run.model = SimpleNamespace(**model)
    run.fit_epochs(progress, [])
    assert calls == expected


def test_callbacks_see_the_network_of_a_run():
    """As the registry has it, whatever the run trains."""
    run = compiled("--training.callbacks keras.callbacks:Callback")
    (callback,) = run.callbacks
    callback.set_model(run.model)
    assert isinstance(callback.model, keras.src.models.functional.Functional)
    assert callback.model.layers[-1].activation is keras.activations.softmax
    assert callback.model.weights == run.model.network.weights


CALLBACKS = "--training.callbacks keras.callbacks:TerminateOnNaN"


@pytest.mark.parametrize("words", ["", "--training.early_stopping_epochs 3", CALLBACKS])
def test_metrics_are_of_the_epoch_that_is_kept_or_the_weights_that_callbacks_left(capsys, words):
    """The last epoch, or the best one if that ends a run."""
    run = compiled(f"--training.label_smoothing 0 {words}")
    # One of them has set other weights since the last evaluation, in the middle of an epoch.
    run.model.network.weights[-1].assign(np.eye(10)[3] * 100)
    run.model.steps_done = 1
    values = {"val_accuracy": [0.25, 0.125], "val_loss": [1.0, math.inf]}
    history = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    metrics = run.results(Progress(2, history, [1, 2], 1.26))
    assert metrics["history"] == values | {"val_loss": [1.0, None]}
    assert metrics["training_seconds"] == 1.3
    _, labels = run.data.test.sample(1000)
    accuracy, loss = metrics["test"]["accuracy"], metrics["test"]["loss"]
    expected = (labels == 3).mean() if words == CALLBACKS else 0.25 if words else 0.125
    assert accuracy == pytest.approx(expected, abs=1e-6)
    assert loss > 10 if words == CALLBACKS else loss == (1 if words else None)
    assert "the test loss is not finite after epoch 2: lower" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Failed to flush 1 events to x.tfevents.1\n\tmore", OSError, "events to logs"),
        ("something else", tf.errors.UnknownError, "else"),
    ],
)
def test_events_that_cannot_be_written_are_one_line(text, kind, message):
    with pytest.raises(kind, match=message), naming_events("logs"):
        raise tf.errors.UnknownError(None, None, text)


class Steps(keras.callbacks.Callback):
    """A callback of a user, imported from this module."""

    seen: ClassVar[list[int]] = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(int(ops.convert_to_numpy(self.model.optimizer.iterations)))


MODERN = (
    "--model.image_size 8 --data.batch_size 64 --data.mixup 0.4 --data.cutmix 1 "
    "--data.random_erasing 0.3 --data.color_jitter 0.4 --data.class_weights balanced "
    "--optimizer.name lamb --optimizer.learning_rate 0.02 --optimizer.weight_decay 0.02 "
    "--optimizer.layer_decay 0.8 --optimizer.global_clipnorm 1 --optimizer.warmup_epochs 1 "
    "--training.epochs 2 --training.ema 0.9 --training.loss binary_crossentropy "
    "--training.gradient_accumulation_steps 4 --training.steps_per_execution 4 "
    f"--training.checkpoint_steps 8 --training.callbacks {__name__}:Steps"
)
PSEUDO = (
    f"{SMALL} --data.batch_size 256 --data.pseudo.ratio 0.5 --data.pseudo.dir FOLDER "
    "--training.epochs 2 --training.checkpoint_steps 1"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "ends", "seen"),
    [
        (MODERN, {12: 16, 30: 34}, [4, 8, 12, 16, 20, 22, 26, 30, 34, 38, 42, 44]),
        (PSEUDO, {6: 7}, []),
    ],
    ids=["modern", "pseudo-labels"],
)
def test_interrupted_run_gives_the_same_weights(tmp_path, capsys, words, ends, seen):
    """With a teacher: adding up gradients, mixing images, LAMB, weights of classes, callbacks."""

    class Taught(LinearRun):
        step = None  # before which it gets a signal

        @staticmethod
        def load_teacher(*_):
            return with_logits(networks.linear_model())

        def all_callbacks(self, save):
            def terminate(*_, **__):
                if self.model.steps_done == self.step:
                    os.kill(os.getpid(), signal.SIGTERM)

            signals = keras.callbacks.LambdaCallback(on_train_batch_begin=terminate)
            return [*super().all_callbacks(save), signals]

    if words is PSEUDO:
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (200, 8, 8, 3), "uint8")
        labels = rng.dirichlet(np.ones(10), 200)
        write_selection(tmp_path / "selected", images, labels, [str(i) for i in range(10)])
    words = words.replace("FOLDER", str(tmp_path / "selected"))
    whole, folder = (parse(words, tmp_path / name) for name in ("a", "b"))
    Steps.seen.clear()
    metrics = Taught.train(whole)
    assert Steps.seen == seen
    assert metrics["history"]["loss"][1] < metrics["history"]["loss"][0]
    output = capsys.readouterr().out
    assert ("128 of 200 pseudo-labeled images in every step" in output) is ("pseudo" in words)
    for Taught.step, stopped in ends.items():
        with pytest.raises(SystemExit, match=f"stopped at step {stopped}"):
            Taught.train(folder)
    Taught.step = None
    again = Taught.train(folder)
    assert f"resuming after step {stopped} of" in capsys.readouterr().out
    assert again["history"]["val_loss"] == metrics["history"]["val_loss"]
    one, other = networks.linear_model(), networks.linear_model()
    for path in whole.output_dir.glob("*.weights.h5"):
        one.load_weights(path)
        other.load_weights(folder.output_dir / path.name)
        np.testing.assert_equal(one.get_weights(), other.get_weights())


@pytest.mark.slow
def test_full_disk_at_any_file(tmp_path, monkeypatch):
    """The error names the file, nothing is half written, and the same command resumes the run."""
    config = parse(f"{SMALL} --training.epochs 1 --training.ema 0.5", tmp_path / "run")
    names = (
        "config.yaml step-000000022.safetensors epochs.jsonl raw.weights.h5 model.weights.h5 "
        "model.keras curves.png predictions.png metrics.json"
    )
    for name in names.split():

        def full(source, target, name=name):
            if target.name == name:
                raise OSError(errno.ENOSPC, "No space left on device")
            source.rename(target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises((OSError, ValueError), match="No space left on device") as caught:
                LinearRun.train(config)
        assert name in str(caught.value)
        left = [path.name for path in config.output_dir.rglob("*")]
        assert not [path for path in left if path == name or path.startswith(".partial")]
    LinearRun.train(config)
    assert (config.output_dir / "metrics.json").is_file()


@pytest.mark.slow
def test_early_stopping_keeps_the_best_weights(tmp_path):
    """A rate that is far too high: the first epochs are the best ones."""
    words = "--optimizer.learning_rate 0.5 --training.epochs 30 --training.delete_checkpoint false"
    config = parse(f"{SMALL} {words} --training.early_stopping_epochs 1", tmp_path / "run")
    metrics = LinearRun.train(config)
    files = list((tmp_path / "run" / "checkpoints").iterdir())
    assert 2 <= len(files) <= 4  # the last three and the best
    accuracies = metrics["history"]["val_accuracy"]
    assert 2 <= len(accuracies) < 30
    assert accuracies[-1] <= max(accuracies[:-1])
    assert metrics["test"]["accuracy"] == pytest.approx(max(accuracies), abs=1e-6)
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    images, labels = load_data(config.data, 8).test.sample(1000)
    accuracy = (predict(model, images).argmax(-1) == labels).mean()
    assert accuracy == pytest.approx(max(accuracies), abs=1e-6)
