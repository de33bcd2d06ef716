"""One training run, from settings to a folder of results."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.errors import naming_errors
from zoo.data.labels import balanced_weights
from zoo.data.load import ImageData, load_data
from zoo.devices import Devices, find_devices, precision
from zoo.errors import some
from zoo.files import atomic_write, keras_file, remove
from zoo.inference.classifier import predict
from zoo.plots.predictions import plot_predictions
from zoo.plots.training import plot_curves
from zoo.registry import trainable_parameters
from zoo.train.accumulation import GradientAccumulation
from zoo.train.callbacks import (
    Bar,
    DecodingSpeed,
    Report,
    SaveProgress,
    stopped_early,
    write_epochs,
)
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.losses import Objective, create_loss
from zoo.train.model import TrainingModel, mark_blocks
from zoo.train.network import check_weights, create_network, give_logits, prepare
from zoo.train.optimizer import add_weight_decay, create_optimizer
from zoo.train.plan import plan
from zoo.train.stop import stop_signals
from zoo.train.teacher import load_teacher
from zoo.train.user_callbacks import load_callbacks

SHEET_SAMPLE = 512  # test images among which the sheet of predictions looks for mistakes
AUGMENTED_SAMPLE = 16  # training images that TensorBoard shows
SLOW = 0.1  # initial values in batch statistics after an epoch that are worth a word


def train(config: TrainConfig) -> dict[str, Any]:
    """Trains a model and writes its run folder; everything is checked before the first step.

    With several processes, each is given the same settings, and the first one writes the files.

    Args:
        config: All settings.

    Returns:
        What `metrics.json` holds: test metrics, counts, class names and the history by epoch.

    Raises:
        ValueError: If the run folder is in use, or devices, images, model arguments or weights
            do not fit the settings, or the loss does not stay finite.
    """
    run_folder.check(config)
    devices = find_devices(config.strategy, config.tpu)
    _check_devices(config, devices)
    _check_backend(config)
    callbacks = load_callbacks(config.training.callbacks)
    check_weights(config.model)
    # Only now: a seed creates TensorFlow's context, a TPU has to be connected before.
    keras.utils.set_random_seed(config.training.seed)
    data = load_data(config.data, config.model.size, config.training.seed)
    with precision(config.training.precision), devices.scope():
        model = _compiled_model(config, data)
        print(config.to_yaml())
        print(
            f"{config.model.name}: {trainable_parameters(model):,} trainable parameters; "
            f"{data.train.count} training and {data.test.count} test images of "
            f"{len(data.class_names)} classes; {devices}",
            *plan(config, data),
            sep="\n",
        )
        _explain_slow_start(model, config)
        if devices.chief and not run_folder.check(config):
            run_folder.start(config)
        with devices.noticing_losses():
            _check_shared(config, devices)
            metrics = _fit(model, data, config, devices, callbacks)
    if devices.chief:
        _write_results(model, data, config, metrics)
    return metrics


def _check_devices(config: TrainConfig, devices: Devices) -> None:
    parts = config.training.gradient_accumulation_steps
    if config.data.batch_size % (devices.replicas * parts):
        times = f" times training.gradient_accumulation_steps={parts}" if parts > 1 else ""
        raise ValueError(
            f"data.batch_size: expected a multiple of {devices.replicas * parts}, the number of "
            f"devices{times}. Received: {config.data.batch_size}"
        )
    if config.training.jit_compile and isinstance(devices.strategy, tf.distribute.Strategy):
        raise ValueError(
            "training.jit_compile: expected false on several devices, where Keras cannot compile "
            f"with XLA (a TPU does in any case). Received: true, on {devices}"
        )
    if config.model.synchronized_batch_norm and keras.backend.backend() == "jax":
        raise ValueError(
            "model.synchronized_batch_norm: expected false on JAX, where statistics are those of "
            "the whole batch in any case. Received: true"
        )


def _check_backend(config: TrainConfig) -> None:
    if config.training.recompute and keras.backend.backend() != "jax":
        raise ValueError(
            "training.recompute: expected false on TensorFlow, where what is computed again would "
            "draw other random numbers and count batch statistics twice. Received: true"
        )


def _check_shared(config: TrainConfig, devices: Devices) -> None:
    """Waits until the first host has started the run, and makes sure that the others see it."""
    devices.gather(True)
    found = devices.gather(run_folder.is_shared(config.output_dir))
    if not all(found):
        raise ValueError(
            "output_dir: expected a folder that all hosts share, such as one in a bucket (gs://). "
            f"Received: {config.output_dir}, where {found.count(0)} of {len(found)} hosts do not "
            "find what the first one has written"
        )


def _compiled_model(config: TrainConfig, data: ImageData) -> TrainingModel:
    training, classes = config.training, len(data.class_names)
    steps_per_epoch = data.train.steps_per_epoch(config.data.batch_size)
    network = create_network(config.model, classes)
    prepare(network, config.model)
    give_logits(network)
    if training.recompute:
        mark_blocks(network)
    if not config.optimizer.decoupled:
        add_weight_decay(network, config.optimizer.weight_decay, config.optimizer.weight_decay_on)
    weights = None
    if config.data.class_weights == "balanced" and data.train.labels is not None:
        weights = balanced_weights(data.train.labels, classes)
    teacher = load_teacher(config.distillation, data.class_names, config.model.size)
    taught = config.distillation.temperature, config.distillation.share
    model = TrainingModel(
        network,
        steps_per_epoch,
        data.test.steps(config.data.batch_size),
        training.ema,
        Objective(create_loss(training, "sum_over_batch_size"), weights, teacher, *taught),
        training.recompute,
    )
    metrics: list[Any] = [keras.metrics.CategoricalAccuracy(name="accuracy")]
    if classes > 5:
        metrics.append(keras.metrics.TopKCategoricalAccuracy(5, name="top5_accuracy"))
    model.compile(
        _optimizer(config, network, steps_per_epoch),
        # Test images that only fill up the last batch have weight 0.
        create_loss(training, "mean_with_sample_weight"),
        weighted_metrics=metrics,
        steps_per_execution=training.steps_per_execution,
        # JAX is always compiled.
        jit_compile=training.jit_compile or keras.backend.backend() == "jax",  # pyright: ignore[reportArgumentType]
        auto_scale_loss=False,
    )
    return model


def _optimizer(config: TrainConfig, network: keras.Model, steps_per_epoch: int) -> Any:
    training = config.training
    optimizer = create_optimizer(
        config.optimizer, config.data.batch_size, steps_per_epoch, training.epochs, network
    )
    if training.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    if training.gradient_accumulation_steps > 1:
        optimizer = GradientAccumulation(optimizer, training.gradient_accumulation_steps)
    return optimizer


def _fit(
    model: TrainingModel,
    data: ImageData,
    config: TrainConfig,
    devices: Devices,
    own_callbacks: Sequence[keras.callbacks.Callback] = (),
) -> dict[str, Any]:
    folder, classes, batch_size = config.output_dir, len(data.class_names), config.data.batch_size
    steps, epochs = model.steps_per_epoch, config.training.epochs
    pieces = config.training.gradient_accumulation_steps
    checkpoints = Checkpoints(folder / run_folder.CHECKPOINTS, model.state, devices.chief)
    progress = checkpoints.restore() or Progress()
    found = devices.gather(progress.step)
    if len(set(found)) > 1:
        raise ValueError(
            "output_dir: expected checkpoints that all hosts share. Received: the last steps "
            f"{found} in {folder} on the {len(found)} hosts"
        )
    model.steps_done = progress.step
    patience = config.training.early_stopping_epochs
    if progress.step:
        print(f"going on after step {progress.step} of {steps * epochs}")
    test: Any = devices.distribute(
        lambda host: data.test.batches(batch_size, classes, host), batch_size
    )
    logs = folder / run_folder.LOGS
    with stop_signals(devices) as stop, naming_errors(), _naming_events(logs):
        save = SaveProgress(checkpoints, progress, config.training.checkpoint_steps, patience, stop)
        callbacks: list[Any] = [Report(batch_size), save, Bar(epochs)]
        if devices.chief:
            _show_augmented(data, str(logs))
            epochs_file = folder / run_folder.EPOCHS
            if progress.history:  # the last line may be missing
                write_epochs(epochs_file, progress)
            callbacks += [
                DecodingSpeed(
                    lambda: data.train.batches(batch_size, classes, host=devices.host),
                    batch_size,
                ),
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda *_: write_epochs(epochs_file, progress)
                ),
                keras.callbacks.TensorBoard(str(logs), write_graph=False),
                *own_callbacks,  # last: what they do to the logs is not in the run's own
            ]
        epoch, done = divmod(progress.step, steps)
        if epoch > len(progress.history):
            _evaluate_again(model, test, epoch - 1, callbacks)
        # What is left of an epoch that was interrupted, then all others.
        parts = [(epoch, epoch + 1, steps - done)] if done else []
        for first, last, length in [*parts, (epoch + bool(done), epochs, steps)]:
            if first < last and not stopped_early(progress, patience):
                model.fit(
                    devices.distribute(
                        lambda host: data.train.batches(
                            batch_size, classes, progress.step, host, pieces
                        ),
                        batch_size // pieces,
                    ),
                    validation_data=test,
                    validation_steps=model.evaluation_steps,
                    shuffle=False,  # the pipeline shuffles
                    initial_epoch=first,
                    epochs=last,
                    steps_per_epoch=length,
                    callbacks=callbacks,
                )
        if patience is not None:
            checkpoints.restore_best(progress)
            devices.gather(True)  # the first host removes what others may still read
    # Those variables were evaluated when their epoch ended.
    kept = progress.history[-1 if patience is None else progress.best_epoch or 0]
    results = {
        name.removeprefix("val_"): value for name, value in kept.items() if name.startswith("val_")
    }
    epochs_without = [
        str(number)
        for number, epoch in enumerate(progress.history, start=1)
        if not np.isfinite(epoch["val_loss"])
    ]
    if epochs_without:
        print(
            f"the test loss is not finite after epoch {some(epochs_without)}: "
            "lower optimizer.learning_rate"
        )
    history = {name: [epoch[name] for epoch in progress.history] for name in progress.history[0]}
    metrics = {
        "model": config.model.name,
        "test": results,
        "test_images": data.test.count,
        "training_images": data.train.count,
        "trainable_parameters": trainable_parameters(model),
        "training_seconds": round(progress.seconds, 1),
        "class_names": list(data.class_names),
        "history": history,
    }
    return run_folder.finite(metrics)


def _evaluate_again(
    model: TrainingModel, test: Any, epoch: int, callbacks: list[keras.callbacks.Callback]
) -> None:
    """Ends an epoch as `fit` would have done, which was interrupted in its evaluation."""
    steps = model.steps_per_epoch
    every = keras.callbacks.CallbackList(
        callbacks, model=model, verbose=1, epochs=epoch + 1, steps=steps
    )
    every.on_train_begin()
    every.on_epoch_begin(epoch)
    logs = model.get_metrics_result()
    test_logs: Any = model.evaluate(
        test,
        steps=model.evaluation_steps,
        callbacks=every,  # pyright: ignore[reportArgumentType]
        return_dict=True,
        verbose=0,  # pyright: ignore[reportArgumentType]
    )
    every.on_epoch_end(epoch, logs | {f"val_{name}": value for name, value in test_logs.items()})
    every.on_train_end()


def _explain_slow_start(model: TrainingModel, config: TrainConfig) -> None:
    """Explains validation near chance where batch statistics follow slowly."""
    norms = [
        layer
        for layer in model.network._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    momentum = max((layer.momentum for layer in norms), default=0.0)
    left = momentum**model.steps_per_epoch
    if left > SLOW and config.model.weights is None:
        print(
            f"validation starts near chance: it uses the moving averages of batch statistics, of "
            f"which {left:.0%} are still initial values after an epoch of {model.steps_per_epoch} "
            f"steps (model.batch_norm_momentum: {momentum:g})"
        )


@contextmanager
def _naming_events(logs: Any) -> Iterator[None]:
    """Reports TensorBoard's events that cannot be written; TensorFlow knows no reason.

    Raises:
        OSError: With the folder, if that is what went wrong.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if ".tfevents" not in str(error):
            raise
        raise OSError(
            f"cannot write TensorBoard's events to {logs} (no room?); the same command goes on"
        ) from error


def _show_augmented(data: ImageData, logs: str) -> None:
    """Shows in TensorBoard what the network is trained on."""
    images, _ = data.train.sample(AUGMENTED_SAMPLE)
    with tf.summary.create_file_writer(f"{logs}/augmented").as_default():
        tf.summary.image("augmented", images / 255, step=0, max_outputs=AUGMENTED_SAMPLE)


def _write_results(
    model: TrainingModel, data: ImageData, config: TrainConfig, metrics: dict[str, Any]
) -> None:
    folder = config.output_dir
    # On one device, in float32 and without what belongs to training.
    network = create_network(config.model, len(data.class_names))
    raw = [keras.ops.convert_to_numpy(variable) for variable in model.network.weights]
    if model.averages is not None:
        network.set_weights(raw)
        with atomic_write(folder / run_folder.RAW_WEIGHTS) as path:
            path.write_bytes(keras_file(network, path.name))
        raw = [keras.ops.convert_to_numpy(variable) for variable in model.averages.weights]
    network.set_weights(raw)
    with atomic_write(folder / run_folder.WEIGHTS) as path:
        path.write_bytes(keras_file(network, path.name))
    with atomic_write(folder / run_folder.MODEL) as path:
        path.write_bytes(keras_file(network))
    accuracy = f"test accuracy {metrics['test']['accuracy']:.4f} ({data.test.count} images)"
    title = f"{config.model.name} on {config.data.source}, {accuracy}"
    plot_curves(metrics["history"], title, folder / run_folder.CURVES)

    images, labels = data.test.sample(SHEET_SAMPLE)
    probabilities = predict(network, images)
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
    run_folder.check_still_there(folder)
    if config.training.delete_checkpoint:
        remove(folder / run_folder.CHECKPOINTS)
    print(f"{accuracy}, {metrics['training_seconds']:.0f} s of training\nrun folder: {folder}")
