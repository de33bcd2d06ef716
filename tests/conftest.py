"""What holds for every test: quiet logs, one thread per worker, fixed seeds, no network."""

import os

# Read when a backend loads, so set before Keras is imported. Several pytest workers share the
# cores; one thread each is faster than all of them competing.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(variable, "1")

import ipaddress
import socket

import keras
import pytest


@pytest.fixture(autouse=True)
def fresh_keras():
    """Every test starts from the same seeds, layer names and global settings, in any order."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A test that reaches beyond this machine fails at once, instead of hanging without network."""
    connect = socket.socket.connect

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = "127.0.0.1" if address[0] == "localhost" else address[0]
            try:
                local = ipaddress.ip_address(host).is_loopback
            except ValueError:
                local = False
            if not local:
                raise PermissionError(f"tests may not use the network. Received: {address!r}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
