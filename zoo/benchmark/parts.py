"""Where the time of a training step goes: `python -m zoo.benchmark parts --help`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from zoo.benchmark.networks import Network, ZooNetwork, parse
from zoo.benchmark.report import Column, Report, threads
from zoo.benchmark.settings import TRAINING, BenchmarkSettings, MinMs, MixedDtype, Rounds
from zoo.benchmark.timing import Run, time_in_turn, together
from zoo.cli.run import use_backend
from zoo.cli.settings import checked_by

if TYPE_CHECKING:
    import keras

    from zoo.benchmark.backends import Backend, Step

STEP, OPTIMIZER, REST, OTHERS = "training step", "optimizer", "rest", "other layers"
CONVENTIONS = {
    STEP: "as python -m zoo.benchmark models times it",
    "layers": "forward with training=True and the gradients by inputs and weights, each compiled "
    "and timed by itself on random inputs; layers that are alike are timed once and counted",
    OPTIMIZER: "SGD with momentum 0.9, given the gradients",
    REST: "the step without the sum of all parts; below 0 where the compiler joins layers: what "
    "passes between layers is not written and read again then",
}
COLUMNS = (
    Column("layers", "count", str),
    Column("ms", "ms"),
    Column("of the step", "share", "{:.0%}".format),
)


def _of_the_zoo(text: str) -> None:
    if parse(text).library != ZooNetwork.library:
        raise ValueError(f"expected a network of the zoo. Received: {text!r}")


class Config(BenchmarkSettings, cli_prog_name="python -m zoo.benchmark parts"):
    """Times the layers of a network by kind, the optimizer, and the whole training step, in turn.

    --model is NAME[@SIZE][:ARGUMENT=VALUE]... of the zoo. TensorFlow, with XLA or without.
    """

    model: Annotated[str, checked_by(_of_the_zoo)] = Field(
        default="lambda_resnet50@160", description="Network."
    )
    batch: int = Field(default=8, ge=1, description="Images per step.")
    dtype: MixedDtype = Field(default="float32", description="Keras dtype policy of the network.")
    xla: bool = Field(default=False, description="Compile with XLA.")
    repeats: Rounds = 5
    min_ms: MinMs = 30


@dataclass(frozen=True)
class Part:
    """Layers that are alike, or the optimizer.

    Attributes:
        kind: Row of the table.
        name: What is timed.
        count: How many there are in the network.
        prepare: Compiles it.
    """

    kind: str
    name: str
    count: int
    prepare: "Callable[[], Step]"


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    use_backend("tensorflow")
    from zoo.benchmark.backends import current_backend

    backend = current_backend(config.xla)
    report = Report(config, arguments, ["tensorflow"], CONVENTIONS, {"threads": threads()})
    network = parse(config.model, config.batch, config.dtype)
    parts = [*layer_parts(network, backend), optimizer_part(network, backend)]
    steps = {part.name: part.prepare for part in parts}
    steps[STEP] = network.steps(TRAINING, backend)[""]

    def prepare(name: str) -> Run:
        return together(steps[name]().run)

    timings = time_in_turn(
        {name: partial(prepare, name) for name in steps}, config.repeats, config.min_ms / 1e3
    )
    ms = {name: 1e3 * timing.seconds for name, timing in timings.items()}
    report.content["parts"] = [
        {"kind": part.kind, "part": part.name, "count": part.count, "ms": ms[part.name]}
        for part in parts
    ]
    report.table(f"{network.name}, batch {config.batch}", "part", COLUMNS, rows(parts, ms))
    report.finish()


def rows(parts: Sequence[Part], ms: dict[str, float]) -> list[dict[str, Any]]:
    """The kinds of parts, the slowest first, then what is left of the step, and the step."""
    kinds = {part.kind: [0, 0.0] for part in parts}
    for part in parts:
        kinds[part.kind][0] += part.count
        kinds[part.kind][1] += part.count * ms[part.name]
    table = [
        {"part": kind, "count": count, "ms": total}
        for kind, (count, total) in sorted(kinds.items(), key=lambda item: -item[1][1])
    ]
    rest = ms[STEP] - sum(row["ms"] for row in table)
    table.append({"part": REST, "count": None, "ms": rest})
    table.append({"part": STEP, "count": None, "ms": ms[STEP]})
    return [{**row, "share": row["ms"] / ms[STEP]} for row in table]


def layer_parts(network: Network, backend: "Backend") -> Iterator[Part]:
    """The layers of a network, those that are alike together."""
    import keras

    alike: dict[str, list[keras.layers.Layer]] = {}
    for layer in network.built.layers:  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(layer, keras.layers.InputLayer):
            continue
        config = {key: value for key, value in layer.get_config().items() if key != "name"}
        shapes = [tensor.shape for tensor in keras.tree.flatten(layer.input)]
        alike.setdefault(f"{type(layer).__name__} {shapes} {config}", []).append(layer)
    for layers in alike.values():
        prepare = partial(_step, layers[0], network.batch, backend)
        yield Part(kind_of(layers[0]), layers[0].name, len(layers), prepare)


def kind_of(layer: "keras.layers.Layer") -> str:
    """The row of the table that a layer belongs to."""
    from keras import layers

    from lambda_keras.layers import LambdaLayer

    kinds = {
        "lambda layers": LambdaLayer,
        "convolutions": (layers.Conv2D, layers.DepthwiseConv2D),
        "batch normalization": layers.BatchNormalization,
        "activations": (layers.Activation, layers.ReLU),
        "additions": layers.Add,
    }
    return next((kind for kind, types in kinds.items() if isinstance(layer, types)), OTHERS)


def _step(layer: "keras.layers.Layer", batch: int, backend: "Backend") -> "Step":
    import keras

    from zoo.benchmark.backends import random_tensor

    def random(tensor: Any, seed: int) -> Any:
        return random_tensor((batch, *tensor.shape[1:]), tensor.dtype, seed)

    inputs = keras.tree.map_structure(lambda tensor: random(tensor, 1), layer.input)
    return backend.forward_backward(layer, inputs, random(layer.output, 2))


def optimizer_part(network: Network, backend: "Backend") -> Part:
    """One update of all trainable variables."""
    import keras

    from zoo.benchmark.backends import random_tensor

    def prepare() -> "Step":
        variables = network.built.trainable_variables  # pyright: ignore[reportAttributeAccessIssue]
        optimizer = keras.optimizers.SGD(learning_rate=0.0, momentum=0.9)
        optimizer.build(variables)
        gradients = [random_tensor(variable.shape, variable.dtype, 1) for variable in variables]
        return backend.compile(lambda *given: optimizer.apply(given, variables), *gradients)

    return Part(OPTIMIZER, OPTIMIZER, 1, prepare)
