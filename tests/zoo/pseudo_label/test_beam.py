"""Labels by Apache Beam: the same files as without it."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support import needs
from support.commands import fail
from support.damage import flip
from support.pseudo_labels import label_files

from zoo.pseudo_label.__main__ import main

needs.check("apache_beam")
pytestmark = pytest.mark.filterwarnings("default")  # Beam's own

DIRECT = ["--runner", "direct"]
PROCESSES = [*DIRECT, "--beam", "direct_num_workers=2,direct_running_mode=multi_processing"]


def test_files_are_those_of_the_local_runner(arguments, tmp_path, capsys):
    main(["label", *arguments])
    expected = label_files(tmp_path / "labels")
    assert len(expected) == 12
    main(["label", *arguments, *DIRECT, "--output", str(tmp_path / "beam")])
    assert label_files(tmp_path / "beam") == expected
    assert "21/21 images" in capsys.readouterr().out
    for path in sorted((tmp_path / "beam").glob("labels-*"))[:6]:
        path.unlink()
    main(["label", *arguments, *DIRECT, "--output", str(tmp_path / "beam")])
    assert label_files(tmp_path / "beam") == expected
    assert "resumes: 3 of 6 ranges are done" in capsys.readouterr().out


def test_error_of_a_worker_is_one_line(arguments, shards, capsys):
    flip(shards / "train-1")
    line = fail(main, capsys, "label", *arguments, *DIRECT)
    assert line.startswith(f"error: input: damaged file: {shards}/train-1, after")
    assert line.endswith("--damaged skip leaves the rest of it out\n")


def test_unknown_option_of_beam_is_refused(arguments, tmp_path, capsys):
    option = ["--beam", "direct_num_worker=2"]
    line = fail(main, capsys, "label", *arguments, *DIRECT, *option)
    assert "beam: no such option. Received: 'direct_num_worker' (did you mean 'direct_num" in line
    assert not (tmp_path / "labels").exists()


@pytest.mark.slow
def test_two_processes_that_are_killed_do_the_rest(arguments, tmp_path):
    main(["label", *arguments, "--range_size", "1"])
    expected = label_files(tmp_path / "labels")
    arguments += ["--range_size", "1", "--output", str(tmp_path / "beam"), *PROCESSES]
    command = [sys.executable, "-m", "zoo.pseudo_label", "label", *arguments]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while len(list((tmp_path / "beam").glob("labels-*.tfrecord"))) < 7:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert expected.items() >= label_files(tmp_path / "beam").items()
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "resumes: " in result.stdout
    assert label_files(tmp_path / "beam") == expected
