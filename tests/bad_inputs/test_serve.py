"""Bad arguments of the server end it before it loads anything."""

import socket
from pathlib import Path

import pytest
from support import commands

from zoo.serve.exports import Export

FIXTURE = str(Path(__file__).parents[1] / "fixtures" / "exports" / "onnx")


@pytest.fixture(autouse=True)
def nothing_loads(monkeypatch):
    monkeypatch.setattr(Export, "load", lambda *_: pytest.fail("it was loaded"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: EXPORT"),
        ("gs://bucket/exports", "expected a path of this machine"),
        (f"{FIXTURE} --port 65536", "less than or equal to 65535"),
        (f"{FIXTURE} --port x", "port: "),
        (f"{FIXTURE} --host 203.0.113.1", "expected --host and --port of a free address here"),
        (f"{FIXTURE} --host nowhere.invalid", "expected --host and --port of a free address here"),
        (f"{FIXTURE} --host=", "host: String should have at least 1 character"),  # means all
        (f"{FIXTURE} --host a\0b", "expected --host and --port of a free address here"),
        (f"{FIXTURE} --host \udce9", "host: "),
        (f"{FIXTURE} --batch_size 0", "batch_size: "),
        (f"{FIXTURE} --batch_size {'9' * 30}", "batch_size: "),
        (f"{FIXTURE} --threads -1", "threads: "),
        (f"{FIXTURE} --max_waiting=", "max_waiting: "),
        (f"{FIXTURE} --max_mb inf", "max_mb: "),
        (f"{FIXTURE} --workers 0", "workers: "),
        (f"{FIXTURE} --timeout nan", "timeout: "),
        (f"{FIXTURE} --max_mb 0", "max_mb: "),
        (f"{FIXTURE} --name a/b", "name: "),
        (f"{FIXTURE} --hots a", "did you mean '--host'"),
    ],
)
def test_bad_arguments(capsys, arguments, message, here):
    assert message in commands.refuse(f"serve {arguments}".strip(), capsys)


def test_a_port_in_use(capsys, here):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = commands.refuse(f"serve {FIXTURE} --port {port}", capsys)
    assert f"(Address already in use). Received: 127.0.0.1:{port}" in line
