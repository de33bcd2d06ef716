"""A training run of a detector, by the Model Garden's trainer."""

import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from zoo import run_folder
from zoo.data.errors import naming_errors, reason
from zoo.data.record_files import file_sizes
from zoo.detection import report, shards
from zoo.detection.config import DetectionConfig
from zoo.detection.detector import SECONDS, Detector, title
from zoo.detection.experiment import Task, create_experiment, precision
from zoo.detection.plots import plot_detections
from zoo.detection.shards import Dataset
from zoo.errors import needs_extra, require
from zoo.files import check_no_pattern, naming_full_disks
from zoo.run_folder import read_json
from zoo.train.run import Metrics, Run, Stop, resuming, stopped

with needs_extra("detection"):
    from official.core import base_trainer, train_lib, train_utils

GRID_SAMPLE = 12  # test images of predictions.png
LOSSES = {"rpn_score_loss": "proposals", "frcnn_cls_loss": "classes", "frcnn_box_loss": "boxes"}
MASK_LOSSES = {"mask_loss": "masks"}


class DetectionRun(Run):
    """A training run of a Mask R-CNN, or of a Faster R-CNN where the data have no masks."""

    head = "# A detector: python -m zoo.evaluate | predict | export --run FOLDER\n"
    precision = staticmethod(precision)  # of Keras 3 and tf_keras
    config: DetectionConfig

    def load(self) -> None:
        why = "the Model Garden restores checkpoints on the first worker alone"
        expected = f"strategy: expected the devices of one machine or a TPU: {why}"
        require(self.devices.host.count == 1, expected, self.devices)
        self._checkpoints = str(self.config.output_dir / run_folder.CHECKPOINTS)
        check_no_pattern(self.config.output_dir, "output_dir", "TensorFlow's checkpoints take")
        self.check_multiple("batch_size")
        self.check_multiple("test_batch_size")
        config, data = self.config, self.config.data
        self.dataset = dataset = Dataset.read(data.dir)
        most = f"{dataset.train.images}, the number of training images"
        fits = data.batch_size <= dataset.train.images
        require(fits, f"data.batch_size: expected at most {most}", data.batch_size)
        self.experiment = create_experiment(
            config, dataset.categories, dataset.masks, dataset.most_objects
        )
        self._masks = self.experiment.task.model.include_mask
        self.images = dataset.train.images, dataset.val.images
        self.classes = len(dataset.categories)
        index = config.output_dir / run_folder.INDEX
        if self.resumed and index.is_file():  # the run has read the training images
            expected = f"output_dir: expected an intact {index.name}"
            self._counts = read_json(shards.Counts, index, expected).here(data.dir)
        else:
            smallest = config.model.image_size * min(data.scale_min, 1)
            ids = shards.check(data.dir, dataset, shards.TRAIN, smallest)
            counts = {file: len(ids[file]) for file in ids}
            self._counts = shards.Counts(train=counts, sizes=(*file_sizes([*ids]),))
        self.index = self._counts.model_dump()
        ids = shards.check(data.dir, dataset, shards.TEST, config.model.image_size)
        self._files = [*self._counts.train, *ids]
        self.annotations = shards.read_annotations(data.dir, dataset, ids)

    def build(self) -> list[str]:
        config, path = self.config, tf.train.latest_checkpoint(self._checkpoints)
        first_step = int(path.rpartition("-")[2]) if path else 0
        records = partial(shards.training_records, config, self._counts, first_step)
        self.task = Task(self.experiment, self._checkpoints, self.annotations, records)
        with redirect_stdout(io.StringIO()):
            self.model = self.task.build_model()
            # `create_trainer` would add words of its own to errors of the model.
            self.trainer = base_trainer.Trainer(
                self.experiment,
                self.task,
                model=self.model,
                optimizer=train_utils.create_optimizer(self.task, self.experiment),
            )
            # If the first step created these variables, it would be traced twice.
            self.trainer.optimizer._create_all_weights(self.model.trainable_variables)
        return [self.summary(title(config.model.name, self._masks))]

    def fit(self, stop: Stop) -> Metrics:
        steps = self.config.training.steps
        self._stop, self._out = stop, sys.stdout
        self._step, self._time = 0, time.monotonic()
        self._seconds = tf.Variable(tf.zeros([], tf.float64), trainable=False)
        setattr(self.trainer.checkpoint, SECONDS, self._seconds)
        # Orbit and pycocotools print lines of their own.
        with redirect_stdout(io.StringIO()), in_one_line(self.config.output_dir, self._files):
            self._runner = train_lib.OrbitExperimentRunner(
                tf.distribute.get_strategy(),
                self.task,
                "train_and_eval",
                self.experiment,
                self._checkpoints,
                train_actions=[self._trained],
                eval_actions=[self._evaluated],
                trainer=self.trainer,
            )
            if first := int(self.trainer.global_step.numpy()):
                self._print(resuming(first, steps))
            results = self._runner.controller.train_and_evaluate(
                steps, -1, self.config.training.evaluation_steps
            )
            if results is None:  # all steps were done already
                self._runner.controller.evaluate(-1)
        labels = self.dataset.model_dump(mode="json", include=set(shards.Labels.model_fields))
        return self.metrics(self.task.figures, float(self._seconds.numpy()), **labels)

    def _trained(self, logs: Mapping[str, Any]) -> None:
        """Prints the mean losses of an execution, learning rate and speed; stops if interrupted."""
        step, before = int(self.trainer.global_step.numpy()), self._time
        self._count_seconds()
        speed = f"{(step - self._step) / (self._time - before):.2f} steps/s" if self._step else ""
        self._step = step
        losses = LOSSES | (MASK_LOSSES if self._masks else {})
        shown = ", ".join(f"{name} {float(logs[key]):.3f}" for key, name in losses.items())
        self._print(
            f"step {step}/{self.config.training.steps}  loss {float(logs['total_loss']):.3f} "
            f"({shown})  rate {float(logs['learning_rate']):.4f}  {speed}".rstrip()
        )
        if self._stop():
            self._runner.checkpoint_manager.save(step, check_interval=False)
            raise stopped(step)

    def _evaluated(self, _: Mapping[str, Any]) -> None:
        self._print(report.line(self.task.figures))
        self._count_seconds()

    def _count_seconds(self) -> None:
        before, self._time = self._time, time.monotonic()
        self._seconds.assign_add(self._time - before)

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def write(self, metrics: Metrics) -> str:
        config = self.config
        detector = Detector.restore(config, self.dataset, self._masks)
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


@contextmanager
def in_one_line(folder: Path, files: Sequence[str] = ()) -> Iterator[None]:
    """Ends training with one line for a non-finite loss, bad data or a full disk."""
    try:
        with naming_full_disks(folder), naming_errors(files):
            yield
    except tf.errors.NotFoundError as error:
        raise ValueError(f"data.dir: {reason(error)}") from None
    except RuntimeError as error:
        if "The loss value is" not in str(error):
            raise
        way = "a lower optimizer.learning_rate may help"
        raise ValueError(f"the loss does not stay finite; {way}: {error}") from None


train = DetectionRun.train
