"""One run from end to end."""

import errno
import json
import math
import os
import re
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import networks
from support.pseudo_labels import write_selection

from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.devices import find_devices
from zoo.evaluate import __main__ as evaluate
from zoo.inference.classifier import predict
from zoo.inference.source.run import Run
from zoo.train import classification
from zoo.train.callbacks import SaveProgress
from zoo.train.checkpoints import Progress
from zoo.train.classification import ClassificationRun
from zoo.train.network import give_logits

QUICK = {"model": {"image_size": 16}, "optimizer": {"warmup_epochs": 0}, "training": {"epochs": 1}}


def test_run_folder_is_complete(run):
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    events = {name for name in names if re.match(r"logs/(train|validation|augmented)/ev.*", name)}
    assert len(events) == 3
    assert names - events == {
        "config.yaml",
        "curves.png",
        "epochs.jsonl",
        "metrics.json",
        "model.keras",
        "model.weights.h5",
        "predictions.png",
    }
    for name in ("curves.png", "predictions.png"):
        with Image.open(run / name) as image:
            image.verify()


def test_config_reloads_equal(run):
    expected = TrainConfig(output_dir=run, **QUICK)
    assert run_folder.load_config(run).model_dump() == expected.model_dump()


def test_metrics_are_those_of_the_saved_model(run):
    metrics = json.loads((run / "metrics.json").read_text())
    config = run_folder.load_config(run)
    model = keras.models.load_model(run / "model.keras")
    images, labels = load_data(config.data, 16).test.sample(1000)
    probabilities = predict(model, images)
    accuracy = (probabilities.argmax(-1) == labels).mean()
    assert metrics["test"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    # Of images, not of batches, of which 40 images and padding are the last one.
    smoothed = 0.9 * np.eye(10)[labels] + 0.1 / 10
    loss = -(smoothed * np.log(probabilities)).sum(-1).mean()
    assert (len(images), config.data.batch_size) == (360, 64)
    assert metrics["test"]["loss"] == pytest.approx(loss, rel=1e-4)
    assert metrics["history"]["val_accuracy"] == [pytest.approx(accuracy, abs=1e-6)]
    assert (metrics["training_images"], metrics["test_images"]) == (1437, 360)
    assert metrics["trainable_parameters"] == sum(
        math.prod(w.shape) for w in model.trainable_weights
    )


def test_weights_file_has_the_final_weights(run):
    model = keras.models.load_model(run / "model.keras")
    expected = model.get_weights()
    for variable in model.variables:
        variable.assign(np.zeros(variable.shape, variable.dtype))
    model.load_weights(run / "model.weights.h5")
    for a, b in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_finished_run_is_refused_before_any_work(run, monkeypatch):
    monkeypatch.setattr(classification, "load_data", lambda *_: pytest.fail("work began"))
    before = (run / "metrics.json").stat().st_mtime_ns
    with pytest.raises(ValueError, match="holds a finished run"):
        classification.train(run_folder.load_config(run))
    assert (run / "metrics.json").stat().st_mtime_ns == before


@pytest.mark.very_slow
def test_run_in_a_bucket(bucket, run, monkeypatch, capsys):
    """Interrupted, it resumes; commands read the finished run where it is."""
    config = TrainConfig(output_dir=f"{bucket}/runs/quick", **QUICK)

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


def test_fine_tuning_with_another_number_of_classes(run, photos, tmp_path):
    """First the classifier on a frozen backbone, then everything."""
    data = {"source": "image_folder", "dir": str(photos), "batch_size": 4}
    frozen = TrainConfig(
        output_dir=tmp_path / "frozen",
        model={
            "image_size": 16,
            "weights": str(run / "model.weights.h5"),
            "freeze_backbone": True,
        },
        data=data,
        **{name: QUICK[name] for name in ("optimizer", "training")},
    )
    metrics = classification.train(frozen)
    assert metrics["trainable_parameters"] == 512 * 2 + 2  # of the classifier
    before = keras.models.load_model(run / "model.keras")
    after = keras.models.load_model(tmp_path / "frozen" / "model.keras")
    for layer in before.layers[:-1]:
        for one, other in zip(
            layer.get_weights(), after.get_layer(layer.name).get_weights(), strict=True
        ):
            np.testing.assert_array_equal(one, other)

    weights = str(tmp_path / "frozen" / "model.weights.h5")
    whole = frozen.model_copy(
        update={
            "output_dir": tmp_path / "whole",
            "model": frozen.model.model_copy(update={"weights": weights, "freeze_backbone": False}),
        }
    )
    assert classification.train(whole)["trainable_parameters"] > 100_000
    tuned = keras.models.load_model(tmp_path / "whole" / "model.keras")
    assert (tuned.get_weights()[0] != after.get_weights()[0]).any()


def test_unknown_constructor_argument_is_refused(tmp_path):
    config = TrainConfig(output_dir=tmp_path / "run", model={"overrides": {"dropout_rat": 0.1}})
    with pytest.raises(ValueError, match="did you mean 'dropout_rate'"):
        classification.train(config)
    assert not (tmp_path / "run").exists()


def test_missing_image_folder_is_refused(tmp_path, capsys):
    data = {"source": "image_folder", "dir": str(tmp_path / "nowhere")}
    with pytest.raises(ValueError, match="nowhere"):
        classification.train(TrainConfig(output_dir=tmp_path / "run", data=data))
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().out == ""  # the settings do not hide what is wrong


def test_run_that_is_removed_does_not_end_well(tmp_path, run, monkeypatch):
    config = TrainConfig(output_dir=tmp_path / "run", **QUICK)

    def fit(*_):
        shutil.rmtree(config.output_dir)
        return json.loads((run / "metrics.json").read_text())

    monkeypatch.setattr(ClassificationRun, "fit", fit)
    monkeypatch.setattr(classification, "create_network", lambda *_: Run(run).load().model)
    with pytest.raises(ValueError, match="run was removed while the run went on"):
        classification.train(config)


def compiled(monkeypatch, **settings):
    monkeypatch.setattr(
        classification, "create_network", lambda *_: networks.tiny_model(classes=10)
    )
    config = TrainConfig(**{"data": {"batch_size": 64}, **settings})
    run = ClassificationRun(config, find_devices("one_device"), resumed=False)
    run.load()
    return run, run.build()


def test_loss_of_smoothed_labels(monkeypatch):
    """With smoothing s of k classes the true one gets 1 - s + s / k, the others s / k."""
    run, _ = compiled(monkeypatch, training={"label_smoothing": 0.2})
    probabilities = np.full((1, 10), 0.05, "float32")
    probabilities[0, 3] = 0.55
    expected = -0.82 * np.log(0.55) - 9 * 0.02 * np.log(0.05)
    for training in (True, False):
        loss = run.model.compute_loss(
            None, np.eye(10, dtype="float32")[[3]], np.log(probabilities), training=training
        )
        assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_summary_explains_a_slow_start(monkeypatch):
    for momentum, slow in ((0.99, True), (0.9, False)):
        _, lines = compiled(monkeypatch, model={"batch_norm_momentum": momentum})
        found = [line for line in lines if line.startswith("validation starts near chance")]
        assert len(found) == slow
        if slow:  # 0.99 to the power of 22
            assert "80% are still initial values after an epoch of 22 steps" in found[0]
            assert found[0].count("\n") == 0


class Steps(keras.callbacks.Callback):
    """A callback of a user, imported from this module."""

    seen: ClassVar[list[int]] = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.model.steps_done)


@pytest.mark.slow
def test_interrupted_run_of_a_modern_recipe_gives_the_same_weights(tmp_path, monkeypatch, capsys):
    """Adding up gradients, mixing images, a teacher, LAMB, weights of classes, own callbacks."""

    def create_network(config, classes):
        return networks.linear_model((config.size, config.size, 3), classes)

    def load_teacher(*_):
        teacher = create_network(TrainConfig(model={"image_size": 8}).model, 10)
        give_logits(teacher)
        return teacher

    monkeypatch.setattr(classification, "create_network", create_network)
    monkeypatch.setattr(classification, "load_teacher", load_teacher)
    monkeypatch.setitem(sys.modules, "my_callbacks", SimpleNamespace(Steps=Steps))
    settings = {
        "model": {"image_size": 8},
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
            "callbacks": ["my_callbacks:Steps"],
        },
    }
    whole, folder = (TrainConfig(output_dir=tmp_path / name, **settings) for name in ("a", "b"))
    Steps.seen.clear()
    metrics = classification.train(whole)
    assert Steps.seen == [4, 8, 12, 16, 20, 22, 26, 30, 34, 38, 42, 44]
    assert metrics["history"]["loss"][1] < metrics["history"]["loss"][0]
    for step in (12, 30):

        def terminate(self, batch, logs=None, step=step):
            if self.model.steps_done == step:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(SaveProgress, "on_train_batch_begin", terminate)
            with pytest.raises(SystemExit, match=f"stopped at step {step + 4}"):
                classification.train(folder)
    again = classification.train(folder)
    assert "resuming after step 34 of 44" in capsys.readouterr().out
    assert again["history"]["val_loss"] == metrics["history"]["val_loss"]
    network = create_network(folder.model, 10)
    for name in ("model.weights.h5", "raw.weights.h5"):
        network.load_weights(tmp_path / "a" / name)
        expected = network.get_weights()
        network.load_weights(tmp_path / "b" / name)
        for one, other in zip(expected, network.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_interrupted_run_on_pseudo_labels_gives_the_same_weights(tmp_path, monkeypatch, capsys):
    def create_network(config, classes):
        return networks.linear_model((config.size, config.size, 3), classes)

    monkeypatch.setattr(classification, "create_network", create_network)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 8, 8, 3), "uint8"), rng.dirichlet(np.ones(10), 200)
    write_selection(tmp_path / "selected", images, labels, [str(i) for i in range(10)])
    settings = {
        "model": {"image_size": 8},
        "data": {"batch_size": 256, "pseudo": {"dir": tmp_path / "selected", "ratio": 0.5}},
        "optimizer": {"warmup_epochs": 0},
        "training": {"epochs": 2, "checkpoint_steps": 1},
    }
    whole, folder = (TrainConfig(output_dir=tmp_path / name, **settings) for name in ("a", "b"))
    metrics = classification.train(whole)
    assert metrics["training_images"] == 1437  # labeled ones
    assert "128 of 200 pseudo-labeled images in every step" in capsys.readouterr().out

    def terminate(self, batch, logs=None):
        if self.model.steps_done == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(SaveProgress, "on_train_batch_begin", terminate)
        with pytest.raises(SystemExit, match="stopped at step 7"):
            classification.train(folder)
    again = classification.train(folder)
    assert again["history"]["val_loss"] == metrics["history"]["val_loss"]
    one, other = (keras.models.load_model(tmp_path / name / "model.keras") for name in ("a", "b"))
    for expected, found in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_recomputation_is_for_jax(tmp_path):
    config = TrainConfig(output_dir=tmp_path / "run", training={"recompute": True})
    if keras.backend.backend() == "jax":
        ClassificationRun(config, find_devices("one_device"), resumed=False).load()
        return
    with pytest.raises(ValueError, match=r"training\.recompute: expected false on TensorFlow"):
        classification.train(config)
    assert not (tmp_path / "run").exists()


def test_batch_that_parts_do_not_divide(tmp_path):
    settings = {"data": {"batch_size": 64}, "training": {"gradient_accumulation_steps": 3}}
    with pytest.raises(ValueError, match="multiple of 3, the number of devices times"):
        classification.train(TrainConfig(output_dir=tmp_path / "run", **settings))
    assert not (tmp_path / "run").exists()


def test_diverging_run_ends_with_an_error_and_no_metrics(tmp_path):
    config = TrainConfig(
        output_dir=tmp_path / "run",
        model={"image_size": 8},
        optimizer={"learning_rate": 1e20, "warmup_epochs": 0},
        training={"epochs": 2},
    )
    with pytest.raises(ValueError, match=r"lower optimizer\.learning_rate"):
        classification.train(config)
    assert not (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_run_whose_test_loss_is_not_finite_ends(tmp_path, photos, monkeypatch, capsys, precision):
    """The only step has a finite loss, and weights after it that are far too large."""
    monkeypatch.setattr(
        classification, "create_network", lambda *_: networks.linear_model(classes=2)
    )
    config = TrainConfig(
        output_dir=tmp_path / "run",
        model={"image_size": 8},
        data={"source": "image_folder", "dir": str(photos), "batch_size": 16},
        optimizer={"name": "lamb", "learning_rate": 1e38, "warmup_epochs": 0},
        training={"epochs": 1, "precision": precision, "ema": 0.5},
    )
    metrics = classification.train(config)
    assert "the test loss is not finite after epoch 1: lower" in capsys.readouterr().out
    assert metrics["test"]["loss"] is None
    assert 0 <= metrics["test"]["accuracy"] <= 1
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    (line,) = (tmp_path / "run" / "epochs.jsonl").read_text().splitlines()
    assert json.loads(line)["val_loss"] is None
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
def test_full_disk_at_any_file(tmp_path, monkeypatch):
    """The error names the file, nothing is half written, and the same command resumes the run."""
    monkeypatch.setattr(classification, "create_network", lambda *_: networks.linear_model())
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


@pytest.mark.parametrize("own", [True, False])
def test_events_that_cannot_be_written_are_one_line(own):
    error = tf.errors.UnknownError(None, None, "Failed to flush 1 events to x.tfevents.1\n\tmore")
    other = tf.errors.UnknownError(None, None, "something else")
    with (
        pytest.raises(OSError if own else tf.errors.UnknownError, match=r"events to logs|else"),
        classification._naming_events("logs"),
    ):
        raise error if own else other


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


def test_plan_of_digits(monkeypatch):
    def load(*arguments, **others):
        return replace(load_data(*arguments, **others), warnings=("something is odd",))

    monkeypatch.setattr(classification, "load_data", load)
    _, lines = compiled(
        monkeypatch,
        data={"batch_size": 64},
        training={"epochs": 30, "gradient_accumulation_steps": 4},
        model={"image_size": 16, "batch_norm_momentum": 0.9},
    )
    _, classes, steps, warning = lines
    assert classes == "training images of a class: 139 (8) to 146 (1)"
    assert steps.startswith("30 epochs of 22 steps, 660 in all, of 64 images of 16 x 16 pixels in")
    assert steps.endswith("in 4 micro-batches")
    assert warning == "warning: something is odd"


@pytest.mark.parametrize(
    ("config", "cores"),
    [("lambda_resnet50_i160_350ep", 32), ("lambda_resnet14_digits", 0), ("mine.yaml", 0)],
)
def test_devices_far_from_those_of_the_configuration(config, cores):
    assert classification._intended_cores(config) == cores


def test_far_apart_devices_are_a_warning(monkeypatch):
    monkeypatch.setattr(classification, "_intended_cores", lambda _: 4)
    _, lines = compiled(monkeypatch, model={"image_size": 16, "batch_norm_momentum": 0.9})
    assert "is for 4 TPU cores. Received: CPU, 1 replica(s); the first steps" in lines[-1]


@pytest.mark.parametrize(
    ("model", "optimizer", "named", "passed"),
    [
        ({}, {"layer_decay": 0.75}, "decay: for pretrained", "--optimizer.layer_decay None"),
        ({"freeze_up_to": "c3"}, {"layer_decay": 1}, "up_to: for", "--model.freeze_up_to None"),
        (
            {"freeze_backbone": True},
            {"layer_decay": 0.75},
            "optimizer.layer_decay and model.freeze_backbone: for pretrained weights",
            "--optimizer.layer_decay None --model.freeze_backbone false",
        ),
        ({"weights": "imagenet", "name": "lambda_resnet26t"}, {"layer_decay": 0.75}, None, None),
        ({}, {}, None, None),
    ],
    ids=str,
)
def test_settings_for_pretrained_weights_from_random_ones(
    monkeypatch, model, optimizer, named, passed
):
    """Such as those of fine_tune."""
    monkeypatch.setattr(classification, "prepare", lambda *_: None)  # which loads weights
    monkeypatch.setattr(classification, "check_weights", lambda *_: None)  # which downloads them
    _, lines = compiled(monkeypatch, model={"image_size": 16, **model}, optimizer=optimizer)
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert len(warnings) == (named is not None)
    assert all(named in warning for warning in warnings)
    assert all(warning.endswith(f": pass {passed}") for warning in warnings)


@pytest.mark.parametrize(("few", "weights"), [(17, None), (16, None), (17, "imagenet")])
def test_few_images_for_random_weights_are_a_warning(monkeypatch, photos, few, weights):
    """16 of the 20 are for training."""
    monkeypatch.setattr(classification, "FEW_IMAGES", few)
    monkeypatch.setattr(classification, "prepare", lambda *_: None)
    monkeypatch.setattr(classification, "check_weights", lambda *_: None)
    data = {"source": "image_folder", "dir": str(photos), "batch_size": 8}
    _, lines = compiled(monkeypatch, data=data, model={"image_size": 16, "weights": weights})
    warned = [line for line in lines if "random weights: expect poor accuracy" in line]
    assert len(warned) == (few == 17 and weights is None)
    assert all("warning: 16 training images" in line for line in warned)
    assert all("--config fine_tune" in line for line in warned)


@pytest.mark.parametrize("callbacks", [[], ["keras.callbacks:TerminateOnNaN"]])
def test_metrics_are_of_the_weights_that_callbacks_left(monkeypatch, callbacks):
    settings = {"callbacks": callbacks, "label_smoothing": 0}
    run, _ = compiled(monkeypatch, model={"image_size": 16}, training=settings)
    # One of them has set other weights since the last evaluation, in the middle of an epoch.
    run.model.network.layers[-1].bias.assign(np.eye(10)[3] * 100)
    run.model.steps_done = 1
    metrics = run._metrics(Progress(1, [{"val_accuracy": 0.125, "val_loss": 1.0}], [1]))
    _, labels = run.data.test.sample(1000)
    expected = (labels == 3).mean() if callbacks else 0.125
    assert metrics["test"]["accuracy"] == pytest.approx(expected, abs=1e-6)
    assert (metrics["test"]["loss"] > 10) is bool(callbacks)
