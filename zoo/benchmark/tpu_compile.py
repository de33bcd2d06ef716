"""Compiles for a TPU without one: `python -m zoo.benchmark tpu-compile`."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from zoo.benchmark import fresh, report, tpu_step
from zoo.benchmark.cases import BASELINE, FORWARD, MODES, Case, Dtype, LayerSettings
from zoo.cli.run import use_backend

PACKAGES = {"jax": ("jax", "libtpu"), "tensorflow": ("tensorflow-tpu", "libtpu")}
INSTALL = {  # releases that go together; each in an environment of its own
    "jax": "pip install jax==0.10.2 libtpu==0.0.42.1",
    "tensorflow": "pip install tensorflow-tpu==2.20.0 libtpu==0.0.14",
}
SECONDS, MODEL_SECONDS = 60, 3 * 3600
TOPOLOGY = "v5e:2x2"  # the smallest that libtpu describes; one chip of it is compiled for
CONVENTIONS = {
    "operations": "floating-point operations of the compiled program, by XLA's cost analysis",
    "bytes_accessed": "bytes that its operations read and write, by XLA's cost analysis",
    "temporary_bytes": "its temporary memory in HBM, by XLA's memory analysis",
    "seconds": "time of the compilation on this machine's CPU",
    "ratios": f"operations, bytes and memory divided by those of {BASELINE}, the paper's order",
}
FIGURES = ("operations", "bytes_accessed", "temporary_bytes")


class TpuCompileConfig(LayerSettings):
    """Compiles for TPU v5e on a machine without one, and says what it costs.

    The lambda layer in all its implementations; or, with --model, the whole training step of
    networks: forward, backward and SGD with momentum, dropout included. Nothing is executed:
    operations, bytes accessed and memory are XLA's own figures for the compiled program. Example:

      python -m zoo.benchmark tpu-compile --model lambda_resnet50@160x128:dropout_rate=0.2

    Needs jax and libtpu: pip install jax==0.10.2 libtpu==0.0.42.1
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.benchmark tpu-compile")

    model: tuple[str, ...] = Field(
        default=(),
        description="Networks in place of the layer, separated by commas, as "
        "NAME@SIZExBATCH[:ARGUMENT=VALUE]... with the batch of one chip. Minutes to hours each.",
    )
    backend: Literal["jax", "tensorflow"] = Field(
        default="jax",
        description="tensorflow: only lowers networks, to what a TPU compiles. Needs an "
        "environment of its own: pip install tensorflow-tpu==2.20.0 libtpu==0.0.14",
    )
    dtype: Dtype = Field(default="mixed_bfloat16", description="Keras dtype policy.")
    scopes: tuple[int, ...] = Field(default=(23,), description="Scopes: odd numbers.")
    sizes: tuple[str, ...] = Field(
        default=("56x64x32", "14x256x64"),
        description="Square feature maps, as SIZExDEPTH or SIZExDEPTHxBATCH.",
    )
    seconds: int | None = Field(
        default=None,
        ge=1,
        description=f"Time limit of one compilation; None: {SECONDS} for the layer, "
        f"{MODEL_SECONDS} for a network.",
    )

    @field_validator("model")
    @classmethod
    def _steps(cls, model: tuple[str, ...]) -> tuple[str, ...]:
        for text in model:
            tpu_step.Step.parse(text)
        return model

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


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then compiles, prints and writes.

    Args:
        arguments: Command line arguments without the program's name.

    Raises:
        ValueError: If a setting is wrong.
        ImportError: If jax or libtpu is missing.
    """
    config = TpuCompileConfig.from_command_line(arguments)
    packages = PACKAGES[config.backend]
    for package in packages:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            message = f"{package} is not installed: {INSTALL[config.backend]}"
            raise ImportError(message) from None
    use_backend(config.backend)
    os.environ.update(_environment())
    result = report.describe("tpu-compile", arguments, config, packages)
    # What TensorFlow hands over is the same for every TPU.
    result["hardware"]["target"] = f"TPU {TOPOLOGY}, one chip" if config.backend == "jax" else "TPU"
    result["conventions"] = tpu_step.CONVENTIONS if config.model else CONVENTIONS
    result["rows"] = []

    def keep(rows: list[dict[str, Any]]) -> None:
        result["rows"] += rows
        if config.output is not None:  # after each table, so that nothing is lost
            report.write(result, config.output)

    if config.model:
        _compile_networks(config, keep)
    else:
        _compile_layer(config, keep)
    if config.output is not None:
        print(f"wrote {config.output}")


def _compile_networks(config: TpuCompileConfig, keep: Callable[[list], None]) -> None:
    steps = [tpu_step.Step.parse(text) for text in config.model]
    doing = "compiled for TPU v5e" if config.backend == "jax" else "lowered for TPU"
    print(f"training step, {config.dtype}, {doing} by {config.backend}")
    tpu_step.print_rows(steps, config.backend, config.dtype, config.limit, lambda r: keep([r]))  # pyright: ignore[reportArgumentType]


def _compile_layer(config: TpuCompileConfig, keep: Callable[[list], None]) -> None:
    from lambda_keras.layers.lambda_layer import CHOICES

    implementations = config.chosen(CHOICES["implementation"])
    for case in config.cases():
        for mode in MODES:
            print(f"{case}, {mode.replace('_', ' + ')}, {config.dtype}, TPU v5e")
            print(report.table_line(_HEAD))
            rows = []
            for name in implementations:
                report.progress(f"compiling {name}")
                rows.append(compile_one(case, name, mode, config, rows[:1]))
                report.progress("")
                print_row(rows[-1])
            print(flush=True)
            keep(rows)


def compile_one(
    case: Case,
    implementation: str,
    mode: str,
    config: TpuCompileConfig,
    baseline: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Returns the figures of one compilation.

    Args:
        case: Shapes.
        implementation: Of the layer.
        mode: One of `MODES`.
        config: dtype and time limit.
        baseline: The row to compare with; empty: the new row itself.
    """
    request = {
        "case": vars(case),
        "implementation": implementation,
        "dtype": config.dtype,
        "mode": mode,
        "seconds": config.limit,
    }
    row = {
        **vars(case),
        "implementation": implementation,
        "mode": mode,
        **dict.fromkeys((*FIGURES, "seconds", "reason")),
        **fresh.call("zoo.benchmark.tpu_compile", request, {}),
    }
    base = baseline[0] if baseline else row
    row["ratios"] = {
        name: row[name] / base[name] if row[name] is not None and base[name] else None
        for name in FIGURES
    }
    return row


_HEAD = ("implementation", "GFLOP", "ratio", "GB", "ratio", "temp GB", "ratio", "compiled")


def print_row(row: dict[str, Any]) -> None:
    """Prints one line of the table."""
    if row["reason"]:
        print(f"{row['implementation']:<18}- {row['reason']}", flush=True)
        return
    cells = []
    for name in FIGURES:
        cells += [report.digits(row[name], 1e-9), report.digits(row["ratios"][name])]
    print(report.table_line([row["implementation"], *cells, f"{row['seconds']:.1f} s"]), flush=True)


def _environment() -> dict[str, str]:
    import libtpu  # pyright: ignore[reportMissingImports]

    return {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",  # there is no TPU machine to ask for its metadata
        "TPU_LIBRARY_PATH": str(libtpu.get_library_path()),
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # nothing is there that two processes could share
    }


def described_device() -> Any:
    """Returns a chip that JAX compiles for, though there is none."""
    from jax.experimental import topologies  # pyright: ignore[reportMissingImports]

    return topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices[0]


def _answer(
    case: dict[str, Any], implementation: str, dtype: str, mode: str, seconds: int
) -> dict[str, float]:
    lowered = _lower(Case(**case), implementation, dtype, mode, described_device())
    signal.alarm(seconds)  # ends this process: a compiler in C++ heeds no exception
    start = time.perf_counter()
    compiled = lowered.compile()
    duration = time.perf_counter() - start
    signal.alarm(0)
    cost = compiled.cost_analysis()
    return {
        "operations": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "temporary_bytes": compiled.memory_analysis().temp_size_in_bytes,
        "seconds": duration,
    }


def _lower(case: Case, implementation: str, dtype: str, mode: str, device: Any) -> Any:
    """Returns the layer lowered for a TPU device that is only described."""
    import jax  # pyright: ignore[reportMissingImports]

    from zoo.benchmark.backends import Jax, create_layer, weights_of

    layer = create_layer(case, implementation, dtype)
    placed = jax.sharding.SingleDeviceSharding(device)

    def described(shape, dtype):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=placed)

    weights = [[described(w.shape, w.dtype) for w in group] for group in weights_of(layer)]
    tensors = [described(case.input_shape, layer.compute_dtype)]
    backend = Jax()
    if mode == FORWARD:
        function = backend.pure_forward(layer)
    else:
        function = backend.pure_forward_backward(layer)
        tensors.append(described(case.output_shape, layer.compute_dtype))
    return jax.jit(function).trace(*weights, *tensors).lower(lowering_platforms=("tpu",))


if __name__ == "__main__":
    fresh.serve(_answer)
