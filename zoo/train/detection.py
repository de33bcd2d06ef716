"""A training run of a detector, by the Model Garden's trainer."""

import contextlib
import io
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TextIO

import tensorflow as tf

from zoo import run_folder
from zoo.config.detection import DetectionConfig
from zoo.data.errors import reason
from zoo.detection import report, shards
from zoo.detection.detector import SECONDS, Detector, title
from zoo.detection.experiment import Task, create_experiment, precision
from zoo.detection.shards import Dataset
from zoo.errors import needs_extra
from zoo.files import naming_full_disks
from zoo.plots.detections import plot_detections
from zoo.train import run
from zoo.train.stop import stopped

with needs_extra("detection"):
    from official.core import base_trainer, train_lib, train_utils

GRID_SAMPLE = 12  # test images of predictions.png
LOSSES = {"rpn_score_loss": "proposals", "frcnn_cls_loss": "classes", "frcnn_box_loss": "boxes"}
MASK_LOSSES = {"mask_loss": "masks"}


def train(config: DetectionConfig) -> run.Metrics:
    """Trains a detector and writes its run folder; see `zoo.train.run.train`."""
    return run.train(DetectionRun, config)


class DetectionRun(run.Run):
    """A training run of a Mask R-CNN, or of a Faster R-CNN where the data have no masks."""

    head = "# A detector: python -m zoo.evaluate | predict | export --run FOLDER\n"
    config: DetectionConfig

    def check(self) -> None:
        """Checks devices, the description of the data, and the Model Garden's settings.

        Raises:
            ValueError: If they do not fit one another.
        """
        if self.devices.host.count > 1:
            raise ValueError(
                "strategy: expected the devices of one machine or a TPU: the Model Garden restores "
                f"checkpoints on the first worker alone. Received: {self.devices}"
            )
        self.check_multiple("batch_size")
        self.check_multiple("test_batch_size")
        data = self.config.data
        self.dataset = Dataset.read(data.dir)
        if data.batch_size > self.dataset.train.images:
            raise ValueError(
                f"data.batch_size: expected at most {self.dataset.train.images}, the number of "
                f"training images. Received: {data.batch_size}"
            )
        self.experiment = create_experiment(
            self.config, self.dataset.categories, self.dataset.masks
        )

    def load(self) -> None:
        """Reads all shards once, those for training only before the first step."""
        config, dataset = self.config, self.dataset
        if not self.resumed:
            smallest = config.model.image_size * min(config.data.scale_min, 1)
            shards.check(config.data.dir, dataset, shards.TRAIN, smallest)
        ids = shards.check(config.data.dir, dataset, shards.TEST, config.model.image_size)
        self.annotations = shards.read_annotations(config.data.dir, dataset, ids)

    def precision(self) -> AbstractContextManager:
        """Context manager of the dtype policies of Keras 3 and tf_keras."""
        return precision(self.config.training.precision)

    def build(self) -> list[str]:
        """Builds the detector and its trainer; returns a summary."""
        config, checkpoints = self.config, self._checkpoints
        path = tf.train.latest_checkpoint(checkpoints)
        order = shards.TrainingOrder(
            config.data.dir,
            self.dataset.train.images,
            config.data.batch_size,
            config.data.shuffle_buffer,
            config.training.seed,
            first_step=int(path.rpartition("-")[2]) if path else 0,
        )
        self.task = Task(self.experiment, checkpoints, self.annotations, order)
        with _quiet():
            # Not by `create_trainer`, which adds words of its own to errors of the model.
            self.trainer = base_trainer.Trainer(
                self.experiment,
                self.task,
                model=self.task.build_model(),
                optimizer=train_utils.create_optimizer(self.task, self.experiment),
            )
        variables = self.trainer.model.trainable_variables
        self.parameters = sum(math.prod(variable.shape) for variable in variables)
        return [
            f"{title(self.config.model.name, self._masks)}: "
            f"{self.parameters:,} trainable parameters; "
            f"{self.dataset.train.images} training and {self.dataset.val.images} test images of "
            f"{len(self.dataset.categories)} categories; {self.devices}"
        ]

    @property
    def _checkpoints(self) -> str:
        return str(self.config.output_dir / run_folder.CHECKPOINTS)

    @property
    def _masks(self) -> bool:
        return self.experiment.task.model.include_mask

    def fit(self, stop: run.Stop) -> run.Metrics:
        """Trains from the last checkpoint, if there is one, to the end."""
        training = self.config.training
        losses = LOSSES | (MASK_LOSSES if self._masks else {})
        with _quiet() as out, _in_one_line(self.config.output_dir):
            progress = _Progress(self.trainer, training.steps, losses, stop, out)
            runner = train_lib.OrbitExperimentRunner(
                tf.distribute.get_strategy(),
                self.task,
                "train_and_eval",
                self.experiment,
                self._checkpoints,
                train_actions=[progress.trained],
                eval_actions=[progress.evaluated],
                trainer=self.trainer,
            )
            progress.save = runner.checkpoint_manager.save
            if first := int(self.trainer.global_step.numpy()):
                print(run.resuming(first, training.steps), file=out, flush=True)
            results = runner.controller.train_and_evaluate(
                training.steps, -1, training.evaluation_steps
            )
            if results is None:  # all that was missing is the end
                runner.controller.evaluate(-1)
        return {
            "model": self.config.model.name,
            "test": self.task.figures,
            "test_images": self.dataset.val.images,
            "training_images": self.dataset.train.images,
            "trainable_parameters": self.parameters,
            "training_seconds": round(float(progress.seconds.numpy()), 1),
            "categories": {str(number): name for number, name in self.dataset.categories.items()},
        }

    def write(self, metrics: run.Metrics) -> str:
        """Draws the detections in some test images; returns AP."""
        config = self.config
        detector = Detector.restore(config, self.dataset.categories, self._masks)
        images = shards.read_images(shards.pattern(config.data.dir, shards.TEST), GRID_SAMPLE)
        truth = shards.by_image(self.annotations)
        results = report.line(metrics["test"])
        plot_detections(
            [
                (truth[number][0], image, detector.detect(image, number), truth[number][1])
                for number, image in images.items()
            ],
            detector.categories,
            f"{config.model.name}: {results}",
            config.output_dir / run_folder.PREDICTIONS,
        )
        return f"{results} ({self.dataset.val.images} test images)"

    def finish(self) -> None:
        """Keeps everything: the weights of a detector are those of its last checkpoint."""


@contextmanager
def _quiet() -> Iterator[TextIO]:
    """Yields the standard output, which what others print does not reach: Orbit, pycocotools."""
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        yield out


@contextmanager
def _in_one_line(folder: Path) -> Iterator[None]:
    """Ends training with one line for a non-finite loss, bad data or a full disk."""
    try:
        with naming_full_disks(folder):
            yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
        raise ValueError(f"data.dir: {reason(error)}") from None
    except RuntimeError as error:
        if "The loss value is" not in str(error):
            raise
        raise ValueError(
            f"the loss does not stay finite; a lower optimizer.learning_rate may help: {error}"
        ) from None


class _Progress:
    """Prints a line after every call of the compiled function, and after every evaluation.

    Args:
        trainer: The Model Garden's trainer; checkpoints get the seconds of training.
        steps: Steps of the whole run.
        losses: Names of losses in the trainer's logs, and what to call them.
        stop: Tells whether to save a checkpoint and end the run.
        out: Where lines are printed.
    """

    def __init__(
        self, trainer: Any, steps: int, losses: Mapping[str, str], stop: run.Stop, out: TextIO
    ) -> None:
        self._trainer, self._steps, self._losses = trainer, steps, losses
        self._stop, self._out = stop, out
        self._step, self._time = 0, time.monotonic()
        self.seconds = tf.Variable(tf.zeros([], tf.float64), trainable=False)
        setattr(trainer.checkpoint, SECONDS, self.seconds)
        self.save: Callable[[int], Any] = lambda step: None

    def trained(self, logs: Mapping[str, Any]) -> None:
        """Takes the mean losses since the last call, and the rate."""
        step, before = int(self._trainer.global_step.numpy()), self._time
        self._count_seconds()
        speed = f"{(step - self._step) / (self._time - before):.2f} steps/s" if self._step else ""
        self._step = step
        losses = ", ".join(f"{name} {float(logs[key]):.3f}" for key, name in self._losses.items())
        self._print(
            f"step {step}/{self._steps}  loss {float(logs['total_loss']):.3f} "
            f"({losses})  rate {float(logs['learning_rate']):.4f}  {speed}".rstrip()
        )
        if self._stop():
            self.save(step)
            raise stopped(step)

    def evaluated(self, logs: Mapping[str, Any]) -> None:
        """Prints the results of the evaluator."""
        self._print(report.line(self._trainer.task.figures))
        self._count_seconds()

    def _count_seconds(self) -> None:
        before, self._time = self._time, time.monotonic()
        self.seconds.assign_add(self._time - before)

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)
