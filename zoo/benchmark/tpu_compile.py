"""Compiles for TPUs on machines without one: `python -m zoo.benchmark tpu-compile`."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from typing import Annotated, Any

from pydantic import Field

from zoo.benchmark.cases import Case, quotient
from zoo.benchmark.layer import MODES, LayerSettings, Scopes, Sizes
from zoo.benchmark.networks import Network, ZooNetwork, parse
from zoo.benchmark.report import Report, columns, installed, progress
from zoo.benchmark.settings import BASELINE, TRAINING, MixedDtype
from zoo.benchmark.timing import reason
from zoo.cli.run import use_backend
from zoo.cli.settings import checked_by

PACKAGES = ("jax", "libtpu")
INSTALL = "pip install jax==0.10.2 libtpu==0.0.42.1"  # compatible releases
TARGET = "TPU v5e:2x2, one chip"
HBM_BYTES = 16 * 2**30  # memory of a TPU v5e chip or a TPU v3 core
LEARNING_RATE, MOMENTUM, EMA, LABEL_SMOOTHING = 0.1, 0.9, 0.9999, 0.1

CONVENTIONS = {
    "step": "forward with training=True, categorical cross-entropy with label smoothing, gradients "
    f"by all trainable variables, SGD with momentum {MOMENTUM}, moving averages "
    "of the weights, statistics of batch normalizations; dropout and stochastic depth if the "
    "network has them; images in float32",
    "operations": "floating-point operations of the compiled program, by XLA's cost analysis",
    "bytes_accessed": "bytes that its operations read and write, by XLA's cost analysis",
    "argument_bytes": "inputs and outputs in HBM, for a step weights, momenta, averages, batch "
    "statistics and images; what is updated in place counts once",
    "temporary_bytes": "activations and whatever else is needed in HBM for a while",
    "code_bytes": "the program itself, which lies in HBM, too",
    "hbm_bytes": f"all of these, on one chip; it has {HBM_BYTES}",
    "lowering_seconds, seconds": "times of lowering and of compiling on this machine's CPU",
    "ratios": f"operations, bytes and memory divided by those of {BASELINE}, the paper's order",
}
ANALYSIS = ("operations", "bytes_accessed", "argument_bytes", "temporary_bytes", "code_bytes")
ANALYSIS += ("hbm_bytes", "seconds")
COMPARED = ("operations", "bytes_accessed", "temporary_bytes")  # with the baseline
COLUMNS = columns(*ANALYSIS)
RATIOS = columns(*(f"ratios.{key}" for key in COMPARED))


class TrainedNetwork(ZooNetwork):
    """A network and its training step."""

    @property
    def identity(self):
        return {"network": self.name, "batch": self.batch}

    def compile(self):
        import keras

        optimizer = keras.optimizers.SGD(
            LEARNING_RATE, momentum=MOMENTUM, use_ema=True, ema_momentum=EMA
        )
        loss = keras.losses.CategoricalCrossentropy(label_smoothing=LABEL_SMOOTHING)
        self.built.compile(optimizer, loss)


def parse_step(text: str, dtype: MixedDtype = "mixed_bfloat16") -> Network:
    """Parses `NAME@SIZExBATCH[:ARGUMENT=VALUE]...`.

    Raises:
        ValueError: If the text has another form, or there is no such network.

    Example:
    >>> from zoo.benchmark.tpu_compile import parse_step
    >>> parse_step("lambda_resnet50@160x128:dropout_rate=0.2").identity
    {'network': 'lambda_resnet50@160:dropout_rate=0.2', 'batch': 128}
    """
    match = re.fullmatch(r"(\w+@\d+)x([1-9]\d*)(.*)", text)
    if not match:
        raise ValueError(
            "expected NAME@SIZExBATCH[:ARGUMENT=VALUE]..., such as lambda_resnet50@160x128. "
            f"Received: {text!r}"
        )
    return parse(match[1] + match[3], int(match[2]), dtype, {"": TrainedNetwork})


class Config(LayerSettings, cli_prog_name="python -m zoo.benchmark tpu-compile"):
    """Compiles for TPU v5e on a machine without one: operations, bytes and memory.

    Compiles all implementations of the lambda layer; or, with --model, the whole training step of
    networks: forward, backward and SGD with momentum, dropout included. Nothing is executed: all
    numbers are XLA's analysis of the compiled program. Needs JAX and libtpu. Example:

      python -m zoo.benchmark tpu-compile --model lambda_resnet50@160x128:dropout_rate=0.2
    """

    model: tuple[Annotated[str, checked_by(parse_step)], ...] = ()
    """Networks in place of the layer, separated by commas, as NAME@SIZExBATCH[:ARGUMENT=VALUE]...
    with the batch of one chip. Minutes to hours each."""
    dtype: MixedDtype = "mixed_bfloat16"
    """Keras dtype policy."""
    scopes: Scopes = (23,)
    sizes: Sizes = ("56x64x32", "14x256x64")
    seconds: int = Field(default=3 * 3600, ge=1)
    """Time limit of one compilation with all that it needs."""

    def tables(self) -> Iterator[tuple[str, str, Sequence[Case]]]:
        """Yields title, mode and cases of each table. Imports Keras."""
        for text in self.model:
            yield f"{text}, training step", TRAINING, [parse_step(text, self.dtype)]
        for implementations in () if self.model else self.cases():
            for mode in MODES:
                title = f"{implementations[0].title}, {mode.replace('_', ' + ')}"
                yield title, mode, implementations


def run(config: Config, arguments: Sequence[str]) -> None:
    """Compiles, prints and writes."""
    installed(PACKAGES, INSTALL)
    use_backend("jax")
    os.environ.update(_environment())
    report = Report(config, arguments, PACKAGES, CONVENTIONS, {"target": TARGET})
    for title, mode, cases in config.tables():
        rows = compile_in_turn(cases, mode, config)
        name, shown = "network", COLUMNS
        if not config.model:
            name, shown = "implementation", (*COLUMNS, *RATIOS)
            add_ratios(rows)
        report.table(f"{title}, {config.dtype}, {TARGET}", name, shown, rows)
    report.finish()


def compile_in_turn(cases: Sequence[Case], mode: str, config: Config) -> list[dict[str, Any]]:
    """Compiles each case in a new process; returns one row per case."""
    rows: list[dict[str, Any]] = []
    missing = dict.fromkeys([*ANALYSIS, "reason"])
    for case in cases:
        progress(f"compiling {case.name}, which may take an hour")
        found = in_new_process(compile_one, case, mode, seconds=config.seconds)
        rows.append({**case.identity, "mode": mode, **missing, **found})
    progress("")
    return rows


def add_ratios(rows: Sequence[dict[str, Any]]) -> None:
    """Adds the ratios to the first row of a table."""
    for row in rows:
        row["ratios"] = {key: quotient(row[key], rows[0][key]) for key in COMPARED}


def compile_one(case: Case, mode: str) -> Any:
    """Returns XLA's analysis of one compiled case."""
    from zoo.benchmark.tpu import DescribedTpu

    return case.step(mode, DescribedTpu())


def in_new_process(function: Callable, *arguments: Any, seconds: float) -> dict[str, Any]:
    """Runs a function in a new process; `{"reason": ...}` if it fails or takes too long."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_send, args=(sender, function, arguments))
    worker.start()
    sender.close()  # the pipe then ends with the worker
    try:
        if receiver.poll(seconds):
            return receiver.recv()
        return {"reason": f"did not end in {seconds} s"}
    except EOFError:
        worker.join()
        return {"reason": f"the compiler's process ended with exit code {worker.exitcode}"}
    finally:
        worker.kill()  # libtpu never exits by itself


def _send(sender: Any, function: Callable, arguments: Sequence[Any]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtpu warns of a TPU that is not there
    try:
        sender.send(function(*arguments))
    except Exception as error:  # libraries raise many kinds; the parent process continues
        sender.send({"reason": reason(error)})


def _environment() -> dict[str, str]:
    import libtpu  # pyright: ignore[reportMissingImports]

    return {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",  # there is no metadata server of a TPU machine
        "TPU_LIBRARY_PATH": str(libtpu.get_library_path()),
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # there is no device that processes could contend for
    }
