"""A network that compiles in no time, and commands with a file for their results."""

import json
from collections.abc import Callable

import pytest
from support.tiny_networks import tiny_networks

from zoo.benchmark import __main__ as command

__all__ = ["tiny_networks"]


@pytest.fixture
def measure(tmp_path, capsys) -> Callable[[str], tuple[dict, str]]:
    """Runs `python -m zoo.benchmark` with some arguments; returns its report and what it prints."""

    def run(line: str) -> tuple[dict, str]:
        output = tmp_path / "new" / "report.json"
        command.main([*line.split(), "--output", str(output)])
        assert [*output.parent.iterdir()] == [output]
        return json.loads(output.read_text()), capsys.readouterr().out

    return run
