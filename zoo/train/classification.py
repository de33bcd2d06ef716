"""A training run of a classifier, by Keras' `fit`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.errors import naming_errors
from zoo.data.load import balanced_weights, load_data, normalize
from zoo.data.pseudo import WithPseudoLabels, with_pseudo_labels
from zoo.errors import printable, some
from zoo.files import atomic_write, keras_file
from zoo.inference.classifier import predict
from zoo.plots.classification import plot_curves, plot_predictions
from zoo.train.callbacks import (
    Bar,
    DecodingSpeed,
    SaveProgress,
    give_network,
    load_callback,
    write_epochs,
)
from zoo.train.checkpoints import Checkpoints, Progress
from zoo.train.loop import TrainingModel
from zoo.train.losses import Objective, create_loss
from zoo.train.network import check_weights, create_network, load_teacher, prepare, with_logits
from zoo.train.optimizer import add_weight_decay, create_optimizer
from zoo.train.recompute import mark_blocks
from zoo.train.run import Metrics, Run, Stop, resuming
from zoo.train.updates import GradientAccumulation

GRID_SAMPLE = 512  # test images among which the grid of predictions looks for mistakes
AUGMENTED_SAMPLE = 16  # training images that TensorBoard shows
FAR_APART = 4  # ratio of intended to present devices that is worth a warning
FINE_TUNE = "fine_tune"  # the configuration that starts from pretrained weights
TUNING = f"--config {FINE_TUNE}, or "
INITIAL_STATISTICS = 0.1  # share left in batch statistics after an epoch, worth a warning


class ClassificationRun(Run):
    """A training run of a classifier."""

    head = (
        "# In Python: import keras, lambda_keras; "
        f"model = keras.models.load_model({run_folder.MODEL!r})\n"
    )
    create_network = staticmethod(create_network)
    load_teacher = staticmethod(load_teacher)
    enough_images: ClassVar[int] = 5000  # fewer warn if training starts from random weights
    config: TrainConfig
    callbacks: Sequence[Any] = ()  # of users, set by `load`

    def load(self) -> None:
        config = self.config
        training, jax = config.training, keras.backend.backend() == "jax"
        self.check_multiple("batch_size", training.gradient_accumulation_steps)
        if training.jit_compile and isinstance(self.devices.strategy, tf.distribute.Strategy):
            raise ValueError(
                "training.jit_compile: expected false on several devices, where Keras cannot "
                "compile with XLA (a TPU does in any case). "
                f"Received: true, on {self.devices}"
            )
        if config.model.synchronized_batch_norm and jax:
            raise ValueError(
                "model.synchronized_batch_norm: expected false on JAX, where statistics are those "
                "of the whole batch in any case. Received: true"
            )
        if training.recompute and not jax:
            raise ValueError(
                "training.recompute: expected false on TensorFlow, where what is computed again "
                "would draw other random numbers and count batch statistics twice. Received: true"
            )
        hosts = self.devices.host.count
        self.callbacks = [load_callback(place, hosts) for place in training.callbacks]
        check_weights(config.model)
        index = config.output_dir / run_folder.INDEX if self.resumed else None
        self.data = load_data(config.data, config.model.size, training.seed, index=index)
        if config.data.pseudo.dir is not None:
            self.data = with_pseudo_labels(
                self.data, config.data, config.model.size, training.seed, training.label_smoothing
            )
            parts = self.devices.replicas * training.gradient_accumulation_steps
            size = self.data.train.step_size(config.data.batch_size)
            if size % parts:
                raise ValueError(
                    f"data.pseudo.ratio: expected a number of images in a batch that {parts} "
                    f"devices and micro-batches divide. Received: {size}, with data.batch_size="
                    f"{config.data.batch_size} labeled ones"
                )
        self.index = self.data.index
        self.classes = len(self.data.class_names)
        self.images = self.data.train.count, self.data.test.count

    def build(self) -> list[str]:
        training, data = self.config.training, self.data
        steps_per_epoch = data.train.steps_per_epoch(self.config.data.batch_size)
        network = self._network()
        trained = with_logits(network)
        self.model = model = TrainingModel(
            mark_blocks(trained) if training.recompute else trained,
            steps_per_epoch,
            data.test.steps(self.config.data.batch_size),
            training.ema,
            self.objective(),
            training.recompute,
            # `normalize` is faster, but uses TensorFlow's operations.
            preprocess_input if keras.backend.backend() == "jax" else normalize,
        )
        metrics: list[Any] = [keras.metrics.CategoricalAccuracy(name="accuracy")]
        if self.classes > 5:
            metrics.append(keras.metrics.TopKCategoricalAccuracy(5, name="top5_accuracy"))
        model.compile(
            self._optimizer(network, steps_per_epoch),
            # Test images that only fill up the last batch have weight 0.
            create_loss(training, "sum_over_batch_size"),
            weighted_metrics=metrics,
            steps_per_execution=training.steps_per_execution,
            # JAX is always compiled.
            jit_compile=training.jit_compile or keras.backend.backend() == "jax",  # pyright: ignore[reportArgumentType]
            auto_scale_loss=False,
        )
        for place, callback in zip(training.callbacks, self.callbacks, strict=True):
            give_network(callback, place, network, model)
        return [self.summary(self.config.model.name), *self.plan()]

    def _network(self) -> Any:
        network = self.create_network(self.config.model, self.classes)
        prepare(network, self.config.model)
        optimizer = self.config.optimizer
        if not optimizer.decoupled:
            add_weight_decay(network, optimizer.weight_decay, optimizer.weight_decay_on)
        return network

    def objective(self) -> Objective:
        """Creates the training loss of the settings, with the teacher and class weights."""
        config, labels = self.config, self.data.train.labels
        training, weights, ratio = config.training, None, 0.0
        if isinstance(self.data.train, WithPseudoLabels):  # it smooths labels itself
            training = training.model_copy(update={"label_smoothing": 0.0})
            ratio = self.data.train.ratio
        if config.data.class_weights == "balanced" and labels is not None:
            weights = balanced_weights(labels, self.classes)
        distillation = config.distillation
        teacher = self.load_teacher(distillation, self.data.class_names, config.model.size)
        return Objective(
            create_loss(training, "sum_over_batch_size"),
            weights,
            teacher,
            distillation.temperature,
            distillation.share,
            ratio,
        )

    def _optimizer(self, network: keras.Model, steps_per_epoch: int) -> Any:
        config, training = self.config, self.config.training
        optimizer = create_optimizer(
            config.optimizer, config.data.batch_size, steps_per_epoch, training.epochs, network
        )
        if training.precision == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        if training.gradient_accumulation_steps > 1:
            optimizer = GradientAccumulation(optimizer, training.gradient_accumulation_steps)
        return optimizer

    def plan(self) -> Iterator[str]:
        """Yields lines about classes, steps and images, and warnings."""
        config, training, data = self.config, self.config.training, self.data
        if data.train.labels is not None:
            counts = np.bincount(data.train.labels, minlength=self.classes)
            least, most = (
                f"{counts[place]:,} ({printable(data.class_names[place])})"
                for place in (counts.argmin(), counts.argmax())
            )
            equal = counts.min() == counts.max()
            yield "training images of a class: " + (
                f"{counts[0]:,} of each" if equal else f"{least} to {most}"
            )
        steps, parts = self.model.steps_per_epoch, training.gradient_accumulation_steps
        in_parts = f" in {parts} micro-batches" if parts > 1 else ""
        yield (
            f"{training.epochs} epochs of {steps:,} steps, {training.epochs * steps:,} in all, of "
            f"{config.data.batch_size} images of {config.model.size} x {config.model.size} pixels"
            f"{in_parts}"
        )
        if isinstance(data.train, WithPseudoLabels):
            others = data.train.step_size(config.data.batch_size) - config.data.batch_size
            yield (
                f"and {others} of {data.train.pseudo.count:,} "
                f"pseudo-labeled images in every step ({config.data.pseudo.labels} labels); "
                "epochs, rates and images/s count labeled images"
            )
        yield from (f"warning: {warning}" for warning in data.warnings)
        if (config.tpu_cores or 0) >= FAR_APART * self.devices.replicas:
            yield (
                f"warning: {config.config or 'this configuration'} is for {config.tpu_cores} TPU "
                f"cores. Received: {self.devices}; the first steps show how long it will take"
            )
        if config.model.weights is None:
            yield from self._random_weights()

    def _random_weights(self) -> Iterator[str]:
        """Yields warnings about a start from random weights."""
        config, steps = self.config, self.model.steps_per_epoch
        for_pretrained = {
            "optimizer.layer_decay": "None" if (config.optimizer.layer_decay or 1) < 1 else "",
            "model.freeze_backbone": "false" if config.model.freeze_backbone else "",
            "model.freeze_up_to": "None" if config.model.freeze_up_to is not None else "",
        }
        names = [name for name, without in for_pretrained.items() if without]
        if names:
            yield (
                f"warning: {' and '.join(names)}: for pretrained weights, but this run starts from "
                "random ones (model.weights), of which the first layers then learn little or "
                "nothing: pass " + " ".join(f"--{name} {for_pretrained[name]}" for name in names)
            )
        if config.data.source != "digits" and self.data.train.count < self.enough_images:
            tuned = "" if config.config and Path(config.config).stem == FINE_TUNE else TUNING
            yield (
                f"warning: {self.data.train.count:,} training images are few for random weights: "
                f"expect poor accuracy. Start from pretrained weights ({tuned}--model.weights FILE "
                "or RUN), or train on more images or fewer classes"
            )
        norms = [
            layer
            for layer in self.model.network._flatten_layers()
            if isinstance(layer, keras.layers.BatchNormalization)
        ]
        momentum = max((layer.momentum for layer in norms), default=0.0)
        if momentum**steps > INITIAL_STATISTICS:
            yield (
                "validation starts near chance: it uses the moving averages of batch statistics, "
                f"of which {momentum**steps:.0%} are still initial values after an epoch of "
                f"{steps} steps (model.batch_norm_momentum: {momentum:g})"
            )

    def fit(self, stop: Stop) -> Metrics:
        training = self.config.training
        checkpoints, progress = self.restore()
        save = SaveProgress(
            checkpoints, progress, training.checkpoint_steps, training.early_stopping_epochs, stop
        )
        files = self.data.train.files + self.data.test.files
        with naming_errors(files), naming_events(self.config.output_dir / run_folder.LOGS):
            self.fit_epochs(progress, self.all_callbacks(save))
            if training.early_stopping_epochs is not None:
                checkpoints.restore_best(progress)
                self.devices.gather(True)  # the first host removes what others may still read
            return self.results(progress)

    def restore(self) -> tuple[Checkpoints, Progress]:
        """Loads the last checkpoint; every host has to find the same one."""
        model, folder = self.model, self.config.output_dir
        checkpoints = Checkpoints(
            folder / run_folder.CHECKPOINTS, model.state, write=self.devices.chief
        )
        progress = checkpoints.restore() or Progress()
        last_steps = self.devices.gather(progress.step)
        if len(set(last_steps)) > 1:
            raise ValueError(
                "output_dir: expected checkpoints that all hosts share. Received: the last steps "
                f"{last_steps} in {folder} on the {len(last_steps)} hosts"
            )
        model.steps_done = progress.step
        model.resumed = progress.step % model.steps_per_epoch > 0
        if progress.step:
            steps = model.steps_per_epoch * self.config.training.epochs
            print(resuming(progress.step, steps), flush=True)
        return checkpoints, progress

    def all_callbacks(self, save: SaveProgress) -> list[Any]:
        """Returns the callbacks of a run, and the users' callbacks, in their order."""
        batch_size, progress = self.config.data.batch_size, save.progress
        callbacks: list[Any] = [Bar(batch_size, self.config.training.epochs), save]
        if not self.devices.chief:
            return callbacks
        logs = str(self.config.output_dir / run_folder.LOGS)
        epochs = self.config.output_dir / run_folder.EPOCHS
        if progress.history:  # the last line may be missing
            write_epochs(epochs, progress)
        images, _ = self.data.train.sample(AUGMENTED_SAMPLE)
        with tf.summary.create_file_writer(f"{logs}/augmented").as_default():
            tf.summary.image("augmented", images / 255, step=0, max_outputs=AUGMENTED_SAMPLE)
        return [
            *callbacks,
            DecodingSpeed(
                lambda: self.data.train.batches(
                    batch_size, self.classes, host=self.devices.host, normalize=False
                ),
                batch_size,
            ),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: write_epochs(epochs, progress)),
            keras.callbacks.TensorBoard(logs, write_graph=False),
            *self.callbacks,  # last: the run's own callbacks do not see their changes of the logs
        ]

    def _test_batches(self) -> Any:
        size = self.config.data.batch_size
        return self.devices.distribute(
            lambda host: self.data.test.batches(size, self.classes, host, normalize=False), size
        )

    def fit_epochs(self, progress: Progress, callbacks: list[Any]) -> None:
        """Trains the rest of an interrupted epoch, then the remaining epochs."""
        model, training = self.model, self.config.training
        batch_size, parts = self.config.data.batch_size, training.gradient_accumulation_steps
        test = self._test_batches()
        steps, train = model.steps_per_epoch, self.data.train
        epoch, done = divmod(progress.step, steps)
        if epoch > len(progress.history):
            self.evaluate_again(test, epoch - 1, callbacks)
        interrupted = [(epoch, epoch + 1, steps - done)] if done else []
        for first, last, length in [*interrupted, (epoch + bool(done), training.epochs, steps)]:
            if model.stop_training:  # by a callback in the rest of an epoch
                break
            if first < last and not progress.stopped_early(training.early_stopping_epochs):
                model.fit(
                    self.devices.distribute(
                        lambda host: train.batches(
                            batch_size, self.classes, progress.step, host, parts, normalize=False
                        ),
                        train.step_size(batch_size) // parts,
                    ),
                    validation_data=test,
                    validation_steps=model.evaluation_steps,
                    shuffle=False,  # the pipeline shuffles
                    initial_epoch=first,
                    epochs=last,
                    steps_per_epoch=length,
                    callbacks=callbacks,
                )

    def evaluate_again(
        self, test: Any, epoch: int, callbacks: list[keras.callbacks.Callback]
    ) -> None:
        """Evaluates and ends an epoch that was interrupted in its evaluation, as `fit` would."""
        model, steps = self.model, self.model.steps_per_epoch
        every = keras.callbacks.CallbackList(
            callbacks, model=model, verbose=1, epochs=epoch + 1, steps=steps
        )
        every.on_train_begin()
        every.on_epoch_begin(epoch)
        logs = model.get_metrics_result()
        test_logs = _evaluate(model, test, callbacks=every)
        every.on_epoch_end(
            epoch, logs | {f"val_{name}": value for name, value in test_logs.items()}
        )
        every.on_train_end()

    def results(self, progress: Progress) -> Metrics:
        """Returns the metrics of the epoch that is kept."""
        history = progress.history
        # The variables of this epoch were evaluated when it ended.
        early = self.config.training.early_stopping_epochs is not None
        kept = history[(progress.best_epoch or 0) if early else -1]
        finite = np.isfinite([epoch["val_loss"] for epoch in history])
        if not finite.all():
            epochs = some(map(str, np.flatnonzero(~finite) + 1))
            print(
                f"the test loss is not finite after epoch {epochs}: lower optimizer.learning_rate"
            )
        test = {
            name.removeprefix("val_"): value
            for name, value in kept.items()
            if name.startswith("val_")
        }
        # Callbacks may have changed the weights since then, and devices have batch statistics of
        # their own, of which the mean is saved.
        synchronized = self.devices.replicas == 1 or self.config.model.synchronized_batch_norm
        if self.config.training.callbacks or not synchronized:
            averages = self.model.averages.weights if self.model.averages else []
            for variable in (*self.model.network.weights, *averages):
                variable.assign(keras.ops.convert_to_numpy(variable))
            keras.Model.reset_metrics(self.model)  # in the middle of an epoch, too
            test = _evaluate(self.model, self._test_batches())
        metrics = self.metrics(
            test,
            progress.seconds,
            class_names=list(self.data.class_names),
            history={name: [epoch[name] for epoch in history] for name in history[0]},
        )
        return run_folder.finite(metrics)

    def write(self, metrics: Metrics) -> str:
        folder, name = self.config.output_dir, self.config.model.name
        network = self._write_weights()
        accuracy = metrics["test"]["accuracy"]
        accuracy = f"test accuracy {accuracy:.4f} ({self.data.test.count} images)"
        title = f"{name} on {self.config.data.source}, {accuracy}"
        plot_curves(metrics["history"], title, folder / run_folder.CURVES)

        images, labels = self.data.test.sample(GRID_SAMPLE)
        probabilities = predict(network, images)
        wrong = np.count_nonzero(probabilities.argmax(-1) != labels)
        plot_predictions(
            images,
            labels,
            probabilities,
            self.data.class_names,
            f"{name}: predicted class and its probability; "
            f"{wrong} of {len(images)} test images wrong (red)",
            folder / run_folder.PREDICTIONS,
        )
        return accuracy

    def _write_weights(self) -> keras.Model:
        """Writes the network for inference: in float32, on one device, with its EMA weights."""
        folder, model = self.config.output_dir, self.model
        network = self.create_network(self.config.model, self.classes)
        weights = [keras.ops.convert_to_numpy(variable) for variable in model.network.weights]
        if model.averages is not None:
            network.set_weights(weights)
            _write_file(folder / run_folder.RAW_WEIGHTS, network)
            weights = [keras.ops.convert_to_numpy(array) for array in model.averages.weights]
        network.set_weights(weights)
        _write_file(folder / run_folder.WEIGHTS, network)
        _write_file(folder / run_folder.MODEL, network)
        return network


def _write_file(path: Path, network: keras.Model) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(keras_file(network, path.name))


def _evaluate(model: TrainingModel, test: Any, **arguments: Any) -> Metrics:
    options = {"return_dict": True, "verbose": 0, **arguments}
    return model.evaluate(test, steps=model.evaluation_steps, **options)  # pyright: ignore


@contextmanager
def naming_events(logs: Any) -> Iterator[None]:
    """Names the folder of TensorBoard's events in errors, as TensorFlow's error gives no reason."""
    try:
        yield
    except tf.errors.OpError as error:
        if ".tfevents" not in str(error):
            raise
        raise OSError(
            f"cannot write TensorBoard's events to {logs} (no room?); the same command "
            "resumes the run"
        ) from error


train = ClassificationRun.train
