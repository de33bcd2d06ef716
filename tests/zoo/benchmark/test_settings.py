"""Settings that the timing commands share."""

import pytest

from zoo.benchmark.backends import TensorFlow
from zoo.benchmark.settings import BackendSettings


def test_backend_is_the_setting_or_the_variable(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert BackendSettings().keras_backend == "jax"
    assert BackendSettings(backend="torch").keras_backend == "torch"
    monkeypatch.delenv("KERAS_BACKEND")
    assert BackendSettings().keras_backend == "tensorflow"


def test_another_backend_than_the_one_in_use():
    with pytest.raises(RuntimeError, match="already runs on tensorflow"):
        BackendSettings(backend="jax").start_backend()


def test_memory_that_cannot_be_measured_is_refused_at_the_start(monkeypatch):
    monkeypatch.setattr(TensorFlow, "memory_method", None)
    backend = BackendSettings(backend="tensorflow", xla=True).start_backend()
    assert (backend.package, backend.xla) == ("tensorflow", True)
    with pytest.raises(ValueError, match=r"expected --memory false.*Received: true"):
        BackendSettings(backend="tensorflow", memory=True).start_backend()
