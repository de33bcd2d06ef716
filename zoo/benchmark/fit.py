"""What `fit` costs beside the training steps: `python -m zoo.benchmark fit --help`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from zoo.benchmark.report import Column, Report, digits
from zoo.benchmark.settings import BenchmarkSettings, Rounds
from zoo.benchmark.timing import Run, time_in_turn, together
from zoo.cli.run import use_backend
from zoo.cli.settings import LocalPath, checked_by
from zoo.registry import find_model

BARE = "tf.function"
CONVENTIONS = {
    "seconds_per_step": "median over the rounds, all in turn in one process",
    "overhead": f"time beside that of {BARE}, as a share of it",
}
COLUMNS = (
    Column("ms per step", "seconds_per_step", partial(digits, factor=1e3)),
    Column("overhead", "overhead", "{:+.1%}".format),
)


class Config(BenchmarkSettings, cli_prog_name="python -m zoo.benchmark fit"):
    """Times epochs of the trainer's fit against the same steps in a bare tf.function, in turn.

    The bare steps read the same data, and compute loss, gradients and update; fit counts metrics,
    calls callbacks and keeps every epoch exact, too. TensorFlow, one device, random images.
    """

    config: LocalPath | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    model: Annotated[str, checked_by(find_model)] = Field(
        default="lambda_resnet14", description="Model, by its name in the zoo."
    )
    image_size: int = Field(default=32, ge=8, description="Height and width in pixels.")
    batch_size: int = Field(default=32, ge=1, description="Images per step.")
    steps: int = Field(default=100, ge=1, description="Steps of an epoch.")
    steps_per_execution: list[PositiveInt] = Field(
        default=[1, 10], description="Steps per call of the compiled function, each in turn."
    )
    repeats: Rounds = 7


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    use_backend("tensorflow")
    report = Report(config, arguments, ["tensorflow"], CONVENTIONS)
    # Every epoch is timed by itself.
    computations: dict[str, Callable[[], Run]] = {BARE: lambda: together(_bare(config))}
    for count in config.steps_per_execution:
        name = f"fit, {count} per execution"
        computations[name] = lambda count=count: together(_fit(config, count))
    timings = time_in_turn(computations, config.repeats, 0.0)
    rows = [
        {
            "what": name,
            "seconds_per_step": timing.seconds / config.steps,
            "rounds": [seconds / config.steps for seconds in timing.rounds],
            "overhead": timing.seconds / timings[BARE].seconds - 1,
        }
        for name, timing in timings.items()
    ]
    report.table(f"{config.model}, {config.steps} steps", "what", COLUMNS, rows)
    report.finish()


def _create(config: Config) -> tuple[Any, Any, Any]:
    """Returns a network, its optimizer, and endless batches of random images."""
    import keras
    import numpy as np
    import tensorflow as tf

    from zoo.registry import create_model

    shape, classes = (config.image_size, config.image_size, 3), 10
    rng, count = np.random.default_rng(0), 4 * config.batch_size
    images = rng.standard_normal((count, *shape)).astype("float32")
    labels = np.eye(classes, dtype="float32")[rng.integers(0, classes, count)]
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.batch(config.batch_size, drop_remainder=True).cache().repeat().prefetch(4)
    network = create_model(config.model, classes=classes, input_shape=shape)
    return network, keras.optimizers.SGD(0.001, momentum=0.9), data


def _bare(config: Config) -> Callable[[int], None]:
    import keras
    import tensorflow as tf

    network, optimizer, data = _create(config)
    optimizer.build(network.trainable_variables)
    loss_of = keras.losses.CategoricalCrossentropy()

    @tf.function(autograph=False)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, network(images, training=True))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply(gradients, network.trainable_variables)
        return loss

    def epoch(_: int) -> None:
        for batch in data.take(config.steps):
            loss = step(*batch)
        loss.numpy()

    return epoch


def _fit(config: Config, steps_per_execution: int) -> Callable[[int], Any]:
    from zoo.train.model import TrainingModel

    network, optimizer, data = _create(config)
    model = TrainingModel(network, config.steps, 1)
    model.compile(
        optimizer,
        "categorical_crossentropy",
        weighted_metrics=["accuracy"],
        steps_per_execution=steps_per_execution,
        jit_compile=False,  # pyright: ignore[reportArgumentType]
    )
    return lambda _: model.fit(data, steps_per_epoch=config.steps, shuffle=False, verbose=0)  # pyright: ignore
