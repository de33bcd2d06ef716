"""Files that are whole or not there."""

import pytest

from zoo.files import replacing


def test_replaces_when_all_went_well(tmp_path):
    target = tmp_path / "new" / "a.weights.h5"
    with replacing(target) as path:
        assert path.name.endswith(".weights.h5")
        path.write_text("new")
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("folder", [False, True])
def test_keeps_the_old_when_something_failed(tmp_path, folder):
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(OSError, match="disk full"):
        write_half(target, folder)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def write_half(target, folder):
    with replacing(target) as path:
        if folder:
            path.mkdir()
            path /= "b"
        path.write_text("half")
        raise OSError("disk full")
