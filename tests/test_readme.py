"""The README's blocks, pasted into an empty folder from top to bottom, from the wheel."""

import re

import pytest
from support.wheel import ROOT, installed

from zoo.cli import commands

__all__ = ["installed"]

pytestmark = pytest.mark.one_backend

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", README, flags=re.DOTALL)
INSTALL, COMMANDS = (text for language, text in BLOCKS if language == "sh")
PYTHON = [text for language, text in BLOCKS if language == "python"]
# What cannot run as it stands; the first pattern that fits a command counts.
INSTEAD = {
    r"(.* zoo\.train .*)": r"\1 --training.epochs 1 --optimizer.warmup_epochs 0",
    r"(.* zoo\.(?:demo|serve)) .*": r"\1 --help",  # they serve until they are stopped
}


def test_first_screen_and_length():
    lines = README.splitlines()
    assert len(lines) <= 130
    for command in ("git clone", "pip install '.[train]'", "make demo", "make test"):
        assert any(line.startswith(command) for line in lines[:15]), command


def test_commands_of_an_extra_name_it():
    for verb in commands.COMMANDS.keys() & {"demo", "serve"}:
        (line,) = re.findall(rf"python -m zoo\.{verb} .*", COMMANDS)
        assert line.endswith(f"extra {verb}")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PYTHON) - 1))
def test_python_blocks(number, installed, tmp_path):
    """Layer, network and `fit`; the example with packaged weights prints what the README says."""
    output = installed("python", "-c", PYTHON[number], cwd=tmp_path)
    for expected in re.findall(r"\[\[\('(\w+)', \.\.\.\)\]\]", PYTHON[number]):
        assert f"[[('{expected}'," in output


@pytest.mark.slow
def test_commands(installed, tmp_path):
    """On the images of the last block of Python; one epoch in place of all."""
    installed("python", "-c", PYTHON[-1], cwd=tmp_path)
    printed = ""
    for line in COMMANDS.replace("\\\n", " ").splitlines():
        line = line.partition("#")[0]
        for pattern, instead in INSTEAD.items():
            if re.fullmatch(pattern, line):
                line = re.sub(pattern, instead, line)
                break
        printed += installed("sh", "-c", line, cwd=tmp_path)
    for expected in ("48 training and 12 test images of 3 classes", "published to published/mine"):
        assert expected in printed
    assert printed.count("%  ") >= 21  # the classes of an image and of a folder of 20
    assert (tmp_path / "exports" / "lambda_resnet14" / "1" / "saved_model.pb").is_file()
