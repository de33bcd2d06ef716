"""Times what answers requests: `python -m zoo.benchmark serving`."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, PositiveInt, field_validator
from pydantic_settings import SettingsConfigDict

from zoo.benchmark import report
from zoo.benchmark.networks import ZOO, Entry, threads
from zoo.benchmark.settings import JsonFile
from zoo.benchmark.timing import time_in_turn
from zoo.cli.run import use_backend
from zoo.cli.settings import Settings
from zoo.errors import needs_extra

if TYPE_CHECKING:
    import numpy as np

    from zoo.export.servable import Servable

Prediction = Callable[["np.ndarray"], "np.ndarray"]  # images in [0, 255] to probabilities

PREDICT, BARE = "Keras predict", "tf.function"
FORMATS = {"saved_model": "SavedModel", "onnx": "ONNX", "openvino": "OpenVINO", "litert": "LiteRT"}

CONVENTIONS = {
    "call": "from a float32 NumPy array of images in [0, 255] to a NumPy array of probabilities, "
    "preprocessing included, in one process on the CPU; one call after another",
    PREDICT: "preprocess_input, then model.predict, as zoo.predict does",
    BARE: "preprocessing and model in one tf.function",
    "formats": "as zoo.export writes them, in the runtimes of zoo/export/runtimes.py: "
    "TensorFlow, onnxruntime, openvino and ai-edge-litert",
    "threads": "of each runtime; TensorFlow's are those of a single operation",
    "weights": "random",
    "order": "rounds, in each of which every path has its turn of several calls, in an order that "
    "changes; the first call of a turn, which finds the caches and threads of another path, is not "
    "counted",
    "p50_ms, p99_ms": "percentiles of the single calls of all rounds",
    "images_per_second": "batch divided by p50",
    "ratio_to_predict, ratio_to_function": "images per second divided by those of these paths",
    "max_difference": "of probabilities from those of Keras predict",
    "megabytes": "of all that was written, in 10^6 bytes",
}


class ServingConfig(Settings):
    """Times Keras predict, a bare tf.function and every exported format on the CPU, in turn.

    --models lists NAME[@SIZE][:ARGUMENT=VALUE]... of the zoo, separated by commas. Every model is
    exported to a temporary folder as zoo.export does it, with random weights, and asked for one
    batch after another: latency as the median and the 99th percentile of single calls.
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.benchmark serving")

    models: tuple[str, ...] = Field(
        default=("lambda_resnet26t@256", "lambda_resnet50@160", "lambda_mobilenet_v2@224"),
        description="Networks.",
    )
    batches: tuple[PositiveInt, ...] = Field(default=(1, 8), description="Images per call.")
    threads: int | None = Field(
        default=None, ge=1, description="CPU threads of each runtime; None: all cores."
    )
    repeats: int = Field(default=20, ge=1, description="Rounds, in which every path has its turn.")
    min_ms: float = Field(
        default=500,
        gt=0,
        allow_inf_nan=False,
        description="Faster paths are called several times in a turn.",
    )
    output: JsonFile | None = Field(default=None, description="JSON file to write.")

    @field_validator("models")
    @classmethod
    def _entries(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        for text in models:
            if Entry.parse(text).library != ZOO:
                raise ValueError(f"expected networks of the zoo. Received: {text!r}")
        if not models or len(set(models)) < len(models):
            raise ValueError(f"expected one or more networks, each once. Received: {models}")
        return models

    @field_validator("batches")
    @classmethod
    def _batches(cls, batches: tuple[int, ...]) -> tuple[int, ...]:
        if not batches or len(set(batches)) < len(batches):
            raise ValueError(f"expected one or more sizes, each once. Received: {batches}")
        return batches


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then measures, prints and writes.

    Args:
        arguments: Command line arguments without the program's name.

    Raises:
        ValueError: If a setting is wrong.
        ImportError: If a package is not installed.
    """
    config = ServingConfig.from_command_line(arguments)
    if config.threads is not None:
        os.environ["TF_NUM_INTRAOP_THREADS"] = str(config.threads)  # TensorFlow reads it once
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # the other runtimes are on the CPU, too
    use_backend("tensorflow")
    with needs_extra("export"):
        import ai_edge_litert.interpreter  # noqa: F401
        import onnxruntime  # noqa: F401
        import openvino  # noqa: F401
        import tf2onnx  # noqa: F401
    packages = ("tensorflow", "tf2onnx", "onnxruntime", "openvino", "ai-edge-litert")
    result = report.describe("serving", arguments, config, packages)
    result["hardware"]["threads"] = threads()
    result["conventions"] = CONVENTIONS
    result["rows"] = []
    report.print_head(result)
    for entry in map(Entry.parse, config.models):
        for rows in measure(entry, config):
            report.progress("")
            print_rows(rows)
            result["rows"] += rows
            if config.output is not None:  # after each batch size, so that nothing is lost
                report.write(result, config.output)
    if config.output is not None:
        print(f"wrote {config.output}")


def measure(entry: Entry, config: ServingConfig) -> Iterator[list[dict[str, Any]]]:
    """Exports a network and yields the rows of each batch size."""
    import numpy as np

    from zoo.model_card import megabytes

    report.progress(f"building {entry.text}")
    servable = _servable(entry)
    with tempfile.TemporaryDirectory() as folder:
        answers = _answers(servable, Path(folder), entry.text)
        sizes = {FORMATS[path.name]: megabytes(path) for path in Path(folder).iterdir()}
        for batch in config.batches:
            shape = (batch, servable.image_size, servable.image_size, 3)
            images = np.random.default_rng(1).uniform(0, 255, shape).astype("float32")
            rows = time_calls(answers, images, config, f"{entry.text}, batch {batch}: ")
            yield [
                {"model": entry.text, "batch": batch, "megabytes": sizes.get(row["path"]), **row}
                for row in rows
            ]


def _servable(entry: Entry) -> "Servable":
    import keras
    import numpy as np

    from lambda_keras.applications.preprocessing import imagenet_classes, preprocessing_of
    from zoo.data.crops import decode_centre
    from zoo.export.servable import Servable
    from zoo.registry import create_model

    keras.utils.set_random_seed(0)
    shape = (entry.image_size, entry.image_size, 3)
    model = create_model(entry.name, input_shape=shape, **entry.overrides)
    # The last scales of new blocks are 0, and optimizers leave out what is multiplied by 0.
    rng = np.random.default_rng(0)
    weights = model.get_weights()
    model.set_weights([w + rng.uniform(0.1, 0.3, w.shape) if w.ndim == 1 else w for w in weights])
    view = partial(decode_centre, preprocessing=preprocessing_of(entry.name, entry.image_size))
    class_names = [name for _, name in imagenet_classes()]
    return Servable(entry.name, model, class_names, view, {})


def _answers(servable: "Servable", folder: Path, name: str) -> dict[str, Prediction]:
    """Writes every format to a folder; returns what answers, by the names of the paths."""
    from zoo.export import litert, onnx, openvino, saved_model
    from zoo.export.runtimes import RUNTIMES
    from zoo.inference.classifier import predict

    answers: dict[str, Prediction] = {
        PREDICT: lambda images: predict(servable.model, images),
        BARE: _bare(servable),
    }
    writers = {"saved_model": saved_model, "onnx": onnx, "openvino": openvino, "litert": litert}
    for kind, title in FORMATS.items():
        report.progress(f"{name}: writing {title}")
        writers[kind].write(servable, folder / kind)
        settings = {} if kind == "saved_model" else {"threads": threads()}
        answers[title] = _asking(RUNTIMES[kind](folder / kind, **settings))
    return answers


def _bare(servable: "Servable") -> Prediction:
    import tensorflow as tf

    from lambda_keras.applications import preprocess_input

    @tf.function(autograph=False)
    def function(images):
        return servable.model(preprocess_input(images), training=False)

    return lambda images: function(tf.constant(images)).numpy()


def _asking(runtime: Any) -> Prediction:
    def answer(images):
        return runtime.answer("serving_default", {"images": images})["probabilities"]

    return answer


class Calls:
    """Runs a computation so many times, and keeps the seconds of each call.

    Args:
        call: The computation.
    """

    def __init__(self, call: Callable[[], Any]):
        self.call = call
        self.seconds: list[float] = []

    def __call__(self, calls: int) -> None:
        self.call()  # finds the caches and threads of what ran before
        for _ in range(calls):
            start = time.perf_counter()
            self.call()
            self.seconds.append(time.perf_counter() - start)


def time_calls(
    answers: Mapping[str, Prediction], images: "np.ndarray", config: ServingConfig, title: str = ""
) -> list[dict[str, Any]]:
    """Returns a row for each path.

    Args:
        answers: The paths; Keras predict and the bare tf.function are among them.
        images: What they are asked about.
        config: Rounds and calls.
        title: What progress begins with.
    """
    import numpy as np

    calls = {name: Calls(lambda a=answer: a(images)) for name, answer in answers.items()}
    timings = time_in_turn(
        {name: lambda run=run: run for name, run in calls.items()},
        config.repeats,
        config.min_ms / 1e3,
        lambda text: report.progress(title + text),
    )
    for name, timing in timings.items():
        if isinstance(timing, str):
            raise RuntimeError(f"{title}{name} fails: {timing}")
    expected = answers[PREDICT](images)
    rows = []
    for name, run in calls.items():
        seconds = run.seconds[2:] or run.seconds  # without the warm-up, if there is more
        p50, p99 = np.percentile(seconds, [50, 99])
        difference = np.abs(answers[name](images) - expected).max()
        rows.append(
            {
                "path": name,
                "p50_ms": 1e3 * p50,
                "p99_ms": 1e3 * p99,
                "images_per_second": len(images) / p50,
                "calls": len(seconds),
                "max_difference": float(difference),
            }
        )
    rates = {row["path"]: row["images_per_second"] for row in rows}
    for row in rows:
        row["ratio_to_predict"] = row["images_per_second"] / rates[PREDICT]
        row["ratio_to_function"] = row["images_per_second"] / rates[BARE]
    return rows


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints the table of a network and batch size."""
    title = f"{rows[0]['model']}, batch {rows[0]['batch']}"
    width = max(len(title), *(len(name) for name in FORMATS)) + 2
    names = ("p50_ms", "p99_ms", "images_per_second", "ratio_to_predict", "ratio_to_function")
    heads = ["p50 ms", "p99 ms", "images/s", "to predict", "to tf.function"]
    print(report.table_line(["\n" + title, *heads], width + 1, 16))
    for row in rows:
        print(report.table_line([row["path"], *(report.digits(row[n]) for n in names)], width, 16))
