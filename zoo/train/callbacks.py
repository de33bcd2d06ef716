"""Callbacks of a run: saving, stopping and progress."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.files import atomic_write
from zoo.run_folder import check_still_there, finite
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.stop import stopped


class SaveProgress(keras.callbacks.Callback):
    """Saves a checkpoint after every epoch, every `every_steps` steps, and at an interruption.

    Interrupted within an evaluation, it saves the state from before, and the resumed run evaluates
    again.

    Args:
        checkpoints: Files to write.
        progress: Progress of the run; kept up to date.
        every_steps: Steps between checkpoints within an epoch; None: none.
        patience: Epochs without better test accuracy after which training ends; None: never.
        stop: Called after every execution; returns whether the run was interrupted.
    """

    model: Any  # set by `fit`

    def __init__(
        self,
        checkpoints: Checkpoints,
        progress: Progress,
        every_steps: int | None,
        patience: int | None,
        stop: Callable[[], bool],
    ) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.progress = progress
        self.every_steps = every_steps
        self.patience = patience
        self.stop = stop
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
            self._save()

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
        self._save()
        self.model.stop_training = stopped_early(self.progress, self.patience)

    def _end(self) -> None:
        if self.model.steps_done > self.progress.step:
            self._save()
        print()  # after the bar
        raise stopped(self.progress.step)

    def _sync(self) -> None:
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()  # within an epoch the variables do not have the values

    def _save(self) -> None:
        check_still_there(self.checkpoints.folder.parent)
        self._sync()
        self.progress.step = self.model.steps_done
        now = time.monotonic()
        self.progress.seconds += now - self.saved
        self.saved = now
        self.checkpoints.save(self.progress)


def stopped_early(progress: Progress, patience: int | None) -> bool:
    """Returns whether `patience` epochs in a row were no better than the best one."""
    best = progress.best_epoch
    return None not in (best, patience) and len(progress.history) - 1 - best >= patience  # pyright: ignore[reportOperatorIssue]


class Throughput(keras.callbacks.Callback):
    """Adds images per second to the progress bar and the logs, and the learning rate to the logs.

    It stands before the callbacks that read the logs.
    """

    model: Any

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.began = self.trained = time.monotonic()
        self.first_step = self.model.steps_done

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.trained = time.monotonic()
        if logs is not None:
            logs["images_per_second"] = self._rate()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs["images_per_second"] = self._rate()
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)

    def _rate(self) -> float:
        images = (self.model.steps_done - self.first_step) * self.batch_size
        return images / max(self.trained - self.began, 1e-9)


class Bar(keras.callbacks.ProgbarLogger):
    """Keras' progress bar, with the time left after every epoch.

    It also ends at the last step where executions do not divide an epoch.
    """

    target: int

    def __init__(self, run_epochs: int) -> None:
        super().__init__()
        self.run_epochs = run_epochs

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self.began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        super().on_train_batch_end(min(batch, self.target - 1), logs)

    def on_test_batch_end(self, batch: int, logs: dict | None = None) -> None:
        super().on_test_batch_end(min(batch, self.target - 1), logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        left = (self.run_epochs - epoch - 1) * (time.monotonic() - self.began)
        if left:
            minutes = round(left / 60)
            text = f"{minutes // 60} h {minutes % 60} min" if minutes else f"{left:.0f} s"
            print(f"{text} left", flush=True)


class DecodingSpeed(keras.callbacks.Callback):
    """Reports after the first epoch whether the devices wait for images.

    It reads images for some seconds, without training, and only if the epoch took longer than that.

    Args:
        batches: Function that returns the training batches of this host.
        images: Images of a batch, over all hosts.
        seconds: Seconds of reading. Defaults to 5.
    """

    def __init__(self, batches: Callable[[], Iterable], images: int, seconds: float = 5.0) -> None:
        super().__init__()
        self.batches = batches
        self.images = images
        self.seconds = seconds
        self.told = False

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.told or time.monotonic() - self.began < 6 * self.seconds:
            return
        self.told = True
        trained = (logs or {})["images_per_second"]
        if (decoded := self._rate()) < 1.2 * trained:
            print(
                f"images are decoded at {decoded:,.0f} per second, and trained on at "
                f"{trained:,.0f}: the devices wait for them; smaller files or more processors help",
                flush=True,
            )

    def _rate(self) -> float:
        times = []
        for _ in self.batches():  # the first one fills buffers
            times.append(time.monotonic())
            if times[-1] - times[0] > self.seconds:
                break
        return (len(times) - 1) * self.images / max(times[-1] - times[0], 1e-9)


def write_epochs(path: Path, progress: Progress) -> None:
    """Writes one line of JSON for each epoch that has ended."""
    lines = [
        json.dumps(finite({"epoch": number, "step": step, **values}))
        for number, (step, values) in enumerate(
            zip(progress.epoch_steps, progress.history, strict=True), start=1
        )
    ]
    with atomic_write(path) as beside:
        beside.write_text("\n".join(lines) + "\n")
