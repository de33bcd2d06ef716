"""Compiles for devices that are not there: `python -m tools.compiled`."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from tools.kernels import DEVICES, Device
from zoo.backend import use_backend
from zoo.benchmark.layer import MODES, STAGES, Batch, LayerSettings, Scopes, Sizes, compare
from zoo.benchmark.models import KerasNetwork, Network, ZooNetwork, parse
from zoo.benchmark.report import Case, CaseReport, Results, progress, quotient
from zoo.benchmark.settings import MixedDtype
from zoo.benchmark.timing import reason
from zoo.cli.run import run_command
from zoo.export.runtimes import end_with_parent
from zoo.fields import LARGEST, Count, Entries, checked_by, one_of
from zoo.measurements import TRAINING, columns, installed, print_table
from zoo.precision import precision

LEARNING_RATE, MOMENTUM, EMA, LABEL_SMOOTHING, WEIGHT_DECAY = 0.1, 0.9, 0.9999, 0.1, 4e-5
IMAGENET = (1_281_167, 50_000), 1000  # images to train and to test on, and classes
ANALYSIS = ("ideal_ms", "kernels", "bytes_accessed", "operations", "argument_bytes")
ANALYSIS += ("temporary_bytes", "hbm_bytes", "seconds")
OF_NETWORKS = ("largest_batch", "ideal_images_per_second")
KERNEL = columns("calls", "ideal_us", "bytes_accessed", "operations", "source")


class Trained(ZooNetwork):
    """A network and its training step by `zoo.train`."""

    def compile(self):
        import keras

        from zoo.train.loop import TrainingModel
        from zoo.train.network import with_logits
        from zoo.train.optimizer import add_weight_decay

        add_weight_decay(self.built, WEIGHT_DECAY)
        model = TrainingModel(with_logits(self.built), 1, 1, EMA)
        loss = keras.losses.CategoricalCrossentropy(True, LABEL_SMOOTHING)
        model.compile(keras.optimizers.SGD(LEARNING_RATE, MOMENTUM), loss)
        return model


class TrainedKeras(Trained, KerasNetwork):
    """A network of keras.applications with the same step."""


class Recipe(Trained):
    """A configuration's training step as `zoo.train` builds it, at the case's size and batch."""

    library = "recipe"
    arguments = frozenset()

    @cached_property
    def trained(self) -> Any:
        from zoo.config import TrainConfig
        from zoo.data.load import EvalImages, ImageData, TrainingImages
        from zoo.data.record_files import RecordFile, StreamSource
        from zoo.devices import Devices, Host
        from zoo.train.classification import ClassificationRun

        words = ["--config", self.model, "--model.image_size", str(self.image_size)]
        config = TrainConfig.from_command_line(words)
        run = ClassificationRun(config, Devices(1, Host(), "TPU"), resumed=False)
        run.images, run.classes = IMAGENET
        nothing: Any = None  # image reader; no image is read
        train, test = (StreamSource([RecordFile("", 0, count)], nothing, 0) for count in run.images)
        run.data = ImageData(TrainingImages(train, nothing), EvalImages(test, nothing), ())
        with precision(self.dtype):
            run.build()
            run.model._maybe_symbolic_build()  # variables of metrics
        return run.model

    def build(self):
        return self.trained.network

    def compile(self):
        return self.trained


parse_trained = partial(parse, libraries={"": Trained, "keras": TrainedKeras, "recipe": Recipe})


class Config(LayerSettings):
    """Compiles for a GPU or a TPU on a machine without one: kernels, bytes, memory, ideal time.

    Compiles all implementations of the lambda layer; or, with --models, whole training steps:
    forward, backward, SGD with momentum, L2 and EMA weights. Nothing is run: all numbers are of the
    compiled program. Results in the JSON file of --output are not compiled again. Needs JAX and
    the compiler of the device. Example:

      python -m tools.compiled --device v5e --models lambda_resnet50@160:dropout_rate=0.2
    """

    device: Annotated[str, one_of("device", DEVICES)]
    """Device to compile for."""
    models: Entries[tuple[Annotated[str, checked_by(parse_trained)], ...]] = ()
    """Networks in place of the layer: [keras.]NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]..., or
    recipe.NAME@SIZExBATCH for a configuration of zoo.train, separated by commas, with the batch of
    one device. Minutes to hours each."""
    tensorflow: Path | None = None
    """Python of an environment with TensorFlow for TPUs, .venv-tpu/bin/python of `make`: compiles
    TensorFlow's steps in place of JAX's."""
    dtype: MixedDtype = "mixed_bfloat16"
    """Keras dtype policy."""
    scopes: Scopes = (23,)
    sizes: Sizes = STAGES
    batch: Batch = 128
    kernels: int = Field(default=0, ge=0, le=LARGEST)
    """Number of kernels to name for each program, the most expensive ones."""
    seconds: Count = 3 * 3600
    """Time limit of one compilation, preparation included."""

    @model_validator(mode="after")
    def _steps_of_tensorflow(self) -> Self:
        if self.tensorflow and not (self.models and DEVICES[self.device].platform == "tpu"):
            raise ValueError(
                "tensorflow: expected --models and the device v5e. Received: "
                f"{self.device}, models={self.models}"
            )
        return self


def main(arguments: Sequence[str]) -> None:
    """Compiles, prints and writes."""
    config = Config.from_command_line(arguments, "python -m tools.compiled")
    device = DEVICES[config.device]
    pinned = " ".join(f"{name}=={version}" for name, version in device.packages.items())
    installed(device.packages, f"pip install {pinned}")
    use_backend("jax")
    os.environ.update({"JAX_PLATFORMS": "cpu", **device.environment})
    report, note = CompiledReport(config, device), "compiled, not run: "
    report.go_on("dtype")
    for text in config.models:
        network = parse_trained(text, config.batch, config.dtype)
        if not report.look_up(TRAINING, entry=network.name, batch=network.batch):
            compare_all = partial(compare_networks, network, device)
            report.measure(
                [network], [TRAINING], columns(*OF_NETWORKS, *ANALYSIS), compare_all, note
            )
    if not config.models:
        shown = columns("of_best", *ANALYSIS)
        for cases in config.cases():
            compare_all = partial(compare, cases[0], key="ideal_ms")
            if not all(report.look_up(MODES[-1], **case.identity) for case in cases):
                report.measure(cases, MODES, shown, compare_all, f"{note}{cases[0].title}, ")
    report.finish()


class CompiledReport(CaseReport):
    """Report of programs that are compiled for a device, in other processes."""

    def __init__(self, config: Config, device: Device):
        title, known = f"{device.title} (compiled, not run)", device.model_dump(mode="json")
        backend = "tensorflow" if config.tensorflow else "jax"
        super().__init__(config, device.packages, backend, accelerator=title, device=known)
        self.config, self.device, self.compile = config, device, compile_one
        if config.tensorflow:
            self.content["versions"]["tensorflow-tpu"] = tensorflow_version(config.tensorflow)
            self.compile = partial(compile_lowered, config.tensorflow)

    def results(self, cases, mode, head):
        results = {}
        calls = [(case, mode, self.device, self.config.kernels) for case in cases]
        analyses = in_new_process(self.compile, calls, self.config.seconds)
        for case in cases:
            progress(f"{head}: compiling {case.name}, which may take minutes to hours")
            results[case.name] = {**dict.fromkeys([*ANALYSIS, "reason"]), **next(analyses)}
            if kernels := results[case.name].get("most_expensive"):
                print_table(f"{head}, {case.name}", "name", KERNEL, kernels)
        return results


def compare_networks(network: Network, device: Device, results: Results) -> None:
    """Adds images per second, and the largest batch that fits the device's memory."""
    result = results[network.name]
    result["ideal_images_per_second"] = quotient(1e3 * network.batch, result["ideal_ms"])
    result["largest_batch"] = None
    if result["hbm_bytes"] is not None:
        images = network.batch * 3 * network.image_size**2 * np.dtype("float32").itemsize
        growing = result["temporary_bytes"] + images
        left = device.memory_bytes - (result["hbm_bytes"] - growing)
        result["largest_batch"] = int(left * network.batch / growing)


def compile_one(case: Case, mode: str, device: Device, kernels: int) -> Any:
    """Returns the analysis of one compiled case."""
    from lambda_keras.layers.position_lambdas import compiling_for
    from tools.compiler import Compiler

    with compiling_for("gpu" if device.platform == "cuda" else device.platform):
        return case.step(mode, Compiler(device, kernels))


def compile_lowered(
    python: Path, case: Network, mode: str, device: Device, kernels: int
) -> dict[str, Any]:
    """Returns the analysis of TensorFlow's training step, as `tools.lowering` writes it."""
    from tools.compiler import Compiler

    with TemporaryDirectory() as folder:
        path = Path(folder, "step.hlo")
        words = ["tools.lowering", case.name, str(case.batch), case.dtype, str(path)]
        variables = int(_of_python(python, "-m", *words).split()[-1])
        return Compiler(device, kernels).compile_program(path.read_bytes(), variables)


def tensorflow_version(python: Path) -> str:
    """Looks up the version of TensorFlow for TPUs that another Python has."""
    code = "from importlib.metadata import version; print(version('tensorflow-tpu'))"
    try:
        return _of_python(python, "-c", code).strip()
    except (OSError, RuntimeError) as error:
        raise ValueError(
            "tensorflow: expected the Python of an environment with tensorflow-tpu, which `make "
            f".venv-tpu/installed` creates. Received: {str(python)!r} ({error})"
        ) from None


def _of_python(python: Path, *words: str) -> str:
    """Runs another Python with TensorFlow; errors have the last line of its stderr."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    environment.pop("TPU_LIBRARY_PATH", None)  # JAX's libtpu crashes TensorFlow's
    done = subprocess.run([python, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout


def in_new_process(
    function: Callable[..., dict[str, Any]], calls: Sequence[Sequence[Any]], seconds: float
) -> Iterator[dict[str, Any]]:
    """Calls a function in a new process; yields `{"reason": ...}` for calls that fail.

    After a call that takes more than `seconds` or ends the process, a new process starts.
    """
    context, done = get_context("spawn"), 0
    while done < len(calls):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_send, args=(sender, function, calls[done:]), daemon=True)
        worker.start()
        sender.close()  # the pipe then ends with the worker
        failure = None
        while done < len(calls) and failure is None:
            done += 1
            try:
                if receiver.poll(seconds):
                    yield receiver.recv()
                    continue
                failure = f"did not end in {seconds} s"
            except EOFError:
                worker.join()
                failure = f"the compiler's process ended with exit code {worker.exitcode}"
            yield {"reason": failure}
        worker.kill()  # libtpu never exits by itself


def _send(sender: Any, function: Callable, calls: Sequence[Sequence[Any]]) -> None:
    end_with_parent()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # compilers warn about the missing device
    for arguments in calls:
        try:
            sender.send(function(*arguments))
        except Exception as error:  # libraries raise many kinds; the next case may work
            sender.send({"reason": reason(error)})


if __name__ == "__main__":
    from tools import compiled  # reports contain the module's name

    run_command(compiled.main)
