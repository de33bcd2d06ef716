"""What is remembered of image files that were read."""

import contextlib
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from zoo.data.readable import CHECKS, check_readable, read_image


@pytest.fixture
def cache(tmp_path, environ):
    """The cache folder of the user, which is empty."""
    environ(XDG_CACHE_HOME=str(tmp_path / "cache"))


@pytest.fixture
def count(cache, photos):
    """Returns the number of files that a start reads, and checks what it returns."""
    expected, opened = check_readable(sorted(map(str, photos.rglob("*.*")))), []

    def read(path: str):
        opened.append(path)
        return read_image(path)

    def start(*paths: str) -> int:
        opened.clear()
        found = check_readable(paths or [file.path for file in expected], remember=True, read=read)
        assert all(file.digest for file in found) if paths else found == expected
        return len(opened)

    assert start() == 20
    return start


def test_second_start_reads_only_what_has_changed(count, photos):
    assert count() == 0
    path = photos / "red" / "0.jpg"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert count() == 1
    assert count() == 0


def test_file_of_the_same_size_and_time_is_read(count, photos):
    """Such as of `touch -r` or an archive: its contents count."""
    path = photos / "red" / "0.jpg"
    before = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert count() == 1


def test_another_path_of_the_same_files_is_the_same(count, photos):
    with contextlib.chdir(photos):
        assert count("red/0.jpg") == count("../photos/red/0.jpg") == 0


def test_unreadable_files_are_read_again(cache, photos):
    (photos / "red" / "0.jpg").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(ValueError, match="not an image of"):
            check_readable([str(photos / "red" / "0.jpg")], remember=True)


def replace(make):
    def change(folder):
        shutil.rmtree(folder)
        make(folder)

    return change


@pytest.mark.parametrize(
    ("change", "read_then"),
    [
        (lambda folder: (folder / f"images-{CHECKS}.sqlite").write_bytes(b"no database" * 99), 0),
        (lambda folder: os.truncate(folder / f"images-{CHECKS}.sqlite", 5000), 0),
        (lambda folder: os.truncate(folder / f"images-{CHECKS}.sqlite", 0), 0),
        (replace(lambda folder: folder.write_text("a file")), 20),
        (replace(lambda folder: (folder / f"images-{CHECKS}.sqlite").mkdir(parents=True)), 20),
        (replace(lambda folder: folder.symlink_to("/proc/nowhere")), 20),
    ],
    ids=["garbage", "cut", "empty", "file", "folder", "nowhere"],
)
def test_damaged_cache_does_no_harm(change, read_then, count, tmp_path):
    change(tmp_path / "cache" / "lambda_keras")
    assert count() == 20
    if read_then == 0:  # mended by the start, or by the next one
        count()
    assert count() == read_then


def test_cache_of_another_process_that_writes(count, tmp_path, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.1))
    other = connect(tmp_path / "cache" / "lambda_keras" / f"images-{CHECKS}.sqlite")
    other.execute("BEGIN EXCLUSIVE")
    assert count() == 20
    other.rollback()
    assert count() == 0


def test_processes_at_once(cache, photos):
    paths = sorted(map(str, photos.rglob("*.*")))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: check_readable(paths, remember=True), range(8)))
    assert all(files == check_readable(paths) for files in found)
    assert check_readable(paths, remember=True, read=lambda _: 1 / 0) == found[0]
