"""Files with the state of a run."""

import errno
import json
import os
import stat
from pathlib import Path

import keras
import numpy as np
import pytest
from support import networks

from zoo.train import checkpoints
from zoo.train.checkpoints import Checkpoints, Progress


def create(folder, classes=3) -> tuple[Checkpoints, keras.Model, keras.optimizers.Optimizer]:
    model = networks.tiny_model(classes=classes, dropout_rate=0.5)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return Checkpoints(folder, [*model.variables, *optimizer.variables]), model, optimizer


def state(model, optimizer):
    return networks.values([*model.variables, *optimizer.variables])


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_restores_weights_optimizer_and_seeds(tmp_path):
    saved, model, optimizer = create(tmp_path)
    networks.randomize(model)
    optimizer.iterations.assign(7)
    optimizer.variables[-1].assign(np.ones(optimizer.variables[-1].shape))
    model(networks.images(2, 16, 16, 3), training=True)  # which draws from the seeds
    progress = Progress(7, [{"val_accuracy": 0.5}, {"val_accuracy": 0.25}], [3, 6], 1.5)
    saved.save(progress)

    restored, other, other_optimizer = create(tmp_path)
    assert restored.restore() == progress
    for one, two in zip(state(model, optimizer), state(other, other_optimizer), strict=True):
        np.testing.assert_array_equal(one, two)
    assert int(other_optimizer.iterations.numpy()) == 7


def test_files_are_readable_by_whom_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        create(tmp_path)[0].save(Progress(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(next(tmp_path.iterdir()).stat().st_mode) == 0o640


def test_nothing_to_restore(tmp_path):
    assert create(tmp_path / "none")[0].restore() is None


def test_losses_that_are_not_finite_are_restored(tmp_path):
    history = [{"val_accuracy": 0.5, "val_loss": float(value)} for value in ("nan", "inf")]
    create(tmp_path)[0].save(Progress(2, history, [1, 2]))
    restored = create(tmp_path)[0].restore()
    assert [repr(epoch["val_loss"]) for epoch in restored.history] == ["nan", "inf"]


def test_file_of_another_version_is_refused(tmp_path, monkeypatch):
    """Its network may compute otherwise, which names and shapes do not show."""
    create(tmp_path)[0].save(Progress(3))
    monkeypatch.setattr(checkpoints.lambda_keras, "__version__", "9.9")
    with pytest.raises(ValueError, match=r"of lambda_keras 0\.\d\..*This is 9\.9$"):
        create(tmp_path)[0].restore()


def test_newest_files_are_kept(tmp_path):
    saved = create(tmp_path)[0]
    for step in (9, 10, 100, 1000):
        saved.save(Progress(step))
    assert files(tmp_path) == [f"step-{step:09d}.safetensors" for step in (10, 100, 1000)]


def test_best_file_is_kept_and_restored(tmp_path):
    saved, model, _ = create(tmp_path)
    progress = Progress()
    for epoch, accuracy in enumerate((0.5, 0.9, 0.9, 0.8, 0.7, 0.6), start=1):
        model.get_layer("predictions").bias.assign(np.full(3, epoch, "float32"))
        progress.step = 10 * epoch
        progress.history.append({"val_accuracy": accuracy})
        progress.epoch_steps.append(progress.step)
        saved.save(progress)
    assert (progress.best_epoch, progress.best_step) == (1, 20)
    assert files(tmp_path) == [f"step-{step:09d}.safetensors" for step in (20, 40, 50, 60)]
    saved.restore_best(progress)
    np.testing.assert_array_equal(networks.values(model.get_layer("predictions").weights)[1], 2)
    (tmp_path / "step-000000020.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"damaged checkpoint .*020\.safetensors of the best"):
        saved.restore_best(progress)


def test_one_of_several_processes_writes(tmp_path):
    _, model, optimizer = create(tmp_path)
    other = Checkpoints(tmp_path, [*model.variables, *optimizer.variables], write=False)
    (tmp_path / ".partial-123-step-000000002.safetensors").write_bytes(b"being written")
    other.save(Progress(1))
    assert other.restore() is None
    assert files(tmp_path) == [".partial-123-step-000000002.safetensors"]


@pytest.mark.parametrize(
    "change", [{"epochs": 1}, {"step": "2"}, {"history": 5}, {"history": [{"loss": [1]}]}]
)
def test_progress_of_another_kind_is_damage(tmp_path, capsys, monkeypatch, change):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))
    text = json.dumps(vars(Progress(2)) | change)
    monkeypatch.setattr(checkpoints.json, "dumps", lambda _: text)
    saved.save(Progress(2))
    assert saved.restore() == Progress(1)
    error = capsys.readouterr().err
    assert f"(progress, {next(iter(change))}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_damaged_file_is_named_and_the_one_before_is_used(tmp_path, capsys, damage):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))
    saved.save(Progress(2))
    path = tmp_path / "step-000000002.safetensors"
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[-9] ^= 4
    path.write_bytes(
        {"cut": data[: len(data) // 2], "flipped": data, "empty": b"", "other": b"PK" * 99}[damage]
    )
    progress = saved.restore()
    assert progress is not None
    assert progress.step == 1
    assert f"damaged checkpoint {path}" in capsys.readouterr().err


def test_half_written_files_are_removed(tmp_path):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))
    (tmp_path / ".partial-123-step-000000002.safetensors").write_bytes(b"half")
    assert saved.restore() == Progress(1)
    assert files(tmp_path) == ["step-000000001.safetensors"]


def test_checkpoint_of_another_model_is_refused(tmp_path):
    create(tmp_path, classes=3)[0].save(Progress(1))
    other, model, optimizer = create(tmp_path, classes=4)
    before = state(model, optimizer)
    with pytest.raises(ValueError, match=r"of another model, .* or version.*: .*predictions"):
        other.restore()
    for one, two in zip(before, state(model, optimizer), strict=True):
        np.testing.assert_array_equal(one, two)


def test_full_disk_leaves_the_earlier_files(tmp_path, monkeypatch):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    message = (
        r"^cannot write the checkpoint \S*step-000000002\.safetensors \(No space left on device\)"
    )
    with pytest.raises(ValueError, match=message):
        saved.save(Progress(2))
    assert files(tmp_path) == ["step-000000001.safetensors"]
    assert saved.restore() == Progress(1)
