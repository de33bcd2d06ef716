"""Fixtures of tests/zoo/*/conftest.py, in any order of files on a command line."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.one_backend
def test_a_folder_that_is_entered_twice_keeps_its_fixtures():
    files = [
        TESTS / "zoo" / name
        for name in ("data/test_load.py", "test_files.py", "data/test_crops.py")
    ]
    command = [sys.executable, "-m", "pytest", "-q", "--setup-plan", *files]
    planned = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)
    assert planned.returncode == 0, planned.stdout
