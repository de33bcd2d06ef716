"""One training run, from settings to a folder of results."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from zoo import run_folder
from zoo.checkpoints import Checkpoints, Progress, SaveProgress
from zoo.config import TrainConfig
from zoo.data import ImageData, load_data
from zoo.files import replacing
from zoo.inference import predict
from zoo.optimizers import create_optimizer
from zoo.plots import plot_curves, plot_predictions
from zoo.registry import create_model
from zoo.strategy import create_strategy, describe
from zoo.training_model import TrainingModel

SHEET_SAMPLE = 512  # test images among which the sheet of predictions looks for mistakes


def train(config: TrainConfig) -> dict[str, Any]:
    """Trains a model and writes its run folder; everything is checked before the first step.

    Args:
        config: All settings.

    Returns:
        What `metrics.json` holds: test metrics, counts, class names and the history by epoch.

    Raises:
        ValueError: If the run folder is in use, or devices, images, model arguments or weights
            do not fit the settings, or the loss does not stay finite.
    """
    resuming = run_folder.check(config)
    print(config.to_yaml())
    strategy = create_strategy(config.strategy, config.tpu)
    _check_replicas(config, strategy.num_replicas_in_sync)
    # Only now: a seed creates TensorFlow's context, a TPU has to be connected before.
    keras.utils.set_random_seed(config.training.seed)
    data = load_data(config.data, config.model.size, config.training.seed)
    with _precision(config.training.precision), strategy.scope():
        model = _compiled_model(config, data)
    print(
        f"{config.model.name}: {_trainable_parameters(model):,} trainable parameters; "
        f"{data.train.count} training and {data.test.count} test images of "
        f"{len(data.class_names)} classes; {describe(strategy)}"
    )
    if not resuming:
        run_folder.start(config)
    return _fit(model, data, config)


def _check_replicas(config: TrainConfig, replicas: int) -> None:
    if replicas == 1:
        return
    if config.data.batch_size % replicas:
        raise ValueError(
            f"data.batch_size: expected a multiple of {replicas}, the number of devices. "
            f"Received: {config.data.batch_size}"
        )
    if config.training.jit_compile:
        raise ValueError(
            "training.jit_compile: expected false on several devices, where Keras cannot compile "
            f"with XLA (a TPU does in any case). Received: true, on {replicas} devices"
        )


@contextmanager
def _precision(policy: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _compiled_model(config: TrainConfig, data: ImageData) -> TrainingModel:
    size, training = config.model.size, config.training
    steps_per_epoch = data.train.steps_per_epoch(config.data.batch_size)
    model = TrainingModel(
        create_model(
            config.model.name,
            classes=len(data.class_names),
            input_shape=(size, size, 3),
            weights=config.model.weights,
            **config.model.overrides,
        ),
        steps_per_epoch,
        data.test.steps(config.data.batch_size),
    )
    optimizer = create_optimizer(
        config.optimizer, config.data.batch_size, steps_per_epoch, training.epochs
    )
    model.compile(
        optimizer,
        keras.losses.CategoricalCrossentropy(label_smoothing=training.label_smoothing),
        metrics=["accuracy"],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,  # pyright: ignore[reportArgumentType]
    )
    optimizer.build(model.trainable_variables)
    return model


def _fit(model: TrainingModel, data: ImageData, config: TrainConfig) -> dict[str, Any]:
    folder, classes = config.output_dir, len(data.class_names)
    batch_size, steps, epochs = (
        config.data.batch_size,
        model.steps_per_epoch,
        config.training.epochs,
    )
    checkpoints = Checkpoints(folder / run_folder.CHECKPOINTS, model.network, model.optimizer)
    progress = checkpoints.restore() or Progress()
    if progress.step:
        print(f"going on after step {progress.step} of {steps * epochs}")
    test = data.test.batches(batch_size, classes)
    begin = time.monotonic()
    with _told_to_stop() as stop:
        callbacks = [
            SaveProgress(checkpoints, progress, config.training.checkpoint_steps, stop),
            keras.callbacks.TensorBoard(str(folder / run_folder.LOGS)),
        ]
        # What is left of an epoch that was interrupted, then all others.
        epoch, done = divmod(progress.step, steps)
        parts = [(epoch, epoch + 1, steps - done)] if done else []
        for first, last, length in [*parts, (epoch + bool(done), epochs, steps)]:
            if first < last:
                model.fit(
                    data.train.batches(batch_size, classes, first_step=progress.step),
                    validation_data=test,
                    validation_steps=model.evaluation_steps,
                    shuffle=False,  # the pipeline shuffles
                    initial_epoch=first,
                    epochs=last,
                    steps_per_epoch=length,
                    callbacks=callbacks,
                )
    history = {name: [epoch[name] for epoch in progress.history] for name in progress.history[0]}
    metrics = {
        "model": config.model.name,
        "test": model.evaluate(test, steps=model.evaluation_steps, return_dict=True, verbose=0),  # pyright: ignore[reportArgumentType]
        "test_images": data.test.count,
        "training_images": data.train.count,
        "trainable_parameters": _trainable_parameters(model),
        "training_seconds": round(time.monotonic() - begin, 1),
        "class_names": list(data.class_names),
        "history": history,
    }
    _write_results(model.network, data, config, metrics)
    return metrics


@contextmanager
def _told_to_stop() -> Iterator[Callable[[], bool]]:
    """Yields what says whether SIGTERM has come, as before a preemption."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGTERM, before)


def _write_results(
    model: keras.Model, data: ImageData, config: TrainConfig, metrics: dict[str, Any]
) -> None:
    folder = config.output_dir
    with replacing(folder / run_folder.WEIGHTS) as path:
        model.save_weights(path)
    with replacing(folder / run_folder.MODEL) as path:
        model.save(path)
    accuracy = f"test accuracy {metrics['test']['accuracy']:.4f} ({data.test.count} images)"
    title = f"{config.model.name} on {config.data.source}, {accuracy}"
    plot_curves(metrics["history"], title, folder / run_folder.CURVES)

    images, labels = data.test.sample(SHEET_SAMPLE)
    probabilities = predict(model, images)
    wrong = np.count_nonzero(probabilities.argmax(-1) != labels)
    plot_predictions(
        images,
        labels,
        probabilities,
        data.class_names,
        f"{config.model.name}: predicted class and its probability; "
        f"{wrong} of {len(images)} test images wrong (red)",
        folder / run_folder.PREDICTIONS,
    )
    run_folder.write_metrics(folder, metrics)
    print(f"{accuracy}, {metrics['training_seconds']:.0f} s of training\nrun folder: {folder}")


def _trainable_parameters(model: keras.Model) -> int:
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
