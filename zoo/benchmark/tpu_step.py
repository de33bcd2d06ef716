"""The training step of a whole network, compiled or lowered for a TPU that is not there."""

import itertools
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.benchmark import fresh, report
from zoo.benchmark.networks import Dtype, Entry, create

HBM_BYTES = 16 * 2**30  # of a TPU v5e chip, and of a TPU v3 core
LEARNING_RATE, MOMENTUM, EMA, LABEL_SMOOTHING = 0.1, 0.9, 0.9999, 0.1
CONVENTIONS = {
    "step": "forward with training=True, categorical cross-entropy with label smoothing, gradients "
    f"by all trainable variables, SGD with momentum {MOMENTUM}, moving averages "
    "of the weights, statistics of batch normalizations; dropout and stochastic depth if the "
    "network has them; images in float32",
    "operations": "floating-point operations of the compiled program, by XLA's cost analysis",
    "bytes_accessed": "bytes that its operations read and write, by XLA's cost analysis",
    "argument_bytes": "weights, momenta, averages, batch statistics and images in HBM; updated in "
    "place",
    "temporary_bytes": "activations and whatever else the step needs in HBM for a while",
    "code_bytes": "the program itself, which lies in HBM, too",
    "hbm_bytes": f"all of these, on one chip; it has {HBM_BYTES}",
    "instructions": "of the program that TensorFlow hands to the TPU's compiler",
    "lowering_seconds": "time of tracing and lowering on this machine's CPU",
    "seconds": "time of the compilation on this machine's CPU",
}
COMPILED = ("operations", "bytes_accessed", "argument_bytes", "temporary_bytes", "code_bytes")
FIGURES = {
    "jax": (*COMPILED, "hbm_bytes", "lowering_seconds", "seconds"),
    "tensorflow": ("instructions", "lowering_seconds"),
}


@dataclass(frozen=True)
class Step:
    """The training step of one network.

    Args:
        network: Entry of `zoo.benchmark.networks`.
        batch: Images per chip.
    """

    network: str
    batch: int

    @classmethod
    def parse(cls, text: str) -> "Step":
        """Reads `NAME@SIZExBATCH[:ARGUMENT=VALUE]...`.

        Raises:
            ValueError: If it reads otherwise, or there is no such network.

        Example:

        >>> Step.parse("lambda_resnet50@160x128:dropout_rate=0.2")
        Step(network='lambda_resnet50@160:dropout_rate=0.2', batch=128)
        """
        match = re.fullmatch(r"([\w.]+@\d+)x([1-9]\d*)(.*)", text)
        if not match:
            raise ValueError(
                "expected NAME@SIZExBATCH[:ARGUMENT=VALUE]..., such as lambda_resnet50@160x128. "
                f"Received: {text!r}"
            )
        return cls(Entry.parse(match[1] + match[3]).text, int(match[2]))


def measure(step: Step, backend: str, dtype: Dtype, seconds: int) -> dict[str, Any]:
    """Returns the figures of one step, from a process of its own.

    Args:
        step: Which one.
        backend: "jax" compiles; "tensorflow" lowers, it cannot compile without a TPU.
        dtype: Keras dtype policy of the network.
        seconds: Time limit.
    """
    request = {**vars(step), "dtype": dtype, "seconds": seconds}
    answer = fresh.call("zoo.benchmark.tpu_step", request, {"KERAS_BACKEND": backend})
    return {**vars(step), **dict.fromkeys((*FIGURES[backend], "reason")), **answer}


def print_head(backend: str, first: int) -> None:
    """Prints the first line of the table."""
    names = {
        "jax": ("batch", "GFLOP", "GB", "arg. GB", "temp GB", "code GB", "HBM", "compiled"),
        "tensorflow": ("batch", "instructions", "lowered"),
    }
    print(report.table_line(["network", *names[backend]], first, 13))


def print_row(row: dict[str, Any], backend: str, first: int) -> None:
    """Prints one line of the table."""
    if row["reason"]:
        cells = [f"{row['network']:<{first}}- {row['reason']}"]
    elif backend == "jax":
        cells = [row["network"], str(row["batch"])]
        cells += [report.digits(row[name], 1e-9) for name in COMPILED]
        cells += [f"{row['hbm_bytes'] / HBM_BYTES:.0%}", f"{row['seconds']:.0f} s"]
    else:
        cells = [row["network"], str(row["batch"]), str(row["instructions"])]
        cells += [f"{row['lowering_seconds']:.0f} s"]
    print(report.table_line(cells, first, 13), flush=True)


def _answer(network: str, batch: int, dtype: Dtype, seconds: int) -> dict[str, Any]:
    import keras

    from zoo.benchmark.backends import current_backend

    model: Any = create(Entry.parse(network), batch, dtype, current_backend()).model  # pyright: ignore
    signal.alarm(seconds)  # ends this process: a compiler in C++ heeds no exception
    start = time.perf_counter()
    if keras.backend.backend() == "tensorflow":
        program = _lowered_by_tensorflow(model, batch)
        return {
            "instructions": len(re.findall(r"^ +(?:ROOT )?%\S+ = ", program, re.MULTILINE)),
            "lowering_seconds": time.perf_counter() - start,
        }
    lowered = _lowered_by_jax(model, batch)
    begin = time.perf_counter()
    compiled = lowered.compile()
    end = time.perf_counter()
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    figures = {
        "operations": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "argument_bytes": memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "code_bytes": memory.generated_code_size_in_bytes,
    }
    return {
        **figures,
        "hbm_bytes": sum(figures[name] for name in COMPILED[2:]),
        "lowering_seconds": begin - start,
        "seconds": end - begin,
    }


def _loss() -> Callable:
    import keras

    return keras.losses.CategoricalCrossentropy(label_smoothing=LABEL_SMOOTHING)


def _lowered_by_jax(model: Any, batch: int) -> Any:
    """Keras' own training step, lowered for a TPU that is only described."""
    import jax  # pyright: ignore[reportMissingImports]
    import keras

    from zoo.benchmark.tpu_compile import described_device

    optimizer = keras.optimizers.SGD(
        LEARNING_RATE, momentum=MOMENTUM, use_ema=True, ema_momentum=EMA
    )
    model.compile(optimizer, _loss())
    model.optimizer.build(model.trainable_variables)
    placed = jax.sharding.SingleDeviceSharding(described_device())
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state, images, labels = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(tuple(x.shape), x.dtype, sharding=placed),
        (
            tuple([variable.value for variable in group] for group in groups),
            jax.ShapeDtypeStruct((batch, *model.input_shape[1:]), "float32"),
            jax.ShapeDtypeStruct((batch, *model.output_shape[1:]), "float32"),
        ),
    )
    step = jax.jit(lambda state, *data: model.train_step(state, data), donate_argnums=0)
    return step.trace(state, images, labels).lower(lowering_platforms=("tpu",))


def _lowered_by_tensorflow(model: Any, batch: int) -> str:
    """The same step as the text of the program for the TPU's compiler.

    TensorFlow lowers functions of tensors alone, so SGD is written out: Keras' would assign.
    """
    import tensorflow as tf

    groups = [model.trainable_variables, model.non_trainable_variables]
    groups += [model.trainable_variables] * 2  # momenta and averages
    sizes = [len(group) for group in groups]
    loss = _loss()

    def step(*tensors):
        *variables, images, labels = tensors
        starts = itertools.accumulate(sizes, initial=0)
        weights, others, momenta, averages = (
            variables[start : start + size] for start, size in zip(starts, sizes, strict=False)
        )
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, others = model.stateless_call(weights, others, images, training=True)
            value = loss(labels, outputs)
        gradients: Any = tape.gradient(value, weights)
        momenta = [
            MOMENTUM * m - LEARNING_RATE * g for m, g in zip(momenta, gradients, strict=True)
        ]
        weights = [w + m for w, m in zip(weights, momenta, strict=True)]
        averages = [EMA * a + (1 - EMA) * w for a, w in zip(averages, weights, strict=True)]
        return [value, *weights, *others, *momenta, *averages]

    shapes = [tf.TensorSpec(v.shape, v.dtype) for group in groups for v in group]
    shapes += [
        tf.TensorSpec((batch, *shape[1:])) for shape in (model.input_shape, model.output_shape)
    ]
    function = tf.function(step, jit_compile=True, autograph=False)
    return function.experimental_get_compiler_ir(*shapes)(stage="hlo", platform_name="TPU")


def print_rows(
    steps: Sequence[Step], backend: str, dtype: Dtype, seconds: int, keep: Callable[[Any], None]
) -> None:
    """Measures the steps in turn, prints the table, and hands every row to `keep`."""
    first = max(len(step.network) for step in steps) + 2
    print_head(backend, first)
    for step in steps:
        report.progress(f"compiling {step.network}, which may take an hour")
        row = measure(step, backend, dtype, seconds)
        report.progress("")
        print_row(row, backend, first)
        keep(row)


if __name__ == "__main__":
    fresh.serve(_answer)
