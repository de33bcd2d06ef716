"""Files that are whole or not there."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import pytest
import tensorflow as tf
from support.lfs import LFS_POINTER, PULL

from lambda_keras.weights import hub
from zoo import files
from zoo.config import DataConfig
from zoo.data.readable import check_readable
from zoo.inference.images import read_pixels
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run


@pytest.mark.parametrize("folder", [False, True])
def test_replaces_when_all_went_well_and_else_keeps_the_old(tmp_path, folder):
    target = tmp_path / "new" / "a.weights.h5"
    with files.atomic_write(target) as path:
        assert path.name.endswith(".weights.h5")
        path.write_text("new")
    with pytest.raises(OSError, match="No space left"):
        write_half(target, folder)
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_half(target, folder=False, error=FULL):
    with files.atomic_write(target) as path:
        if folder:
            path.mkdir()
            path /= "b"
        path.write_text("half")
        raise error


# Writes a file, or holds a folder, until its process is gone.
BUSY = """
import sys
from pathlib import Path
from zoo.files import atomic_write, held

kind, path = sys.argv[1:]
with (atomic_write if kind == "write" else held)(Path(path)) as beside:
    if kind == "write":
        beside.write_text("half")
    print("busy", flush=True)
    sys.stdin.read()
"""


@contextmanager
def busy(kind: str, path: Path):
    """Another process that does so, and is killed then."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", BUSY, kind, str(path)], **streams) as process:
        assert process.stdout.readline() == "busy\n"
        yield
        process.kill()


def test_what_is_being_written_stays_until_its_process_is_gone(tmp_path):
    target = tmp_path / "a"
    with busy("write", target):
        files.remove_partial(tmp_path)
        with files.atomic_write(target) as path:
            path.write_text("new")
            files.remove_partial(tmp_path)
        (left,) = tmp_path.glob(".partial-*")
        assert (left / "a").read_text() == "half"
    files.remove_partial(tmp_path, "b")
    assert left.is_dir()
    files.remove_partial(tmp_path, "a")
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_text() == "new"


def test_folder_is_held_by_one_process_until_it_is_gone(tmp_path):
    folder = tmp_path / "new" / "run"
    with busy("hold", folder), pytest.raises(BlockingIOError), files.held(folder):
        pass
    assert list(folder.iterdir()) == []
    with files.held(folder):
        (folder / "a").touch()
    assert list(folder.iterdir()) == [folder / "a"]


def test_folder_that_is_held_and_stays_empty_is_removed_if_it_is_new(tmp_path):
    for place in (tmp_path / "new" / "run", tmp_path / "there"):
        (tmp_path / "there").mkdir(exist_ok=True)
        with files.held(place):
            assert list(place.iterdir()) == []
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets another process do something before each call of a function; counts the calls."""

    def watch(module, name, others) -> list:
        function, calls = getattr(module, name), []

        def called(*arguments, **named):
            calls.append(arguments or named)
            others(len(calls), *arguments, **named)
            return function(*arguments, **named)

        monkeypatch.setattr(module, name, called)
        return calls

    return watch


def test_another_process_removes_an_empty_folder_before_it_is_held(tmp_path, meanwhile):
    folder = tmp_path / "run"
    calls = meanwhile(fcntl, "flock", lambda number, *_: number > 1 or folder.rmdir())
    with files.held(folder):
        assert len(calls) == 2
        assert folder.is_dir()


def test_another_process_removes_a_folder_before_it_is_tried(tmp_path, meanwhile):
    """Both commands can then write."""
    (tmp_path / "new" / "exports").mkdir(parents=True)
    tried = meanwhile(tempfile, "mkdtemp", lambda number, dir, **_: number > 2 or os.rmdir(dir))
    files.check_output(tmp_path / "new" / "exports")
    places = [tmp_path / "new" / "exports", tmp_path / "new", tmp_path]
    assert [call["dir"] for call in tried] == places
    with pytest.raises(ValueError, match=r"to write to\. Received: '/proc/none' \(No such file"):
        files.check_output(Path("/proc/none"))


def test_another_process_leaves_an_empty_folder_that_is_held(tmp_path):
    with ExitStack() as holding:
        with files.new_folders(tmp_path / "run"):
            holding.enter_context(files.held(tmp_path / "run"))
        assert (tmp_path / "run").is_dir()


def test_file_system_without_locks_holds_nothing(tmp_path, meanwhile):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    meanwhile(fcntl, "flock", fail)
    with files.held(tmp_path), files.held(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [files.atomic_write, files.next_version])
def test_failed_writing_leaves_no_new_folder(tmp_path, write):
    """Such as on a full disk."""
    with pytest.raises(files.FullDiskError), write(tmp_path / "exports" / "mine"):
        raise FULL
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_folder_come_together(tmp_path):
    folder = tmp_path / "new" / "evaluation"
    for number in range(2):
        with files.atomic_files(folder) as beside, files.atomic_write(beside / "a") as path:
            path.write_text(str(number))
            (beside / f"b{number}").touch()
    before = sorted(folder.iterdir())
    assert [path.name for path in before] == ["a", "b0", "b1"]
    assert (folder / "a").read_text() == "1"

    for place in (folder, tmp_path / "full" / "evaluation"):
        with (
            pytest.raises(files.FullDiskError, match=f": '{place}'$"),
            files.atomic_files(place) as beside,
        ):
            write_half(beside / "a")
    assert sorted(folder.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_writing_clears_away_what_was_left_of_the_same_file(tmp_path):
    (tmp_path / ".partial-1-a").write_text("half")
    (tmp_path / ".partial-1-b").write_text("half")
    (tmp_path / ".partial-2-a").symlink_to("nowhere")
    with files.atomic_write(tmp_path / "a") as path:
        (path.parent / ".tmpXYZ").write_text("what a library writes first")
        path.write_text("new")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".partial-1-b", ".partial-2-a", "a"]


def test_taken_for_left_over_before_it_is_locked(tmp_path, meanwhile):
    remove = lambda number, *_, **__: number > 1 or files.remove_partial(tmp_path)  # noqa: E731
    meanwhile(os, "open", remove)
    made = meanwhile(tempfile, "mkdtemp", lambda *_, **__: None)
    with files.atomic_write(tmp_path / "a") as path:
        path.write_text("new")
    assert len(made) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/elsewhere"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("write failed: No space left on device (os error 28)"),
    ],
)
def test_full_disk_is_said_of_the_file(tmp_path, error):
    def write():
        with files.atomic_write(tmp_path / "a") as path:
            path.write_text("whole")
            write_half(tmp_path / "card", error=error)

    with pytest.raises(files.FullDiskError, match=r"(No space left|quota exceeded).*: '.*/card'"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_another_process_writes_meanwhile_is_kept(tmp_path):
    def write():
        with files.atomic_write(tmp_path / "a") as path:
            path.mkdir()
            (path / "mine").touch()
            with files.atomic_write(tmp_path / "a") as other:
                other.mkdir()
                (other / "yours").touch()

    with pytest.raises(ValueError, match=r"a new folder\. Received: '.*/a', written meanwhile$"):
        write()
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a/yours"]


def test_folder_takes_the_place_of_another(tmp_path):
    """Also of one that a killed process had moved aside, and of both."""
    for left in ([], ["a"], [".old-a"], ["a", ".old-a"]):
        for name in left:
            (tmp_path / name).mkdir()
            (tmp_path / name / "old").touch()
        with files.atomic_write(tmp_path / "a", over_folder=True) as path:
            path.mkdir()
            (path / "new").touch()
            if left == ["a"]:
                assert (tmp_path / "a" / "old").exists()
        assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a/new"]
        files.remove(tmp_path / "a")


def test_folder_moved_aside_comes_back(tmp_path):
    old = tmp_path / ".old-a"
    old.mkdir()
    (old / "b").touch()
    files.restore(tmp_path / "a")
    (tmp_path / "a").rename(old)
    (tmp_path / "a").mkdir()  # without files
    files.restore(tmp_path / "a")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a/b"]
    old.mkdir()
    files.restore(tmp_path / "a")
    assert old.is_dir()  # nothing is removed
    old.rmdir()
    with (
        pytest.raises(FileNotFoundError),  # nothing was written
        files.atomic_write(tmp_path / "a", over_folder=True),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a/b"]


def test_versions_are_numbered_while_others_are_written(tmp_path):
    with files.next_version(tmp_path / "new") as (first, beside):
        beside.mkdir()
        with files.next_version(tmp_path / "new") as (second, other):
            other.mkdir()
    assert (first.name, second.name) == ("1", "2")
    assert sorted(path.name for path in first.parent.iterdir()) == ["1", "2"]
    (first.parent / "10").mkdir()
    with files.next_version(first.parent) as (folder, beside):
        beside.mkdir()
    assert folder.name == "11"


@pytest.mark.parametrize("name", [".git", "__MACOSX", "~$a.doc", "Thumbs.db", "@eaDir"])
def test_litter(name):
    assert files.is_litter(name)
    assert not files.is_litter(f"a{name}")


def test_bucket(bucket, tmp_path):
    folder = files.location(f"{bucket}/runs/one")
    assert str(folder / "a.txt") == f"{bucket}/runs/one/a.txt"
    for text in ("first", "2nd"):
        with files.atomic_write(folder / "a.txt") as path:
            assert path.is_relative_to(tempfile.gettempdir())
            path.write_text(text)
        with files.local_copy(folder / "a.txt") as path:
            assert path.name == "a.txt"
            assert path.read_text() == text
        assert not path.exists()
    with pytest.raises(OSError, match="No space left"):
        write_half(folder / "a.txt")
    assert (folder / "a.txt").read_text() == "2nd"
    files.remove(folder / "a.txt")
    files.remove(folder / "a.txt")
    assert not (folder / "a.txt").exists()
    files.remove(folder.parent)
    files.remove(folder.parent)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["http://a/b", "gs://", "gs:///b"])
def test_other_places(name):
    assert files.location("runs") == Path("runs")
    assert files.location("~/runs") == Path.home() / "runs"
    assert DataConfig(source="image_folder", dir="~/a").dir == str(Path.home() / "a")
    with pytest.raises(ValueError, match=rf"a bucket, gs://BUCKET/FOLDER\. Received: '{name}'"):
        files.location(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [("a\0b", "embedded null byte"), ("\ud800.jpg", "'utf-8' codec"), ("missing", "No such file")],
)
def test_names_that_are_no_files(name, why):
    assert why in files.why_no_file(name)


PATTERNS = {
    "photos [2021]/*.JPG": ["photos [2021]/a.JPG"],
    "photos [2021]": ["photos [2021]"],
    "photos [2021]/[ab].*": ["photos [2021]/a.JPG", "photos [2021]/b.jpg"],
    "**/*.png": ["photos [2021]/c [1].png", "year [1]/deep/d.png"],
    "photos [2021]/c [1].png": ["photos [2021]/c [1].png"],
    "*/c [1].*": ["photos [2021]/c [1].png"],
    "year*": ["year [1]"],
    "year [1]/*/*.png": ["year [1]/deep/d.png"],
    "*.png": [],
    "nothing": [],
}


@pytest.mark.parametrize(
    ("pattern", "where"),
    [*product(PATTERNS, ["{tmp_path}"])]
    + [(one, "{bucket}/x") for one in PATTERNS if "**" not in one],  # which is for this machine
)
def test_patterns_match_names_with_brackets(pattern, where, tmp_path, bucket):
    root = where.format(tmp_path=tmp_path, bucket=bucket)
    for name in ("a.JPG", "b.jpg", "c [1].png", "@eaDir/c.png", ".c.png"):
        tf.io.gfile.makedirs(os.path.dirname(f"{root}/photos [2021]/{name}"))
        tf.io.write_file(f"{root}/photos [2021]/{name}", b"x")
    tf.io.gfile.makedirs(f"{root}/year [1]/deep")
    tf.io.write_file(f"{root}/year [1]/deep/d.png", b"x")
    assert files.expand(f"{root}/{pattern}") == [f"{root}/{name}" for name in PATTERNS[pattern]]


def test_files_that_a_pattern_misses_by_their_case(tmp_path, capsys):
    for name in ("a.jpg", "b.JPG", "c.Jpg", "d.png"):
        (tmp_path / name).touch()
    assert files.expand(f"{tmp_path}/*.jpg") == [f"{tmp_path}/a.jpg"]
    line = capsys.readouterr().err
    assert line.startswith(f"2 files left out, which match {tmp_path}/*.jpg but for upper and ")
    assert len(files.expand(line.rpartition("; ")[2].split("'")[1])) == 3
    assert capsys.readouterr().err == ""


def test_pointers_of_git_lfs_are_no_files(tmp_path):
    """The zoo finds them as `lambda_keras` does."""
    assert files.POINTER == hub.POINTER
    (tmp_path / "a").write_bytes(b"version 1")
    (tmp_path / "empty").touch()
    why = (files.find_pointer(tmp_path), files.why_no_file(tmp_path / "a"), hub.why_pointer("gone"))
    assert why == ("", "", "")
    path = tmp_path / "b" / "c.onnx"
    path.parent.mkdir()
    path.write_bytes(LFS_POINTER)
    assert files.why_no_file(path) == hub.why_pointer(path) == PULL
    assert files.find_pointer(tmp_path) == f"c.onnx is {PULL}"


def test_pointers_of_git_lfs_are_named_by_commands(tmp_path, run, published):
    image = tmp_path / "cat.jpg"
    copied = [shutil.copytree(place, tmp_path / place.name) for place in (run, published)]
    for path in (image, *(file for place in copied for file in place.glob("model.*"))):
        path.write_bytes(LFS_POINTER)
    for read in (
        lambda: check_readable([str(image)]),
        lambda: read_pixels(image),
        lambda: Run(copied[0]).load(),
        lambda: Published(str(copied[1])).load(),
    ):
        with pytest.raises(ValueError, match=PULL) as caught:
            read()
        assert str(caught.value).count("\n") == 0
