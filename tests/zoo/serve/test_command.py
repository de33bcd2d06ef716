"""Settings of the command, as the server gets them."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.serving import Colours

from zoo.serve import app, connections
from zoo.serve.command import ServeConfig, bound, ready, run
from zoo.serve.exports import Export

FIXTURE = Path(__file__).parents[2] / "fixtures" / "exports" / "onnx"


@pytest.fixture
def served(monkeypatch, environ) -> Iterator[list]:
    """Models that were served, and how their export was loaded."""
    calls = []

    class Server:
        def __init__(self, model):
            calls.append(model)

        def run(self, sockets):
            assert sockets[0].getsockname()[0] in ("127.0.0.1", "0.0.0.0", "::1")

    def load(export, count, threads):
        calls.append((export.folder, count, threads, os.environ.get("TF_NUM_INTRAOP_THREADS")))
        return [Colours()] * count

    monkeypatch.setattr(connections, "server", Server)
    monkeypatch.setattr(Export, "load", load)
    environ(TF_NUM_INTRAOP_THREADS="1")
    before = signal.getsignal(signal.SIGTERM)
    yield calls
    signal.signal(signal.SIGTERM, before)


def test_defaults(served, capsys):
    run(ServeConfig(export=FIXTURE, port=0))
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler  # as of Ctrl+C
    loaded, model = served
    assert loaded == (FIXTURE, 1, 0, "1")
    assert (model.name, model.version) == ("exports", "1")
    assert (model.batch_size, model.max_bytes, model.max_waiting) == (32, 32 * 2**20, 1024)
    assert (model.timeout, model.batches.size) == (60, 32)
    assert app.Model("m", "1", [Colours()]).max_bytes == model.max_bytes
    printed = capsys.readouterr()
    assert printed.out.startswith("serving exports, version 1, at http://127.0.0.1:")
    assert printed.out.endswith("\nstopped\n")
    assert not printed.err
    with pytest.raises(RuntimeError, match="after shutdown"):
        model.batches.submit("sizes", {})


def test_every_setting_reaches_the_server(served, capsys):
    limits = {"batch_size": 3, "max_mb": 0.5, "max_waiting": 7, "timeout": 2.5}
    others = {"name": "other", "workers": 2, "threads": 4, "host": "0.0.0.0"}
    run(ServeConfig(export=FIXTURE, port=0, **limits, **others))
    loaded, model = served
    assert loaded == (FIXTURE, 2, 4, "4")
    assert (model.name, len(model.runtimes), model.batches.size) == ("other", 2, 3)
    assert (model.max_bytes, model.max_waiting, model.timeout) == (2**19, 7, 2.5)
    assert "warning: all who can reach 0.0.0.0:" in capsys.readouterr().err
    run(ServeConfig(export=FIXTURE, port=0, host="::1"))
    assert ", at http://[::1]:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:80/v1"), ("::1", "http://[::1]:80/v1")]
)
def test_addresses_of_both_kinds(host, url):
    assert url in ready(app.Model("m", "1", [Colours()]), host, 80)
    with bound(host, 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2], 10):
            assert listener.getsockname()[0] == host
