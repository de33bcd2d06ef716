"""Callbacks by the place that they are imported from."""

import sys

import pytest

from zoo.train.user_callbacks import load_callbacks

SOURCE = """
import keras

class Logger(keras.callbacks.Callback):
    pass

def with_arguments():
    logger = Logger()
    logger.project = "mine"
    return logger

def nothing():
    return None

def needs(project):
    return Logger()
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_callbacks.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_callbacks", None)


def test_classes_and_functions(module):
    one, other = load_callbacks(["my_callbacks:Logger", "my_callbacks:with_arguments"])
    assert type(one) is type(other)
    assert other.project == "mine"
    assert load_callbacks([]) == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module:Logger", "ModuleNotFoundError"),
        ("my_callbacks:Missing", "AttributeError"),
        ("my_callbacks:needs", "TypeError"),
        ("my_callbacks:nothing", "NoneType from 'my_callbacks:nothing'"),
    ],
)
def test_what_is_no_callback(module, place, reason):
    with pytest.raises(ValueError, match=rf"training\.callbacks: expected .*{reason}"):
        load_callbacks([place])
