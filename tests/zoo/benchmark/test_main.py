"""`python -m zoo.benchmark` finds its commands and imports no more than they need."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from zoo.benchmark import __main__ as command

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_commands_are_listed(capsys, arguments):
    command.main(arguments)
    printed = capsys.readouterr().out
    assert all(name in printed for name in command.COMMANDS)


def test_unknown_command():
    with pytest.raises(ValueError, match="did you mean 'layer'"):
        command.main(["layers"])


@pytest.mark.parametrize("module", [module for module, _ in command.COMMANDS.values()])
def test_commands_are_there(module):
    assert callable(import_module(module).main)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_a_command_imports_no_backend_before_its_settings_are_read(name):
    script = (
        f"import sys; from zoo.benchmark.__main__ import main\n"
        f"try: main([{name!r}, '--help'])\n"
        "except SystemExit: print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in result.stdout.splitlines()[-1].split()}
    assert "zoo" in loaded
    assert not loaded & {"keras", "tensorflow", "jax", "torch", "sklearn", "matplotlib"}
