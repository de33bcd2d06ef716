"""A port that is in use; command_lines.txt has the other bad arguments of the server."""

import socket
from pathlib import Path

import pytest
from support import commands

EXPORT = str(Path(__file__).parents[1] / "fixtures" / "exports" / "onnx")


@pytest.mark.usefixtures("here")
def test_a_port_in_use(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = commands.refuse(f"serve {EXPORT} --port {port}", capsys)
    assert f"(Address already in use). Received: 127.0.0.1:{port}" in line
