"""Settings that the timing commands share."""

import pytest

from zoo.benchmark.settings import TimedSettings


def test_backend_is_the_setting_or_the_variable(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert TimedSettings().keras_backend == "jax"
    assert TimedSettings(backend="torch").keras_backend == "torch"
    monkeypatch.delenv("KERAS_BACKEND")
    assert TimedSettings().keras_backend == "tensorflow"


def test_backend_starts_with_its_settings():
    backend = TimedSettings(backend="tensorflow", xla=True).start_backend()
    assert (backend.package, backend.xla) == ("tensorflow", True)


def test_xla_is_for_tensorflow():
    with pytest.raises(ValueError, match=r"tensorflow backend only.*Received: torch"):
        TimedSettings(backend="torch", xla=True)


def test_another_backend_than_the_one_in_use():
    with pytest.raises(RuntimeError, match="already runs on tensorflow"):
        TimedSettings(backend="jax").start_backend()
