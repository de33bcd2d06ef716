"""Compiles for a TPU without one: `python -m zoo.benchmark tpu-compile`."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from zoo.benchmark import fresh
from zoo.benchmark.layer import MODES, LayerSettings, Scopes, Sizes
from zoo.benchmark.networks import Network, ZooNetwork, parse
from zoo.benchmark.report import Column, Report, digits, installed, progress
from zoo.benchmark.settings import BASELINE, TRAINING, Dtype, each
from zoo.benchmark.subjects import Subject
from zoo.cli.run import use_backend

PACKAGES = {"jax": ("jax", "libtpu"), "tensorflow": ("tensorflow-tpu", "libtpu")}
INSTALL = {  # releases that go together; each in an environment of its own
    "jax": "pip install jax==0.10.2 libtpu==0.0.42.1",
    "tensorflow": "pip install tensorflow-tpu==2.20.0 libtpu==0.0.14",
}
# What TensorFlow hands over is the same for every TPU.
TARGETS = {"jax": "TPU v5e:2x2, one chip", "tensorflow": "TPU"}
SECONDS, MODEL_SECONDS = 120, 3 * 3600
HBM_BYTES = 16 * 2**30  # of a TPU v5e chip, and of a TPU v3 core
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
    "instructions": "of the program that TensorFlow hands to the TPU's compiler",
    "lowering_seconds": "time of tracing and lowering on this machine's CPU",
    "seconds": "time of the compilation on this machine's CPU",
    "ratios": f"operations, bytes and memory divided by those of {BASELINE}, the paper's order",
}
_giga = partial(digits, factor=1e-9)
LOWERED = Column("lowered", "lowering_seconds", "{:.1f} s".format)
COLUMNS = {  # by what compiles
    "jax": (
        Column("GFLOP", "operations", _giga),
        Column("GB", "bytes_accessed", _giga),
        Column("arg. GB", "argument_bytes", _giga),
        Column("temp GB", "temporary_bytes", _giga),
        Column("code GB", "code_bytes", _giga),
        Column("HBM", "hbm_bytes", lambda size: f"{size / HBM_BYTES:.0%}"),
        LOWERED,
        Column("compiled", "seconds", "{:.1f} s".format),
    ),
    "tensorflow": (Column("instructions", "instructions", str), LOWERED),
}
COMPARED = ("operations", "bytes_accessed", "temporary_bytes")  # with the baseline
RATIOS = tuple(Column(f"x {key}", f"ratios.{key}") for key in COMPARED)


class TrainedNetwork(ZooNetwork):
    """A network and the step that trains it."""

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


def parse_step(text: str, dtype: Dtype = "mixed_bfloat16") -> Network:
    """Reads `NAME@SIZExBATCH[:ARGUMENT=VALUE]...`.

    Raises:
        ValueError: If it reads otherwise, or there is no such network.

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
    """Compiles for TPU v5e on a machine without one, and says what it costs.

    The lambda layer in all its implementations; or, with --model, the whole training step of
    networks: forward, backward and SGD with momentum, dropout included. Nothing is executed:
    operations, bytes accessed and memory are XLA's own figures for the compiled program. Example:

      python -m zoo.benchmark tpu-compile --model lambda_resnet50@160x128:dropout_rate=0.2
    """

    model: Annotated[tuple[str, ...], each(parse_step)] = Field(
        default=(),
        description="Networks in place of the layer, separated by commas, as "
        "NAME@SIZExBATCH[:ARGUMENT=VALUE]... with the batch of one chip. Minutes to hours each.",
    )
    backend: Literal["jax", "tensorflow"] = Field(
        default="jax",
        description=f"tensorflow: only lowers networks, to what a TPU compiles. jax needs: "
        f"{INSTALL['jax']}. tensorflow needs an environment of its own: {INSTALL['tensorflow']}",
    )
    dtype: Dtype = Field(default="mixed_bfloat16", description="Keras dtype policy.")
    scopes: Scopes = (23,)
    sizes: Sizes = ("56x64x32", "14x256x64")
    seconds: int | None = Field(
        default=None,
        ge=1,
        description="Time limit of one compilation with all that it needs; "
        f"None: {SECONDS} for the layer, {MODEL_SECONDS} for a network.",
    )

    @model_validator(mode="after")
    def _tensorflow_lowers_networks(self) -> Self:
        if self.backend == "tensorflow" and not self.model:
            raise ValueError("backend: expected jax without --model. Received: tensorflow")
        if self.model and self.dtype in ("bfloat16", "float16"):
            raise ValueError(f"dtype: expected a mixed one with --model. Received: {self.dtype}")
        return self

    @property
    def limit(self) -> int:
        """Time limit of one compilation in seconds."""
        return self.seconds or (MODEL_SECONDS if self.model else SECONDS)

    def tables(self) -> Iterator[tuple[str, str, Sequence[Subject]]]:
        """Yields what is compiled, table by table: title, mode and subjects. Imports Keras."""
        for text in self.model:
            yield f"{text}, training step", TRAINING, [parse_step(text, self.dtype)]
        for implementations in () if self.model else self.subjects():
            for mode in MODES:
                title = f"{implementations[0].case}, {mode.replace('_', ' + ')}"
                yield title, mode, implementations


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    packages = PACKAGES[config.backend]
    installed(packages, INSTALL[config.backend])
    use_backend(config.backend)
    os.environ.update(_environment())
    name, columns, target = "network", COLUMNS[config.backend], TARGETS[config.backend]
    if not config.model:
        name, columns = "implementation", (*columns, *RATIOS)
    report = Report(config, arguments, packages, CONVENTIONS, {"target": target})
    for title, mode, subjects in config.tables():
        rows = compile_in_turn(subjects, mode, config)
        if not config.model:
            add_ratios(rows)
        report.table(f"{title}, {config.dtype}, {target}", name, columns, rows)
    report.finish()


def compile_in_turn(subjects: Sequence[Subject], mode: str, config: Config) -> list[dict[str, Any]]:
    """Returns one row per subject, each compiled in a process of its own."""
    rows: list[dict[str, Any]] = []
    environment = {"KERAS_BACKEND": config.backend}
    missing = dict.fromkeys([*(column.key for column in COLUMNS[config.backend]), "reason"])
    for subject in subjects:
        progress(f"compiling {subject.name}, which may take an hour")
        answer = fresh.call(
            compile_one, subject, mode, environment=environment, limits=fresh.Limits(config.limit)
        )
        rows.append({**subject.identity, "mode": mode, **missing, **answer})
    progress("")
    return rows


def add_ratios(rows: Sequence[dict[str, Any]]) -> None:
    """Compares the rows of a table with the first one."""
    for row in rows:
        row["ratios"] = {
            key: row[key] / rows[0][key] if row[key] is not None and rows[0][key] else None
            for key in COMPARED
        }


def compile_one(subject: Subject, mode: str) -> Any:
    """Returns the figures of one compilation; for a fresh process."""
    import keras

    from zoo.benchmark.tpu import BACKENDS

    backend = BACKENDS[keras.backend.backend()]()
    return subject.steps(mode, backend)[""]()


def _environment() -> dict[str, str]:
    import libtpu  # pyright: ignore[reportMissingImports]

    return {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",  # there is no TPU machine to ask for its metadata
        "TPU_LIBRARY_PATH": str(libtpu.get_library_path()),
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # nothing is there that two processes could share
    }
