"""One training run of a detector, by the Model Garden's trainer."""

import contextlib
import io
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import keras
import tensorflow as tf

from zoo import run_folder
from zoo.config.detection import DetectionConfig
from zoo.data.errors import reason
from zoo.detection import report, shards
from zoo.detection.coco import Json
from zoo.detection.detector import Detector
from zoo.detection.experiment import create_experiment, create_task, precision
from zoo.detection.shards import Dataset
from zoo.devices import Devices, find_devices
from zoo.errors import needs_extra
from zoo.files import naming_full_disks
from zoo.plots.detections import plot_detections
from zoo.train.stop import stop_signals, stopped

with needs_extra("detection"):
    from official.core import base_trainer, train_lib, train_utils

HEAD = "# A detector: python -m zoo.evaluate | predict | export --run FOLDER\n"
SHEET = 12  # test images of predictions.png
PARTS = {"rpn_score_loss": "proposals", "frcnn_cls_loss": "classes", "frcnn_box_loss": "boxes"}
MASKS = {"mask_loss": "masks"}


def train(config: DetectionConfig) -> dict[str, Any]:
    """Trains a detector and writes its run folder; everything is checked before the first step.

    Args:
        config: All settings.

    Returns:
        What `metrics.json` holds: AP on the test images, counts and categories.

    Raises:
        ValueError: If the run folder is in use, or devices, data, model arguments or weights do
            not fit the settings, or the loss does not stay finite.
    """
    resumed = run_folder.check(config)
    dataset = Dataset.read(config.data.dir)
    experiment = create_experiment(config, dataset.categories, dataset.masks)
    devices = find_devices(config.strategy, config.tpu)
    _check_devices(config, devices)
    checkpoints = str(config.output_dir / run_folder.CHECKPOINTS)
    # Only now: both create TensorFlow's context, a TPU has to be connected before.
    annotations = _check_data(config, dataset, resumed)
    keras.utils.set_random_seed(_seed(config.training.seed, checkpoints))
    masks = experiment.task.model.include_mask
    strategy = devices.strategy or tf.distribute.get_strategy()
    task = create_task(experiment, checkpoints, annotations)
    with precision(config.training.precision), _quiet() as out:
        with strategy.scope():
            # Not by `create_trainer`, which adds words of its own to errors of the model.
            trainer = base_trainer.Trainer(
                experiment,
                task,
                model=task.build_model(),
                optimizer=train_utils.create_optimizer(task, experiment),
            )
        parameters = sum(math.prod(v.shape) for v in trainer.model.trainable_variables)
        print(config.to_yaml(), file=out)
        print(
            f"{'Mask' if masks else 'Faster'} R-CNN on {config.model.name}: {parameters:,} "
            "trainable parameters; "
            f"{dataset.train.images} training and {dataset.val.images} test images of "
            f"{len(dataset.categories)} categories; {devices}",
            file=out,
            flush=True,
        )
        if not run_folder.check(config):
            run_folder.start(config, HEAD)
        progress = _Progress(trainer, config, out, {**PARTS, **(MASKS if masks else {})})
        runner = train_lib.OrbitExperimentRunner(
            strategy,
            task,
            "train_and_eval",
            experiment,
            checkpoints,
            train_actions=[progress.trained],
            eval_actions=[progress.evaluated],
            trainer=trainer,
        )
        begin, first = time.monotonic(), int(trainer.global_step.numpy())
        if first:
            print(f"going on after step {first} of {config.training.steps}", file=out, flush=True)
        with stop_signals(devices) as stop, _in_one_line(config.output_dir), strategy.scope():
            progress.end_if(stop, lambda step: runner.checkpoint_manager.save(step))
            results = runner.controller.train_and_evaluate(
                config.training.steps, -1, config.training.evaluation_steps
            )
            if results is None:  # all that was missing is the end
                runner.controller.evaluate(-1)
    metrics = {
        "model": config.model.name,
        "test": task.coco_metric.figures,
        "test_images": dataset.val.images,
        "training_images": dataset.train.images,
        "trainable_parameters": parameters,
        "training_seconds": round(time.monotonic() - begin, 1),
        "categories": {str(number): name for number, name in dataset.categories.items()},
    }
    _write_results(config, dataset, annotations, metrics, masks)
    return metrics


def _seed(seed: int, checkpoints: str) -> int:
    """Another seed after every resume: the same one would show the first images again."""
    path = tf.train.latest_checkpoint(checkpoints)
    step = int(path.rpartition("-")[2]) if path else 0
    return (seed + step) % 2**32


def _check_data(config: DetectionConfig, dataset: Dataset, resumed: bool) -> Json:
    """Reads all shards once, those for training only before the first step."""
    if not resumed:
        smallest = config.model.image_size * min(config.data.scale_min, 1)
        shards.check(config.data.dir, dataset, shards.TRAIN, smallest)
    ids = shards.check(config.data.dir, dataset, shards.TEST, config.model.image_size)
    return shards.read_annotations(config.data.dir, dataset, ids)


def _check_devices(config: DetectionConfig, devices: Devices) -> None:
    if devices.host.count > 1:
        raise ValueError(
            "strategy: expected the devices of one machine or a TPU: the Model Garden restores "
            f"checkpoints on the first worker alone. Received: {devices}"
        )
    for name in ("batch_size", "test_batch_size"):
        size = getattr(config.data, name)
        if size % devices.replicas:
            raise ValueError(
                f"data.{name}: expected a multiple of {devices.replicas}, the number of devices. "
                f"Received: {size}"
            )


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
    """Prints a line after every call of the compiled function, and after every evaluation."""

    def __init__(
        self, trainer: Any, config: DetectionConfig, out: TextIO, parts: Mapping[str, str]
    ) -> None:
        self._trainer, self._config, self._out, self._parts = trainer, config, out, parts
        self._step, self._time = 0, time.monotonic()
        self._stop: Callable[[], bool] = lambda: False
        self._save: Callable[[int], Any] = lambda step: None

    def end_if(self, stop: Callable[[], bool], save: Callable[[int], Any]) -> None:
        """Saves and ends the run after the call of the function in which `stop` becomes true."""
        self._stop, self._save = stop, save

    def trained(self, logs: Mapping[str, Any]) -> None:
        """Takes the mean losses since the last call, and the rate."""
        step, now = int(self._trainer.global_step.numpy()), time.monotonic()
        speed = f"{(step - self._step) / (now - self._time):.2f} steps/s" if self._step else ""
        self._step, self._time = step, now
        parts = ", ".join(f"{name} {float(logs[key]):.3f}" for key, name in self._parts.items())
        self._print(
            f"step {step}/{self._config.training.steps}  loss {float(logs['total_loss']):.3f} "
            f"({parts})  rate {float(logs['learning_rate']):.4f}  {speed}".rstrip()
        )
        if self._stop():
            self._save(step)
            raise stopped(step)

    def evaluated(self, logs: Mapping[str, Any]) -> None:
        """Prints the results of the evaluator."""
        self._print(report.line(self._trainer.task.coco_metric.figures))
        self._time = time.monotonic()

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def _write_results(
    config: DetectionConfig,
    dataset: Dataset,
    annotations: Json,
    metrics: dict[str, Any],
    masks: bool,
) -> None:
    folder = config.output_dir
    detector = Detector.restore(config, dataset.categories, masks)
    images = shards.read_images(shards.pattern(config.data.dir, shards.TEST), SHEET)
    truth = shards.by_image(annotations)
    plot_detections(
        [
            (truth[number][0], image, detector.detect(image, number), truth[number][1])
            for number, image in images.items()
        ],
        detector.categories,
        f"{config.model.name}: {report.line(metrics['test'])}",
        folder / run_folder.PREDICTIONS,
    )
    run_folder.write_metrics(folder, metrics)
    run_folder.check_still_there(folder)
    seconds = metrics["training_seconds"]
    print(
        f"{report.line(metrics['test'])} ({dataset.val.images} test images), {seconds:.0f} s of "
        f"training\nrun folder: {folder}"
    )
