"""Lifecycle of a training run, the same for every task."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import keras

from zoo import run_folder
from zoo.config import RunConfig
from zoo.devices import Devices, find_devices
from zoo.files import remove, write_json
from zoo.precision import precision, resolve_precision
from zoo.variables import trainable_parameters

Metrics = dict[str, Any]  # contents of metrics.json
Stop = Callable[[], bool]  # whether the run was interrupted


@dataclass(eq=False)
class Run(ABC):
    """A training run of one task, whose methods `train` calls in the order of this class."""

    head: ClassVar[str]  # comment at the top of config.yaml
    find_devices = staticmethod(find_devices)
    precision = staticmethod(precision)  # sets the dtype policy to build and train under
    config: Any
    devices: Devices
    resumed: bool  # whether the run folder holds the same run, unfinished
    images: tuple[int, int] = field(init=False)  # for training and for the test, set by `load`
    classes: int = field(init=False)  # set by `load`
    index: Any = field(init=False)  # contents of the index file, set by `load`; None: no file
    model: Any = field(init=False)  # set by `build`

    @abstractmethod
    def load(self) -> None:
        """Checks the settings against the devices and one another, then finds and checks data."""

    @abstractmethod
    def build(self) -> list[str]:
        """Builds the model, and returns lines to print before the first step."""

    @abstractmethod
    def fit(self, stop: Stop) -> Metrics:
        """Trains from the last checkpoint, if there is one, to the end.

        When `stop` returns True, it saves a checkpoint and raises `stopped`.
        """

    @abstractmethod
    def write(self, metrics: Metrics) -> str:
        """Writes weights and figures, before `metrics.json`, and returns one line of results."""

    def check_multiple(self, setting: str, parts: int = 1) -> None:
        """Refuses a batch size that is not a multiple of devices times micro-batches (`parts`)."""
        size, multiple = getattr(self.config.data, setting), self.devices.replicas * parts
        if size % multiple:
            times = f" times training.gradient_accumulation_steps={parts}" if parts > 1 else ""
            raise ValueError(
                f"data.{setting}: expected a multiple of {multiple}, the number of devices{times}. "
                f"Received: {size}"
            )

    def summary(self, title: str) -> str:
        """Returns the line about model, data and devices."""
        return (
            f"{title}: {trainable_parameters(self.model):,} trainable parameters; "
            f"{self.images[0]} training and {self.images[1]} test images of "
            f"{self.classes} classes; {self.devices}"
        )

    def metrics(self, test: Metrics, seconds: float, **others: Any) -> Metrics:
        """Returns the metrics of a run that took so many seconds; tasks add others."""
        return {
            "model": self.config.model.name,
            "test": test,
            "test_images": self.images[1],
            "training_images": self.images[0],
            "trainable_parameters": trainable_parameters(self.model),
            "precision": self.config.training.precision,
            "training_seconds": round(seconds, 1),
            **others,
        }

    @classmethod
    def train(cls, config: Any) -> Metrics:
        """Trains a model, writes its run folder, and returns the contents of `metrics.json`.

        Everything is checked before the first step. With several processes, each is given the same
        settings, and the first one writes the files.
        """
        resumed = run_folder.check(config)
        devices = cls.find_devices(config.strategy, config.tpu)
        policy = resolve_precision(config.training.precision, devices.kind)
        # The run folder keeps the settings as they were given.
        training = config.training.model_copy(update={"precision": policy})
        run = cls(config.model_copy(update={"training": training}), devices, resumed)
        # Only now: a seed creates TensorFlow's context, a TPU has to be connected before.
        keras.utils.set_random_seed(run.config.training.seed)
        with run_folder.held(config.output_dir) if devices.chief else nullcontext():
            return run._train(config)

    def _train(self, config: Any) -> Metrics:
        """Loads, builds, trains and writes; `config` has the settings as they were given."""
        self.load()
        with self.precision(self.config.training.precision), self.devices.scope():
            lines = self.build()
            index = config.output_dir / run_folder.INDEX
            if self.resumed and self.index is not None and not index.is_file():
                lines.append(f"warning: without {index}, data are not compared with the run's own")
            print(config.to_yaml(), *lines, sep="\n", flush=True)
            if self.devices.chief and not run_folder.check(config):
                run_folder.start(config, self.head)
            elif self.devices.chief and run_folder.differing(config):  # the data are elsewhere now
                run_folder.save_config(config, self.head)
            if self.devices.chief and self.index is not None:
                write_json(index, self.index)
            with self.devices.noticing_losses():
                check_shared(config, self.devices)
                with stop_signals(self.devices) as stop:
                    metrics = self.fit(stop)
        if self.devices.chief:
            self._finish(metrics)
        return metrics

    def _finish(self, metrics: Metrics) -> None:
        results, folder = self.write(metrics), self.config.output_dir
        run_folder.write_metrics(folder, metrics)
        run_folder.check_still_there(folder)
        if self.config.training.delete_checkpoint:
            remove(folder / run_folder.CHECKPOINTS)
        print(f"{results}, {metrics['training_seconds']:.0f} s of training\nrun folder: {folder}")


def resuming(step: int, steps: int) -> str:
    """Returns the line about a checkpoint that a run resumes from."""
    return f"resuming after step {step} of {steps}"


def stopped(step: int) -> SystemExit:
    """Returns the exception that ends an interrupted run, with code 1 and one line."""
    return SystemExit(f"stopped at step {step}; the same command resumes from there")


def check_shared(
    config: RunConfig, devices: Devices, within_s: float = run_folder.SHARED_WITHIN_S
) -> None:
    """Waits until the first host has started the run, and makes sure that the others see it."""
    devices.gather(True)
    seen = devices.gather(run_folder.is_shared(config.output_dir, within_s))
    if not all(seen):
        raise ValueError(
            "output_dir: expected a folder that all hosts share, such as one in a bucket (gs://). "
            f"Received: {config.output_dir}, where {seen.count(0)} of {len(seen)} hosts do not "
            "find what the first one has written"
        )


@contextmanager
def stop_signals(devices: Devices) -> Iterator[Stop]:
    """Yields a function that tells whether a host was interrupted, by its user or a preemption.

    SIGINT (Ctrl-C) and SIGTERM interrupt; a second signal ends the process at once.
    """
    received = []
    # Shells make background commands ignore Ctrl-C, which is meant for another command.
    heeded = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]

    def receive(number: int, _: Any) -> None:
        received.append(number)
        for each in heeded:
            signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, receive) for number in heeded}
    try:
        yield lambda: any(devices.gather(bool(received)))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
