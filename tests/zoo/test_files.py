"""Files that are whole or not there."""

import tempfile
from pathlib import Path

import pytest

from zoo.files import location, on_this_machine, remove, replacing


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


def test_bucket(bucket, tmp_path):
    folder = location(f"{bucket}/runs/one")
    assert str(folder / "a.txt") == f"{bucket}/runs/one/a.txt"
    for text in ("first", "2nd"):
        with replacing(folder / "a.txt") as path:
            assert path.is_relative_to(tempfile.gettempdir())
            path.write_text(text)
        with on_this_machine(folder / "a.txt") as path:
            assert path.name == "a.txt"
            assert path.read_text() == text
        assert not path.exists()
    with pytest.raises(OSError, match="disk full"):
        write_half(folder / "a.txt", folder=False)
    assert (folder / "a.txt").read_text() == "2nd"
    remove(folder / "a.txt")
    remove(folder / "a.txt")
    assert not (folder / "a.txt").exists()
    remove(folder.parent)
    remove(folder.parent)
    assert not folder.exists()


def test_other_places():
    assert location("runs") == Path("runs")
    with pytest.raises(ValueError, match=r"in a bucket, gs://\. Received: 'http://a/b'"):
        location("http://a/b")
