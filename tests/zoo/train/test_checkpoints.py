"""Files with the state of a run."""

import json
import os
import stat

import keras
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from support import networks
from support.damage import flip, full_disk

import lambda_keras
from zoo.train import checkpoints
from zoo.train.checkpoints import Checkpoints, Progress


def create(folder, classes=3, **options):
    """Checkpoints of a network with random layers, the network and its optimizer."""
    dense = keras.layers.Dense(classes, name="predictions")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), dense], name="network")
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    variables = [*model.variables, *optimizer.variables]
    return Checkpoints(folder, variables, **options), model, optimizer


def state(model, optimizer):
    return networks.values([*model.variables, *optimizer.variables])


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def name_of(step):
    return f"step-{step:09d}.safetensors"


def test_restores_weights_optimizer_and_seeds(tmp_path):
    saved, model, optimizer = create(tmp_path)
    assert saved.restore() is None
    optimizer.iterations.assign(7)
    optimizer.variables[-1].assign(np.ones(optimizer.variables[-1].shape))
    model(np.ones((2, 4), "float32"), training=True)  # which draws from the seeds
    losses = {"val_loss": float("inf"), "loss": 0.25}
    progress = Progress(7, [{"val_accuracy": 0.5}, {"val_accuracy": 0.2, **losses}], [3, 6], 1.5)
    before = os.umask(0o027)
    try:
        saved.save(progress)
    finally:
        os.umask(before)
    assert files(tmp_path) == [name_of(7)]
    assert stat.S_IMODE((tmp_path / name_of(7)).stat().st_mode) == 0o640
    restored, other, other_optimizer = create(tmp_path)
    assert restored.restore() == progress
    np.testing.assert_equal(state(model, optimizer), state(other, other_optimizer))
    assert int(other_optimizer.iterations.numpy()) == 7


def rewrite(path, **metadata):
    """Writes a file again, with other metadata and their checksum."""
    arrays = load_file(path)
    with safe_open(path, framework="np") as file:
        metadata = file.metadata() | metadata
    checksum = checkpoints.contents_digest(metadata["progress"], arrays)
    save_file(arrays, path, metadata | {"sha256": checksum})


@pytest.mark.parametrize(
    ("version", "classes", "message"),
    [(lambda_keras.__version__, 4, "model, .*: 4 variables .*predictions"), ("9.9", 3, "s 0.1")],
)
def test_file_of_another_model_or_version_is_refused(tmp_path, version, classes, message):
    """Another version may compute otherwise, which names and shapes do not show."""
    create(tmp_path)[0].save(Progress(3))
    rewrite(tmp_path / name_of(3), version=version)
    other, *parts = create(tmp_path, classes)
    before = state(*parts)
    with pytest.raises(ValueError, match=rf"the checkpoint .* is of .*{message}"):
        other.restore()
    np.testing.assert_equal(before, state(*parts))


def test_newest_files_and_the_best_are_kept(tmp_path):
    saved, model, _ = create(tmp_path)
    for step in (9, 10, 100, 1000):
        saved.save(Progress(step))
    assert files(tmp_path) == [name_of(step) for step in (10, 100, 1000)]
    progress, bias = Progress(), model.get_layer("predictions").bias
    for epoch, accuracy in enumerate((0.5, 0.9, 0.9, 0.8, 0.7, 0.6), start=1):
        bias.assign(np.full(3, epoch, "float32"))
        progress.step = 10_000 * epoch
        progress.history.append({"val_accuracy": accuracy})
        progress.epoch_steps.append(progress.step)
        saved.save(progress)
    assert (progress.best_epoch, progress.best_step) == (1, 20_000)
    assert files(tmp_path) == [name_of(step) for step in (20_000, 40_000, 50_000, 60_000)]
    saved.restore_best(progress)
    np.testing.assert_array_equal(networks.values([bias])[0], 2)
    (tmp_path / name_of(20_000)).write_bytes(b"")
    with pytest.raises(ValueError, match=r"damaged checkpoint .*20000\.safetensors of the best"):
        saved.restore_best(progress)


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
    history = [{"val_accuracy": accuracy} for accuracy in accuracies]
    assert Progress(len(history), history, [1] * len(history)).stopped_early(patience) is expected


def test_one_of_several_processes_writes_and_removes_what_is_half_written(tmp_path):
    partial = ".partial-123-step-000000002.safetensors"
    (tmp_path / partial).write_bytes(b"being written")
    other, *_ = create(tmp_path, write=False)
    other.save(Progress(1))
    assert other.restore() is None
    assert files(tmp_path) == [partial]
    saved, *_ = create(tmp_path)
    saved.save(Progress(1))
    assert saved.restore() == other.restore() == Progress(1)
    assert files(tmp_path) == [name_of(1)]


DAMAGES = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "flipped": lambda path: flip(path, -9),
    "empty": lambda path: os.truncate(path, 0),
    "other": lambda path: path.write_bytes(b"PK" * 99),
}
OTHERS = [{"epochs": 1}, {"step": "2"}, {"history": 5}, {"history": [{"loss": [1]}]}]


@pytest.mark.parametrize("damage", [*DAMAGES, *OTHERS])
def test_damaged_file_is_named_and_the_one_before_is_used(tmp_path, capsys, damage):
    """Such as one with progress of another kind."""
    saved, path, why = create(tmp_path)[0], tmp_path / name_of(2), ""
    saved.save(Progress(1))
    saved.save(Progress(2))
    if isinstance(damage, dict):
        rewrite(path, progress=json.dumps(vars(Progress(2)) | damage))
        why = f"progress, {next(iter(damage))}"
    else:
        DAMAGES[damage](path)
    assert saved.restore() == Progress(1)
    error = capsys.readouterr().err
    assert error.startswith(f"damaged checkpoint {path} ({why}")
    assert error.count("\n") == 1


def test_full_disk_leaves_the_earlier_files(tmp_path):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))
    message = rf"^cannot write the checkpoint \S*{name_of(2)} \(File too large\)"
    with full_disk(100), pytest.raises(ValueError, match=message):
        saved.save(Progress(2))
    assert files(tmp_path) == [name_of(1)]
    assert saved.restore() == Progress(1)
