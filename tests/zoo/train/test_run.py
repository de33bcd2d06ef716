"""A training run: its seed, and signals to it."""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from zoo.config import TrainConfig
from zoo.devices import Devices, Host
from zoo.run_folder import INDEX
from zoo.train.classification import ClassificationRun
from zoo.train.run import stop_signals

DEVICES = SimpleNamespace(gather=lambda value: [value])


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_the_process(first, second):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
    with stop_signals(DEVICES) as stop:
        assert not stop()
        os.kill(os.getpid(), first)
        assert stop()
        if not (child := os.fork()):
            os.kill(os.getpid(), second)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == second
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_seed_is_that_of_the_settings_and_automatic_precision_that_of_the_devices(tmp_path):
    """A run computes in it, and its settings stay as they were given."""
    runs = []

    class Fails(ClassificationRun):
        find_devices = staticmethod(lambda *_: Devices(1, Host(), "TPU"))

        def load(self):
            runs.append((self.config.training.precision, np.random.random()))  # noqa: NPY002
            raise ZeroDivisionError

    training = {"seed": 7, "precision": "auto"}
    config = TrainConfig(output_dir=tmp_path / "run", training=training)
    with pytest.raises(ZeroDivisionError):
        Fails.train(config)
    assert runs == [("mixed_bfloat16", np.random.RandomState(7).random())]
    assert config.training.precision == "auto"


def test_second_start_is_refused_while_the_first_one_trains(tmp_path):
    """Before it reads the data; both leave nothing where nothing was trained."""
    config, starts = TrainConfig(output_dir=tmp_path / "run"), []

    class StartsAgain(ClassificationRun):
        def load(self):
            starts.append("load")
            ClassificationRun.train(config)

    message = r"^output_dir: expected a folder that no other process .*/run', whose run goes on$"
    with pytest.raises(ValueError, match=message):
        StartsAgain.train(config)
    assert starts == ["load"]
    assert list(tmp_path.iterdir()) == []


def test_hosts_of_a_run_share_its_folder(tmp_path):
    config, hosts = TrainConfig(output_dir=tmp_path / "run"), []
    devices = (Devices(1, Host(i, 3), "CPU") for i in range(3))

    class StartsOthers(ClassificationRun):
        find_devices = staticmethod(lambda *_: next(devices))

        def load(self):
            hosts.append(self.devices.host)
            if len(hosts) < 3:
                StartsOthers.train(config)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        StartsOthers.train(config)
    assert [host.index for host in hosts] == [0, 1, 2]


def test_resumed_run_without_the_index_of_its_data_says_so(tmp_path, capsys):
    class Fails(ClassificationRun):
        def load(self):
            self.index = {"images": 3}

        def build(self):
            return []

        def fit(self, stop):
            raise ZeroDivisionError

    def printed() -> str:
        with pytest.raises(ZeroDivisionError):
            Fails.train(TrainConfig(output_dir=tmp_path / "run"))
        return capsys.readouterr().out

    line = f"warning: without {tmp_path}/run/{INDEX}, data are not compared"
    assert line not in printed() + printed()
    (tmp_path / "run" / INDEX).unlink()
    assert line in printed()


def test_ignored_signals_stay_ignored():
    """A shell starts commands in the background so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_signals(DEVICES) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert not stop()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
