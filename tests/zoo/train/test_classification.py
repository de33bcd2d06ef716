"""One run from end to end, and its parts by themselves."""

import errno
import json
import math
import os
import re
import shutil
import signal
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

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
from zoo.devices import ONLY_HOST, find_devices
from zoo.evaluate import __main__ as evaluate
from zoo.inference.classifier import predict
from zoo.inference.source.run import Run
from zoo.train import classification
from zoo.train.callbacks import SaveProgress
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.classification import ClassificationRun
from zoo.train.loop import GradientAccumulation, Lamb
from zoo.train.network import with_logits

QUICK = {"model": {"image_size": 16}, "optimizer": {"warmup_epochs": 0}, "training": {"epochs": 1}}


@contextmanager
def linear_networks():
    """Runs train a network that compiles in a second."""

    def linear(config, classes):
        return networks.linear_model((config.size, config.size, 3), classes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "create_network", linear)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Settings and results of a finished run of a small network with EMA weights."""
    config = TrainConfig(
        output_dir=tmp_path_factory.mktemp("runs") / "quick",
        model={"image_size": 8},
        data={"batch_size": 256},
        optimizer={"warmup_epochs": 0},
        training={"epochs": 1, "ema": 0.5},
    )
    with linear_networks():
        return config, classification.train(config)


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
    pairs = list(zip(model.get_weights(), expected, strict=True))
    assert all((one != other).any() for one, other in pairs)
    model.load_weights(folder / "model.weights.h5")
    for one, other in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_finished_run_is_refused_before_any_work(finished):
    class Works(ClassificationRun):
        def load(self):
            pytest.fail("work began")

    before = (finished[0].output_dir / "metrics.json").stat().st_mtime_ns
    with pytest.raises(ValueError, match="holds a finished run"):
        Works.train(finished[0])
    assert (finished[0].output_dir / "metrics.json").stat().st_mtime_ns == before


@linear_networks()
def test_run_that_is_removed_does_not_end_well(finished, tmp_path):
    config = finished[0].model_copy(update={"output_dir": tmp_path / "run"})

    class Removes(ClassificationRun):
        def fit(self, _):
            shutil.rmtree(config.output_dir)
            return finished[1]

    with pytest.raises(ValueError, match="run was removed while the run went on"):
        Removes.train(config)


REFUSED = {
    "unknown argument": ({"model": {"overrides": {"dropout_rat": 0.1}}}, "mean 'dropout_rate'"),
    "no images": ({"data": {"source": "image_folder", "dir": "nowhere"}}, "nowhere"),
    "recomputation": ({"training": {"recompute": True}}, "expected false on TensorFlow"),
    "micro-batches": (
        {"training": {"gradient_accumulation_steps": 3}},
        "multiple of 3, the number of devices times training",
    ),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_before_anything_is_written(kind, tmp_path, capsys):
    settings, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message):
        classification.train(TrainConfig(output_dir=tmp_path / "run", **settings))
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().out == ""  # the settings do not hide what is wrong


@linear_networks()
def compiled(**settings):
    settings = {"data": {"batch_size": 64}, **settings}
    config = TrainConfig(**{**settings, "model": {"image_size": 8, **settings.get("model", {})}})
    run = ClassificationRun(config, find_devices("one_device"), resumed=False)
    run.load()
    return run, run.build()


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (
            {"model": {"batch_norm_momentum": 0.99}},
            "80% are still initial values after an epoch of 22",
        ),
        ({"model": {"batch_norm_momentum": 0.9}}, None),
        (
            {"training": {"epochs": 30, "gradient_accumulation_steps": 4}},
            "30 epochs of 22 steps, 660 in all, of 64 images of 8 x 8 pixels in 4 micro-batches",
        ),
        ({}, "training images of a class: 139 (8) to 146 (1)"),
        ({}, "warning: something is odd"),
        ({"tpu_cores": 4}, "warning: this configuration is for 4 TPU cores. Received: CPU, 1 rep"),
        ({"tpu_cores": 4, "config": "some"}, "warning: some is for 4 TPU cores. Received: CPU"),
        ({"tpu_cores": 3}, None),
        (
            {"optimizer": {"layer_decay": 0.75}},
            "layers then learn little or nothing: pass --optimizer.layer_decay None",
        ),
        (
            {"optimizer": {"layer_decay": 0.75}, "model": {"freeze_backbone": True}},
            "optimizer.layer_decay and model.freeze_backbone: for pretrained",
        ),
        (
            {"model": {"freeze_up_to": "c2"}, "optimizer": {"layer_decay": 1}},
            "pass --model.freeze_up_to None",
        ),
        ({"optimizer": {"layer_decay": 1}}, None),
        ({"few": 17}, "warning: 16 training images are few for random weights: expect poor"),
        ({"few": 17, "config": "fine_tune"}, "pretrained weights (--model.weights FILE or RUN)"),
        ({"few": 17}, "pretrained weights (--config fine_tune, or --model.weights FILE or RUN)"),
        ({"few": 17}, "training images of a class: 8 of each"),
        ({"few": 16}, None),
        ({"few": 17, "model": {"weights": "imagenet"}}, None),
        ({"model": {"weights": "imagenet"}, "optimizer": {"layer_decay": 0.75}}, None),
    ],
)
def test_plan_of_a_run(monkeypatch, photos, settings, found):
    def load(*arguments, **others):
        return replace(load_data(*arguments, **others), warnings=("something is odd",))

    monkeypatch.setattr(classification, "load_data", load)
    monkeypatch.setattr(classification, "prepare", lambda *_: None)  # which loads weights
    monkeypatch.setattr(classification, "check_weights", lambda *_: None)  # which downloads them
    settings = {**settings}
    if few := settings.pop("few", None):  # 16 of the 20 are for training
        monkeypatch.setattr(classification, "FEW_IMAGES", few)
        settings["data"] = {"source": "image_folder", "dir": str(photos), "batch_size": 8}
    momentum = 0.2 if few else 0.9
    settings["model"] = {"batch_norm_momentum": momentum, **settings.get("model", {})}
    config = settings.pop("config", None)
    run, lines = compiled(**settings)
    for layer in run.model.network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = settings["model"]["batch_norm_momentum"]
    if config:
        run.config = run.config.model_copy(update={"config": config})
    lines = [*lines[:1], *run._plan()]
    assert all("\n" not in line for line in lines)
    assert len([line for line in lines if found is None or found in line]) == 1 or found is None
    if found is None:
        assert len(lines) == 4  # title, classes, steps and the warning of the data


def test_loss_and_optimizer_are_those_of_the_settings():
    """With smoothing s of k classes the true one gets 1 - s + s / k, the others s / k."""
    run, _ = compiled(
        data={"batch_size": 64, "class_weights": "balanced"},
        optimizer={"name": "lamb", "weight_decay": 0.5, "learning_rate": 0.5, "warmup_epochs": 0},
        training={
            "label_smoothing": 0.2,
            "precision": "mixed_float16",
            "gradient_accumulation_steps": 2,
            "steps_per_execution": 3,
            "ema": 0.25,
        },
    )
    optimizer = run.model.optimizer
    assert isinstance(optimizer, GradientAccumulation)
    assert optimizer.steps == 2
    assert isinstance(optimizer.inner, keras.optimizers.LossScaleOptimizer)
    lamb = optimizer.inner.inner_optimizer
    assert isinstance(lamb, Lamb)
    assert float(keras.ops.convert_to_numpy(lamb.learning_rate)) == pytest.approx(0.5 * 64 / 256)
    assert run.model.losses == []  # decoupled
    assert (run.model.steps_per_epoch, run.model.evaluation_steps) == (22, 6)
    assert (run.model.steps_per_execution, run.model.averages.decay) == (3, 0.25)
    probabilities = np.full((1, 10), 0.05, "float32")
    probabilities[0, 3] = 0.55
    expected = -0.82 * np.log(0.55) - 9 * 0.02 * np.log(0.05)
    counts = np.bincount(run.data.train.labels)
    weights = 1437 / (10 * counts)
    for training in (True, False):
        loss = run.model.compute_loss(
            None, np.eye(10, dtype="float32")[[3]], np.log(probabilities), training=training
        )
        assert float(loss) == pytest.approx(expected * (weights[3] if training else 1), rel=1e-5)
    own = {"pseudo": None, "ratio": 3, "label_smoothing": 0.2}
    run.data = replace(run.data, train=WithPseudoLabels(**vars(run.data.train), **own))
    objective = run._objective()  # whose labels are smoothed already
    assert (objective.factor, objective.loss.label_smoothing) == (4, 0.0)


@pytest.mark.parametrize(
    ("weight_decay_on", "names"),
    [("kernels", {"kernel"}), ("all_but_batch_norm", {"kernel", "bias"})],
)
def test_l2_is_of_the_variables_of_the_settings(weight_decay_on, names):
    settings = {"weight_decay": 0.5, "weight_decay_on": weight_decay_on, "warmup_epochs": 1}
    run, _ = compiled(optimizer=settings)
    found = [one for one in run.model.trainable_variables if one.regularizer is not None]
    assert {one.name for one in found} == names
    assert len(found) == len(run.model.losses) == 2 * len(names)  # convolution and classifier
    assert [float(one.regularizer.l2) for one in found] == [0.25] * len(found)


def test_several_devices_cannot_compile_with_xla():
    devices = SimpleNamespace(strategy=tf.distribute.get_strategy(), replicas=1)
    config = TrainConfig(training={"jit_compile": True})
    with pytest.raises(ValueError, match=r"training\.jit_compile: expected false on several"):
        ClassificationRun(config, devices, resumed=False).load()


def test_every_host_finds_the_same_checkpoint(tmp_path):
    devices = SimpleNamespace(gather=lambda step: [step, 0], chief=True)
    run = ClassificationRun(TrainConfig(output_dir=tmp_path), devices, resumed=True)
    variable = keras.Variable([1.0])
    run.model = SimpleNamespace(state=[variable], steps_per_epoch=22)
    Checkpoints(tmp_path / "checkpoints", [variable]).save(Progress(4))
    with pytest.raises(ValueError, match=r"last steps \[4, 0\] in .* on the 2 hosts"):
        run._restore()
    run.devices = SimpleNamespace(gather=lambda step: [step, step], chief=True)
    assert run._restore()[1] == Progress(4)
    assert run.model.steps_done == 4


@pytest.mark.parametrize(
    ("step", "resumed"), [(0, False), (4, True), (21, True), (22, False), (23, True), (44, False)]
)
def test_metrics_of_an_interrupted_epoch_go_on(tmp_path, step, resumed):
    """Not those of the epoch before."""
    devices = SimpleNamespace(gather=lambda step: [step], chief=True)
    run = ClassificationRun(TrainConfig(output_dir=tmp_path), devices, resumed=True)
    variable = keras.Variable([1.0])
    run.model = SimpleNamespace(state=[variable], steps_per_epoch=22, resumed=None)
    Checkpoints(tmp_path / "checkpoints", [variable]).save(Progress(step))
    run._restore()
    assert run.model.resumed is resumed


@pytest.mark.one_backend
def test_line_of_an_epoch_that_a_killed_run_did_not_write(tmp_path):
    devices = SimpleNamespace(chief=True)
    run = ClassificationRun(TrainConfig(output_dir=tmp_path), devices, resumed=True)
    run.callbacks = []
    run.data = SimpleNamespace(
        train=SimpleNamespace(sample=lambda _: (np.zeros((1, 8, 8, 3), "float32"), None))
    )
    history = [{"loss": 1.5}, {"loss": 0.5}]
    run._callbacks(SimpleNamespace(progress=Progress(44, history, [22, 44])))
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
@pytest.mark.parametrize("patience", [None, 1])
def test_rest_of_an_interrupted_run(done, patience, monkeypatch):
    calls, (step, epochs) = [], done
    progress = Progress(step, [{"val_accuracy": 0.5}] * epochs, [0] * epochs)

    def fit(data, *, initial_epoch, epochs, steps_per_epoch, validation_steps, **_):
        (first_step, parts), size = data
        assert (parts, size, validation_steps) == (4, 16, 6)
        calls.append((first_step, initial_epoch, epochs, steps_per_epoch))
        progress.step = epochs * 22
        progress.history.append({"val_accuracy": 0.25})

    settings = {"epochs": 3, "gradient_accumulation_steps": 4, "early_stopping_epochs": patience}
    config = TrainConfig(training=settings, optimizer={"warmup_epochs": 0})
    run = ClassificationRun(config, None, resumed=True)
    run.classes = 10
    run.devices = SimpleNamespace(distribute=lambda batches, size: (batches(ONLY_HOST), size))
    train = SimpleNamespace(
        batches=lambda size, classes, first_step, host, parts: (first_step, parts),
        step_size=lambda size: size,
    )
    run.data = SimpleNamespace(train=train, test=SimpleNamespace(batches=lambda *_: None))
    run.model = SimpleNamespace(
        steps_per_epoch=22, evaluation_steps=6, fit=fit, stop_training=False
    )
    monkeypatch.setattr(
        classification,
        "_evaluate_again",
        lambda model, test, epoch, _: calls.append(f"evaluation of epoch {epoch}"),
    )
    run._fit_epochs(progress, [])
    assert calls == ([] if patience and done == (50, 2) else FIT[done])  # no better than before


def test_callback_that_ends_the_rest_of_an_epoch_ends_the_training():
    run, _ = compiled(training={"epochs": 9})
    run.model.steps_per_epoch, calls = 22, []

    def fit(*_, **__):
        calls.append(1)
        run.model.stop_training = True

    run.model.fit = fit
    run._fit_epochs(Progress(8), [])
    assert calls == [1]


def test_callbacks_see_the_network_of_a_run():
    """As the registry has it, whatever the run trains."""
    run, _ = compiled(training={"callbacks": ["keras.callbacks:Callback"]})
    (callback,) = run.callbacks
    callback.set_model(run.model)
    assert isinstance(callback.model, keras.src.models.functional.Functional)
    assert callback.model.layers[-1].activation is keras.activations.softmax
    assert callback.model.weights == run.model.network.weights


@pytest.mark.parametrize(("patience", "epoch"), [(None, 2), (3, 1)])
def test_metrics_are_of_the_epoch_that_is_kept(patience, epoch):
    config = TrainConfig(training={"early_stopping_epochs": patience})
    run = ClassificationRun(config, SimpleNamespace(replicas=1), resumed=False)
    run.data = SimpleNamespace(class_names="ab")
    run.metrics = lambda test, *_, **__: test
    history = [{"val_accuracy": value, "val_loss": value} for value in (0.25, 0.75, 0.5)]
    received = run._metrics(Progress(66, history, [1] * 3))
    assert received == {"accuracy": history[epoch]["val_accuracy"], "loss": received["accuracy"]}


@pytest.mark.parametrize("callbacks", [[], ["keras.callbacks:TerminateOnNaN"]])
def test_metrics_are_of_the_weights_that_callbacks_left(capsys, callbacks):
    settings = {"callbacks": callbacks, "label_smoothing": 0}
    run, _ = compiled(training=settings)
    # One of them has set other weights since the last evaluation, in the middle of an epoch.
    run.model.network.weights[-1].assign(np.eye(10)[3] * 100)
    run.model.steps_done = 1
    history = [
        {"val_accuracy": 0.25, "val_loss": 1.0},
        {"val_accuracy": 0.125, "val_loss": math.inf},
    ]
    metrics = run._metrics(Progress(2, history, [1, 2], 1.26))
    assert metrics["history"] == {"val_accuracy": [0.25, 0.125], "val_loss": [1.0, None]}
    assert metrics["training_seconds"] == 1.3
    _, labels = run.data.test.sample(1000)
    expected = (labels == 3).mean() if callbacks else 0.125
    assert metrics["test"]["accuracy"] == pytest.approx(expected, abs=1e-6)
    assert metrics["test"]["loss"] is None if not callbacks else metrics["test"]["loss"] > 10
    assert "the test loss is not finite after epoch 2: lower" in capsys.readouterr().out


@pytest.mark.parametrize("own", [True, False])
def test_events_that_cannot_be_written_are_one_line(own):
    error = tf.errors.UnknownError(None, None, "Failed to flush 1 events to x.tfevents.1\n\tmore")
    other = tf.errors.UnknownError(None, None, "something else")
    with (
        pytest.raises(OSError if own else tf.errors.UnknownError, match=r"events to logs|else"),
        classification._naming_events("logs"),
    ):
        raise error if own else other


class Steps(keras.callbacks.Callback):
    """A callback of a user, imported from this module."""

    seen: ClassVar[list[int]] = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(int(ops.convert_to_numpy(self.model.optimizer.iterations)))


MODERN = {
    "data": {
        "batch_size": 64,
        "mixup": 0.4,
        "cutmix": 1,
        "random_erasing": 0.3,
        "color_jitter": 0.4,
        "class_weights": "balanced",
    },
    "optimizer": {
        "name": "lamb",
        "learning_rate": 0.02,
        "weight_decay": 0.02,
        "layer_decay": 0.8,
        "global_clipnorm": 1,
        "warmup_epochs": 1,
    },
    "training": {
        "epochs": 2,
        "ema": 0.9,
        "loss": "binary_crossentropy",
        "gradient_accumulation_steps": 4,
        "steps_per_execution": 4,
        "checkpoint_steps": 8,
        "callbacks": [f"{__name__}:Steps"],
    },
}
PSEUDO = {
    "data": {"batch_size": 256, "pseudo": {"ratio": 0.5}},
    "optimizer": {"warmup_epochs": 0},
    "training": {"epochs": 2, "checkpoint_steps": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "ends", "seen"),
    [
        (MODERN, {12: 16, 30: 34}, [4, 8, 12, 16, 20, 22, 26, 30, 34, 38, 42, 44]),
        (PSEUDO, {6: 7}, []),
    ],
    ids=["modern", "pseudo-labels"],
)
@linear_networks()
def test_interrupted_run_gives_the_same_weights(
    tmp_path, monkeypatch, capsys, settings, ends, seen
):
    """With a teacher: adding up gradients, mixing images, LAMB, weights of classes, callbacks."""

    def load_teacher(*_):
        return with_logits(networks.linear_model())

    monkeypatch.setattr(classification, "load_teacher", load_teacher)
    settings = {"model": {"image_size": 8}, **settings}
    if settings["data"].get("pseudo"):
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (200, 8, 8, 3), "uint8")
        labels = rng.dirichlet(np.ones(10), 200)
        write_selection(tmp_path / "selected", images, labels, [str(i) for i in range(10)])
        pseudo = {**settings["data"]["pseudo"], "dir": tmp_path / "selected"}
        settings["data"] = {**settings["data"], "pseudo": pseudo}
    whole, folder = (TrainConfig(output_dir=tmp_path / name, **settings) for name in ("a", "b"))
    Steps.seen.clear()
    metrics = classification.train(whole)
    assert Steps.seen == seen
    assert metrics["history"]["loss"][1] < metrics["history"]["loss"][0]
    output = capsys.readouterr().out
    assert ("128 of 200 pseudo-labeled images in every step" in output) is (
        settings["data"] != MODERN["data"]
    )
    for step, stopped in ends.items():

        def terminate(self, batch, logs=None, step=step):
            if self.model.steps_done == step:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(SaveProgress, "on_train_batch_begin", terminate)
            with pytest.raises(SystemExit, match=f"stopped at step {stopped}"):
                classification.train(folder)
    again = classification.train(folder)
    assert f"resuming after step {stopped} of" in capsys.readouterr().out
    assert again["history"]["val_loss"] == metrics["history"]["val_loss"]
    network = networks.linear_model()
    for path in whole.output_dir.glob("*.weights.h5"):
        network.load_weights(path)
        expected = network.get_weights()
        network.load_weights(folder.output_dir / path.name)
        for one, other in zip(expected, network.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@linear_networks()
def test_full_disk_at_any_file(tmp_path, monkeypatch):
    """The error names the file, nothing is half written, and the same command resumes the run."""
    config = TrainConfig(
        output_dir=tmp_path / "run",
        model={"image_size": 8},
        optimizer={"warmup_epochs": 0},
        training={"epochs": 1, "ema": 0.5},
    )
    written = ("step-000000022.safetensors", "epochs.jsonl", "raw.weights.h5", "model.weights.h5")
    written += ("model.keras", "curves.png", "predictions.png", "metrics.json")
    for name in ("config.yaml", *written):

        def full(source, target, name=name):
            if target.name == name:
                raise OSError(errno.ENOSPC, "No space left on device")
            source.rename(target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises((OSError, ValueError), match="No space left on device") as caught:
                classification.train(config)
        assert name in str(caught.value)
        left = [path.name for path in config.output_dir.rglob("*")]
        assert name not in left
        assert not [path for path in left if path.startswith(".partial")]
    classification.train(config)
    assert (config.output_dir / "metrics.json").is_file()


@pytest.mark.slow
def test_early_stopping_keeps_the_best_weights(tmp_path, monkeypatch):
    """A rate that is far too high: the first epochs are the best ones."""
    tiny = partial(networks.tiny_model, (8, 8, 3), classes=10, classifier_activation="softmax")
    monkeypatch.setattr(classification, "create_network", lambda *_: tiny())
    config = TrainConfig(
        output_dir=tmp_path / "run",
        model={"image_size": 8},
        optimizer={"learning_rate": 0.5, "warmup_epochs": 0},
        training={"epochs": 30, "early_stopping_epochs": 1, "delete_checkpoint": False},
    )
    metrics = classification.train(config)
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


@pytest.mark.slow
def test_run_in_a_bucket(bucket, tmp_path, monkeypatch, capsys):
    """Interrupted, it resumes; commands read the finished run where it is."""
    run, config = tmp_path / "run", TrainConfig(output_dir=f"{bucket}/runs/quick", **QUICK)
    classification.train(config.model_copy(update={"output_dir": run}))

    def terminate(self, batch, logs=None):
        if self.model.steps_done == 9:
            os.kill(os.getpid(), signal.SIGTERM)

    def terminate_evaluation(self, batch, logs=None):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(SaveProgress, "on_train_batch_begin", terminate)
    with pytest.raises(SystemExit, match="stopped at step 10"):
        classification.train(config)
    with monkeypatch.context() as patch:
        patch.setattr(SaveProgress, "on_test_batch_begin", terminate_evaluation)
        with pytest.raises(SystemExit, match="stopped at step 22"):
            classification.train(config)
    classification.train(config)
    output = capsys.readouterr().out
    assert "resuming after step 10 of 22" in output
    assert "resuming after step 22 of 22" in output
    with pytest.raises(ValueError, match="holds a finished run"):
        classification.train(config)

    folder = config.output_dir
    rows = [json.loads((place / "epochs.jsonl").read_text()) for place in (run, folder)]
    for row in rows:
        del row["images_per_second"]
    assert rows[0] == rows[1]  # of the whole epoch
    assert str(folder) == f"{bucket}/runs/quick"
    assert run_folder.load_config(folder).model_dump() == config.model_dump()
    expected = {path.name for path in run.iterdir()}
    assert {path.name for path in folder.iterdir()} == expected
    assert len(list((folder / "logs" / "train").glob("events*"))) == 3
    model = Run(folder).load().model
    whole = Run(run).load().model
    for one, other in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    evaluate.main(["--run", str(folder)])
    accuracy = json.loads((run / "metrics.json").read_text())["test"]["accuracy"]
    assert f"{accuracy:.4f}" in capsys.readouterr().out
