"""Files with the state of a run."""

import errno

import keras
import networks
import numpy as np
import pytest

from zoo import checkpoints
from zoo.checkpoints import Checkpoints, Progress


def create(folder, classes=3) -> tuple[Checkpoints, keras.Model, keras.optimizers.Optimizer]:
    model = networks.tiny_model(classes=classes, dropout_rate=0.5)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return Checkpoints(folder, model, optimizer), model, optimizer


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
    progress = Progress(7, [{"loss": 0.5}, {"loss": 0.25}])
    saved.save(progress)

    restored, other, other_optimizer = create(tmp_path)
    assert restored.restore() == progress
    for one, two in zip(state(model, optimizer), state(other, other_optimizer), strict=True):
        np.testing.assert_array_equal(one, two)
    assert int(other_optimizer.iterations.numpy()) == 7


def test_nothing_to_restore(tmp_path):
    assert create(tmp_path / "none")[0].restore() is None


def test_newest_files_are_kept(tmp_path):
    saved = create(tmp_path)[0]
    for step in (9, 10, 100, 1000):
        saved.save(Progress(step))
    assert files(tmp_path) == [f"step-{step:09d}.safetensors" for step in (10, 100, 1000)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_damaged_file_is_named_and_the_one_before_is_used(tmp_path, capsys, damage):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))
    path = saved.save(Progress(2))
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
    with pytest.raises(ValueError, match=r"of another model or optimizer: .*predictions"):
        other.restore()
    for one, two in zip(before, state(model, optimizer), strict=True):
        np.testing.assert_array_equal(one, two)


def test_full_disk_leaves_the_earlier_files(tmp_path, monkeypatch):
    saved = create(tmp_path)[0]
    saved.save(Progress(1))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(ValueError, match=r"cannot write the checkpoint .*No space left"):
        saved.save(Progress(2))
    assert files(tmp_path) == ["step-000000001.safetensors"]
    assert saved.restore() == Progress(1)
