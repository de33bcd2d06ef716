"""The lifecycle of a training run, which is the same for every task."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import keras

from zoo import run_folder
from zoo.config import RunConfig
from zoo.devices import Devices, find_devices, precision
from zoo.train.stop import stop_signals

Metrics = dict[str, Any]  # contents of metrics.json
Stop = Callable[[], bool]  # whether the run was interrupted


class Run(ABC):
    """A training run of one task. `train` calls the methods in the order in which they stand here.

    Args:
        config: All settings.
        devices: Devices to train on.
        resumed: Whether the run folder holds the same run, unfinished.
    """

    head: ClassVar[str]  # comment at the top of config.yaml
    config: Any

    def __init__(self, config: RunConfig, devices: Devices, resumed: bool) -> None:
        self.config = config
        self.devices = devices
        self.resumed = resumed

    @abstractmethod
    def check(self) -> None:
        """Checks the settings against the devices and one another, before any data are read."""

    @abstractmethod
    def load(self) -> None:
        """Finds and checks the data."""

    def precision(self) -> AbstractContextManager:
        """Context manager of the dtype policy that the model is built and trained under."""
        return precision(self.config.training.precision)

    @abstractmethod
    def build(self) -> list[str]:
        """Builds the model.

        Returns:
            Lines that describe the run, printed before its first step.
        """

    @abstractmethod
    def fit(self, stop: Stop) -> Metrics:
        """Trains from the last checkpoint, if there is one, to the end.

        Args:
            stop: Tells whether to save a checkpoint and end now, by `zoo.train.stop.stopped`.
        """

    @abstractmethod
    def write(self, metrics: Metrics) -> str:
        """Writes weights and figures; `metrics.json` is written after them.

        Returns:
            One line of results.
        """

    @abstractmethod
    def finish(self) -> None:
        """Removes files that a finished run does not need."""

    def check_multiple(self, setting: str, factor: int = 1, factor_name: str = "") -> None:
        """Refuses a batch size that the devices do not divide.

        Args:
            setting: Name of the setting in `config.data`.
            factor: Parts of a batch that a device computes one after the other. Defaults to 1.
            factor_name: Setting that this number is of.

        Raises:
            ValueError: If it is no multiple.
        """
        size, multiple = getattr(self.config.data, setting), self.devices.replicas * factor
        if size % multiple:
            times = f" times {factor_name}={factor}" if factor > 1 else ""
            raise ValueError(
                f"data.{setting}: expected a multiple of {multiple}, the number of devices{times}. "
                f"Received: {size}"
            )


def resuming(step: int, steps: int) -> str:
    """Returns the line about a checkpoint that a run resumes from."""
    return f"resuming after step {step} of {steps}"


def train(kind: type[Run], config: RunConfig) -> Metrics:
    """Trains a model and writes its run folder; everything is checked before the first step.

    With several processes, each is given the same settings, and the first one writes the files.

    Args:
        kind: Class of the run.
        config: All settings.

    Returns:
        The contents of `metrics.json`.

    Raises:
        ValueError: If the run folder is in use, or devices, data, model arguments or weights do
            not fit the settings, or the loss does not stay finite.
    """
    folder, resumed = config.output_dir, run_folder.check(config)
    devices = find_devices(config.strategy, config.tpu)
    run = kind(config, devices, resumed)
    run.check()
    # Only now: a seed creates TensorFlow's context, a TPU has to be connected before.
    keras.utils.set_random_seed(run.config.training.seed)
    run.load()
    with run.precision(), devices.scope():
        lines = run.build()
        print(config.to_yaml(), *lines, sep="\n", flush=True)
        if devices.chief and not run_folder.check(config):
            run_folder.start(config, run.head)
        with devices.noticing_losses():
            _check_shared(config, devices)
            with stop_signals(devices) as stop:
                metrics = run.fit(stop)
    if devices.chief:
        results = run.write(metrics)
        run_folder.write_metrics(folder, metrics)
        run_folder.check_still_there(folder)
        run.finish()
        print(f"{results}, {metrics['training_seconds']:.0f} s of training\nrun folder: {folder}")
    return metrics


def _check_shared(config: RunConfig, devices: Devices) -> None:
    """Waits until the first host has started the run, and makes sure that the others see it."""
    devices.gather(True)
    found = devices.gather(run_folder.is_shared(config.output_dir))
    if not all(found):
        raise ValueError(
            "output_dir: expected a folder that all hosts share, such as one in a bucket (gs://). "
            f"Received: {config.output_dir}, where {found.count(0)} of {len(found)} hosts do not "
            "find what the first one has written"
        )
