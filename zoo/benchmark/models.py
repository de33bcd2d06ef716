"""Times whole networks in turn: `python -m zoo.benchmark models`."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from zoo.benchmark import fresh, memory, report
from zoo.benchmark.networks import (
    FORWARD,
    MODES,
    TIMM,
    TRAINING,
    Dtype,
    Entry,
    Network,
    create,
    threads,
)
from zoo.benchmark.settings import JsonFile, TimedSettings
from zoo.benchmark.timing import Timing, time_in_turn
from zoo.errors import unknown

CONVENTIONS = {
    FORWARD: "training=False, the classifier's softmax included; "
    "timm: eval() in torch.inference_mode, logits",
    TRAINING: "train_step of Keras: forward with training=True, categorical cross-entropy, "
    "gradients by all trainable variables, SGD with momentum 0.9, moving averages of batch "
    "normalizations; the learning rate is 0, so that every step sees the same weights",
    "images": "random float32 numbers on the device; the EfficientNets of keras.applications "
    "rescale and normalize them as part of the network",
    "regularization": "the defaults of each constructor: the EfficientNets of keras.applications "
    "train with dropout and stochastic depth, the networks of the zoo without",
    "parameters": "trainable ones",
    "ms": "median over the rounds, all networks in turn in one process",
    "images_per_second": "batch divided by that time",
    "ratio": "images per second divided by those of the first network",
    "variant": "timm: the faster one of PyTorch's memory formats, variants has the ms of each",
    "top1": "published ImageNet top-1 in percent at this image size",
}


class ModelsConfig(TimedSettings):
    """Times whole networks, forward and training step, against those of keras.applications.

    --models lists NAME[@SIZE][:ARGUMENT=VALUE]..., separated by commas. NAME is a network of the
    zoo (see zoo/registry.py), keras.NAME of keras.applications (efficientnet_b0 to b7, mobilenet,
    mobilenet_v2, resnet50), or timm.NAME of timm on PyTorch (forward only). Without SIZE, images
    are as large as for the published accuracy. Arguments are those of the zoo's constructors:
    resnet50@224:placement=LLLL:implementation=einsum

    All networks are compiled as users run them (tf.function, jax.jit, or eager PyTorch) and timed
    in turn in one process. Ratios are to the first network.
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.benchmark models")

    models: tuple[str, ...] = Field(
        default=(
            "lambda_resnet50@160",
            "keras.efficientnet_b1@240",
            "lambda_resnet101@192",
            "keras.efficientnet_b3@300",
        ),
        description="Networks; the first one is what the others are compared with.",
    )
    batch: int = Field(default=8, ge=1, description="Images per step.")
    dtype: Dtype = Field(default="float32", description="Keras dtype policy of the networks.")
    modes: tuple[str, ...] = Field(default=MODES, description="What to time: forward, training.")
    output: JsonFile | None = Field(
        default=None, description="JSON file to write; a picture .png beside it."
    )

    @field_validator("models")
    @classmethod
    def _entries(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        for text in models:
            Entry.parse(text)
        if not models or len(set(models)) < len(models):
            raise ValueError(f"expected one or more networks, each once. Received: {models}")
        return models

    @field_validator("modes")
    @classmethod
    def _modes(cls, modes: tuple[str, ...]) -> tuple[str, ...]:
        for mode in modes:
            if mode not in MODES:
                raise ValueError(f"no such mode. {unknown(mode, MODES)}")
        if not modes:
            raise ValueError(f"expected one or more of {', '.join(MODES)}. Received: {modes}")
        return tuple(mode for mode in MODES if mode in modes)

    def entries(self) -> list[Entry]:
        """Returns the networks to measure."""
        return [Entry.parse(text) for text in self.models]


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then measures, prints and writes.

    Args:
        arguments: Command line arguments without the program's name.

    Raises:
        ValueError: If a setting is wrong.
        ImportError: If the backend, or timm, is not installed.
    """
    config = ModelsConfig.from_command_line(arguments)
    entries = config.entries()
    packages = _packages(entries)
    backend = config.start_backend()
    if config.output is not None:
        # Imported before hours of work: a missing matplotlib should not show after them.
        from zoo.benchmark import plots
    networks = []
    for entry in entries:
        report.progress(f"building {entry.text}")
        networks.append(create(entry, config.batch, config.dtype, backend))
    if config.memory and not all(network.backend.memory_method for network in networks):
        memory.check_platform()
    result = report.describe("models", arguments, config, [backend.package, *packages])
    result["hardware"]["accelerator"] = backend.accelerator
    result["hardware"]["threads"] = threads()
    result["backend"] = backend.package
    result["conventions"] = CONVENTIONS
    result["rows"] = [_row(network) for network in networks]
    report.progress("")
    report.print_head(result)
    for mode in config.modes:
        for row, figures in zip(
            result["rows"], measure_mode(networks, mode, config).values(), strict=True
        ):
            row[mode] = figures
        if config.output is not None:  # after each mode, so that nothing is lost
            report.write(result, config.output)
    print_rows(result["rows"], config.modes)
    if config.output is not None:
        plots.plot_models(result, config.output.with_suffix(".png"))
        print(f"wrote {config.output} and {config.output.with_suffix('.png')}")


def _packages(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Returns the packages besides Keras and its backend, if they are installed."""
    if not any(entry.library == TIMM for entry in entries):
        return ()
    for package in ("timm", "torch"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f"{package} is not installed: pip install timm torch")
    return ("timm", "torch")


def _row(network: Network) -> dict[str, Any]:
    entry = network.entry
    top1, source = entry.published
    return {
        "entry": entry.text,
        "title": entry.title,
        "library": entry.library,
        "model": entry.name,
        "image_size": entry.image_size,
        "overrides": entry.overrides,
        "batch": network.batch,
        "parameters": network.parameters,
        "top1": top1,
        "top1_source": source,
    }


def measure_mode(
    networks: Sequence[Network], mode: str, config: ModelsConfig
) -> dict[str, dict[str, Any]]:
    """Returns the figures of every network in one mode, by its entry."""
    steps = {}
    computations = {}
    for network in networks:
        for variant, prepare in network.steps(mode).items():
            name = f"{network.entry.text} {variant}".rstrip()

            def start(name=name, network=network, prepare=prepare):
                steps[name] = prepare()
                return network.backend.runner(steps[name])

            computations[name] = start
    timings = time_in_turn(
        computations,
        config.repeats,
        config.min_ms / 1e3,
        lambda text: report.progress(f"{mode}: {text}"),
    )
    figures = {}
    for network in networks:
        text = network.entry.text
        variants = {name: timings[f"{text} {name}".rstrip()] for name in network.steps(mode)}
        figures[text] = found = _figures(variants, network.batch)
        if config.memory and found["ms"]:
            variant = found["variant"] or ""
            step = steps[f"{text} {variant}".rstrip()]
            found.update(_memory(network, mode, variant, step, config))
    first = figures[networks[0].entry.text]["images_per_second"]
    for found in figures.values():
        if first and found["images_per_second"]:
            found["ratio"] = found["images_per_second"] / first
    report.progress("")
    return figures


def _figures(variants: Mapping[str, Timing | str], batch: int) -> dict[str, Any]:
    """Returns the figures of the fastest variant."""
    names = ("images_per_second", "ratio", "ms", "rounds_ms", "calls", "variant", "variants")
    memory_names = ("temporary_bytes", "memory_method", "memory_reason")
    figures: dict[str, Any] = dict.fromkeys((*names, *memory_names, "reason"))
    timed = {name: time for name, time in variants.items() if isinstance(time, Timing)}
    if not timed:
        return {**figures, "reason": next(iter(variants.values()), "forward only")}
    fastest = min(timed, key=lambda name: timed[name].seconds)
    timing = timed[fastest]
    figures |= {
        "variant": fastest or None,
        "images_per_second": batch / timing.seconds,
        "ms": 1e3 * timing.seconds,
        "rounds_ms": [1e3 * seconds for seconds in timing.rounds],
        "calls": timing.calls,
    }
    if fastest:  # has a name, so it is one of several
        figures["variants"] = {
            name: 1e3 * time.seconds if isinstance(time, Timing) else time
            for name, time in variants.items()
        }
    return figures


def _memory(
    network: Network, mode: str, variant: str, step: Any, config: ModelsConfig
) -> dict[str, Any]:
    method = network.backend.memory_method
    if method:
        peak = network.backend.temporary_bytes(step)
        return {"temporary_bytes": peak, "memory_method": method}
    report.progress(f"{mode}: memory of {network.entry.text}")
    request = {
        "entry": network.entry.text,
        "batch": network.batch,
        "dtype": network.dtype,
        "xla": config.xla,
        "mode": mode,
        "variant": variant,
    }
    answer = fresh.call("zoo.benchmark.models", request, {"KERAS_BACKEND": config.keras_backend})
    return {
        "temporary_bytes": answer.get("peak"),
        "memory_method": memory.METHOD,
        "memory_reason": answer.get("reason"),
    }


def print_rows(rows: Sequence[dict[str, Any]], modes: Sequence[str]) -> None:
    """Prints the table, with what could not be measured and why."""
    width = max(len("network"), *(len(row["title"]) for row in rows)) + 2

    def line(cells, figures):
        groups = [report.table_line(["", *group], 2) for group in figures]
        print(report.table_line(cells, width, 7), *groups, sep="")

    groups = [["images/s", "ratio", "MB"] for _ in modes]
    line(["", "", "", ""], [[mode, "", ""] for mode in modes])
    line(["network", "size", "batch", "M par."], groups)
    for row in rows:
        parameters = report.digits(row["parameters"], 1e-6)
        cells = [row["title"], row["image_size"], row["batch"], parameters]
        line(cells, [_cells(row[mode]) for mode in modes])
    for row in rows:
        for mode in modes:
            for kind in ("reason", "memory_reason"):
                if row[mode][kind]:
                    print(f"  - {row['entry']}, {mode}: {row[mode][kind]}")
    print(flush=True)


def _cells(figures: dict[str, Any]) -> list[str]:
    return [
        report.digits(figures["images_per_second"]),
        report.digits(figures["ratio"]),
        report.digits(figures["temporary_bytes"], 1e-6),
    ]


def _answer(
    entry: str, batch: int, dtype: Dtype, xla: bool, mode: str, variant: str
) -> dict[str, int]:
    from zoo.benchmark.backends import current_backend

    network = create(Entry.parse(entry), batch, dtype, current_backend(xla))
    return {"peak": memory.peak_of_step(network.backend, network.steps(mode)[variant]())}


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    fresh.serve(_answer)
