"""Callbacks of a run: saving, stopping and progress."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.files import atomic_write
from zoo.run_folder import check_still_there, finite
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.loop import TrainingModel
from zoo.train.run import Stop, stopped

# Seconds of steps before the time left is estimated, and the shortest estimate that is printed.
ESTIMATED_AFTER, LONG = 20.0, 1800.0


@dataclass(eq=False)
class SaveProgress(keras.callbacks.Callback):
    """Saves a checkpoint after every epoch, every `every_steps` steps, and at an interruption.

    If an evaluation is interrupted, it saves the state from before, and the resumed run evaluates
    again.
    """

    checkpoints: Checkpoints
    progress: Progress  # kept up to date
    every_steps: int | None  # within an epoch
    patience: int | None  # epochs without better test accuracy after which training ends
    stop: Stop

    def __post_init__(self) -> None:
        super().__init__()
        self.saved = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if not np.isfinite((logs or {}).get("loss", 0.0)):
            raise ValueError(
                f"the loss is no longer finite at step {self.model.steps_done}; the last good "
                f"checkpoint is of step {self.progress.step}; lower optimizer.learning_rate"
            )
        if self.stop():
            self._end()
        if self.every_steps and self.model.steps_done - self.progress.step >= self.every_steps:
            self.save()

    def on_test_begin(self, logs: dict | None = None) -> None:
        self.trained = [ops.convert_to_numpy(metric) for metric in self.model.metrics_variables]

    def on_test_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self.stop():
            self._sync()
            for variable, value in zip(self.model.metrics_variables, self.trained, strict=True):
                variable.assign(value)
            self._end()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.progress.history.append({name: float(v) for name, v in (logs or {}).items()})
        self.progress.epoch_steps.append(self.model.steps_done)
        self.save()
        if self.progress.stopped_early(self.patience):
            self.model.stop_training = True

    def _end(self) -> None:
        if self.model.steps_done > self.progress.step:
            self.save()
        print()  # after the bar
        raise stopped(self.progress.step)

    def _sync(self) -> None:
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()  # within an epoch, variables are not up to date

    def save(self) -> None:
        """Saves a checkpoint of this step, unless the run was removed."""
        check_still_there(self.checkpoints.folder.parent)
        self._sync()
        self.progress.step = self.model.steps_done
        now = time.monotonic()
        self.progress.seconds += now - self.saved
        self.saved = now
        self.checkpoints.save(self.progress)


@dataclass(eq=False)
class Bar(keras.callbacks.ProgbarLogger):
    """Keras' progress bar, with images per second, and the time left after every epoch.

    For a long run, it also estimates the time left from the first steps, without compilation. It
    ends at the last step even if executions do not divide an epoch. It adds the speed and the
    learning rate to the logs, so it must come before the callbacks that read them.
    """

    batch_size: int
    run_epochs: int

    def __post_init__(self) -> None:
        super().__init__()
        self.first: tuple[float, int] | None = None  # time and steps of the first execution
        self.estimated = False
        self.compiled = True  # whether this epoch, the first of the process, includes compilation

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self.began = self.trained = time.monotonic()
        self.first_step = self.model.steps_done

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.trained = time.monotonic()
        logs["images_per_second"] = self._speed()
        super().on_train_batch_end(min(batch, self.target - 1), logs)
        if not self.estimated:
            self._estimate()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["images_per_second"] = self._speed()
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        super().on_epoch_end(epoch, logs)
        left = (self.run_epochs - epoch - 1) * self._epoch_seconds()
        if left:
            print(f"{_duration(left)} left", flush=True)

    def _epoch_seconds(self) -> float:
        """Returns the time of an epoch with its evaluation; 0 in the first one, if it is short.

        The first execution and the first evaluation include compilation.
        """
        now = time.monotonic()
        if not self.compiled:
            return now - self.began
        self.compiled = False
        (began, before), done = self.first or (now, 0), self.model.steps_done
        if self.trained - began < ESTIMATED_AFTER or done == before:
            return 0.0
        return (self.trained - began) / (done - before) * self.target + now - self.trained

    def _estimate(self) -> None:
        done = self.model.steps_done
        began, before = self.first = self.first or (self.trained, done)
        if self.trained - began < ESTIMATED_AFTER or done == before:
            return
        self.estimated = True
        step = (self.trained - began) / (done - before)
        left = (self.target * self.run_epochs - done) * step
        if left > LONG:
            print(
                f"\n{_duration(left)} left, by {step:.3g} s a step, without evaluations", flush=True
            )

    def _speed(self) -> float:
        images = (self.model.steps_done - self.first_step) * self.batch_size
        return images / max(self.trained - self.began, 1e-9)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes else f"{seconds:.0f} s"


@dataclass(eq=False)
class DecodingSpeed(keras.callbacks.Callback):
    """Reports after the first epoch how fast images are read alone, and whether devices wait.

    It reads images for `seconds`, without training, and only if the epoch took six times as long.
    """

    batches: Callable[[], Iterable]  # training batches of this host
    images: int  # of a batch, over all hosts
    seconds: float = 5.0

    def __post_init__(self) -> None:
        super().__init__()
        self.told = False

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.told or time.monotonic() - self.began < 6 * self.seconds:
            return
        self.told = True
        trained = (logs or {})["images_per_second"]
        read = self._rate()
        line = f"images are read at {read:,.0f} per second alone, and trained on at {trained:,.0f}"
        if read < 1.2 * trained:
            line += ": the devices wait for them; smaller files or more processors help"
        print(line, flush=True)

    def _rate(self) -> float:
        times = []
        for _ in self.batches():  # the first one fills buffers
            times.append(time.monotonic())
            if times[-1] - times[0] > self.seconds:
                break
        return (len(times) - 1) * self.images / max(times[-1] - times[0], 1e-9)


def write_epochs(path: Path, progress: Progress) -> None:
    """Writes one line of JSON for each epoch that has ended."""
    rows = zip(progress.epoch_steps, progress.history, strict=True)
    lines = [
        json.dumps(finite({"epoch": number, "step": step, **values}))
        for number, (step, values) in enumerate(rows, start=1)
    ]
    with atomic_write(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


# Callbacks of Keras that cannot work in a run, and their replacements.
IN_PLACE_OF: dict[type, str] = {
    keras.callbacks.BackupAndRestore: "the same command, which resumes an interrupted run",
    keras.callbacks.LearningRateScheduler: "optimizer.schedule, which sets every learning rate",
    keras.callbacks.ReduceLROnPlateau: "optimizer.schedule, which sets every learning rate",
    keras.callbacks.SwapEMAWeights: "training.ema, whose weights are evaluated and saved",
}
# Callbacks that read weights or stop: on one of several hosts, they would wait forever.
ON_ONE_HOST = (keras.callbacks.EarlyStopping, keras.callbacks.ModelCheckpoint)


def load_callback(place: str, hosts: int = 1) -> keras.callbacks.Callback:
    """Imports `package.module:Name`, and calls it to create a callback; this runs users' code."""
    try:
        callback = resolve_name(place)()
        if not isinstance(callback, keras.callbacks.Callback):
            raise TypeError(f"{type(callback).__name__} from {place!r}")
        for kind, other in IN_PLACE_OF.items():
            if isinstance(callback, kind):
                raise TypeError(f"{kind.__name__}: instead use {other}")
        if hosts > 1 and isinstance(callback, ON_ONE_HOST):
            raise TypeError(f"{type(callback).__name__} on {hosts} hosts, which needs one")
        return callback
    except Exception as error:  # the code of others raises many kinds
        raise ValueError(
            "training.callbacks: expected package.module:Name of a keras.callbacks.Callback that "
            "can be imported and called without arguments. "
            f"Received: {place!r} ({type(error).__name__}: {error})"
        ) from error


def give_network(
    callback: keras.callbacks.Callback, place: str, network: Any, model: TrainingModel
) -> None:
    """Sets the network, which can be saved, as the model of a user's callback.

    If the run has EMA weights, the network has them at the end of an epoch or of training. Errors
    name the callback.
    """
    network.optimizer, network.stop_training = model.optimizer, False

    def named(name: str, method: Callable) -> Callable:
        ends = name in ("on_epoch_end", "on_train_end")

        @wraps(method)
        def run(*arguments: Any, **others: Any) -> None:
            if keras.backend.backend() == "jax":
                model.jax_state_sync()
            try:
                with model.averaged() if ends else nullcontext():
                    method(*arguments, **others)
            except Exception as error:  # the code of others raises many kinds
                raise ValueError(
                    f"training.callbacks: {place} failed in {name} ({type(error).__name__}: "
                    f"{error}); the same command resumes the run"
                ) from error
            model.stop_training |= network.stop_training

        return run

    for name in dir(callback):
        method = getattr(callback, name) if name.startswith("on_") else None
        if method is not None and not getattr(method, "_is_default", False):
            setattr(callback, name, named(name, method))
    if getattr(callback, "mode", "") == "auto" and "accuracy" in getattr(callback, "monitor", ""):
        callback.mode = "max"  # Keras would infer it from the metrics of a compiled model
    set_model = callback.set_model
    callback.set_model = named("set_model", lambda _: set_model(network))
