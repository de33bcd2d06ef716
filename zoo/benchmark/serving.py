"""Times serving on the CPU: `python -m zoo.benchmark serving`."""

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from zoo.backend import use_backend
from zoo.benchmark.models import Network, TimmNetwork, ZooNetwork, parse
from zoo.benchmark.report import Report, progress, threads
from zoo.benchmark.settings import BenchmarkSettings, Dtype, EachOnce, MinMs, Rounds
from zoo.benchmark.timing import singly, time_in_turn
from zoo.export.formats import FORMATS
from zoo.fields import BatchSize, Entries, checked_by
from zoo.measurements import FORWARD, columns, installed, print_table

Predict = Callable[[Any], Any]  # from arrays of images in [0, 255] to probabilities
KERAS, PREDICT, BARE = "Keras predict", "zoo.predict", "tf.function"
INT8 = {"quantize": "int8"}
# Options and arguments of the runtime, by format.
BFLOAT16: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "saved_model": ({"precision": "mixed_bfloat16"}, {}),
    "openvino": ({}, {"precision": "bf16"}),
}
CALIBRATION = 16  # images of noise
BY_LAYER = ("OpenVINO", "OpenVINO int8")  # exports whose layers OpenVINO times
CALLS = 20  # timed calls of `layer_times`
TIMM = ("timm compiled", "timm compiled bfloat16", "timm OpenVINO", "timm OpenVINO int8")
COLUMNS = columns("p50_ms", "p99_ms", "images_per_second", "ratio_to_keras", "ratio_to_function")


def _check_is_zoo(text: str) -> None:
    if parse(text).library != ZooNetwork.library:
        raise ValueError(f"expected networks of the zoo. Received: {text!r}")


class Config(BenchmarkSettings):
    """Times Keras' predict, zoo.predict, a tf.function and all exports on the CPU, in turn.

    --models lists NAME[@SIZE][:ARGUMENT=VALUE]... of the zoo, separated by commas. Every model
    has random weights and is exported to a temporary folder by zoo.export, in float32 and, where
    the format has them, in bfloat16 and int8. It runs one batch after another. --timm adds a
    network of timm of the same size: compiled by PyTorch, and in OpenVINO. Latency is the median
    and the 99th percentile of single calls. The JSON file also has OpenVINO's own times by kind of
    layer, in float32 and int8.
    """

    extra = "export"

    models: Annotated[Entries[tuple[Annotated[str, checked_by(_check_is_zoo)], ...]], EachOnce] = (
        "lambda_resnet26t@256",
        "lambda_resnet50@160",
        "lambda_mobilenet_v2@224",
    )
    """Networks."""
    batches: Annotated[tuple[BatchSize, ...], EachOnce] = (1, 8)
    """Images per call."""
    timm: str | None = None
    """Name of a network of timm to compare with, such as lambda_resnet26t."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of each runtime; None: all cores."""
    repeats: Rounds = 20
    min_ms: MinMs = 500


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    if config.threads is not None:
        os.environ["TF_NUM_INTRAOP_THREADS"] = str(config.threads)  # TensorFlow reads it once
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # all runtimes use the CPU
    modules = chain.from_iterable(
        (*form.frameworks, *form.packages, *form.quantizations.get("int8", ()))
        for form in FORMATS.values()
    )
    packages = tuple(dict.fromkeys(name.split(".")[0].replace("_", "-") for name in modules))
    if config.timm is not None:
        installed(TimmNetwork.packages, f"pip install {' '.join(TimmNetwork.packages)}")
        packages += TimmNetwork.packages
        for package in TimmNetwork.packages:  # they crash if TensorFlow's LLVM is loaded first
            import_module(package)
    use_backend("tensorflow")
    report = Report(config, packages, threads=threads())
    for network in map(parse, config.models):
        for rows in measure(network, config):
            report.rows += rows
            report.write()
            print_table(f"{network.name}, batch {rows[0]['batch']}", "path", COLUMNS, rows)
    report.finish()


def measure(network: Network, config: Config) -> Iterator[list[dict[str, Any]]]:
    """Exports a network, and yields the rows of each batch size, one per path of inference."""
    import numpy as np

    from lambda_keras.applications.preprocessing import imagenet_classes, preprocessing_of
    from zoo.inference.classifier import Classifier
    from zoo.model_card import megabytes

    progress(f"building {network.name}")
    preprocessing = preprocessing_of(network.model, network.image_size)
    class_names = [name for _, name in imagenet_classes()]
    classifier = Classifier(network.model, network.build(), preprocessing, class_names)
    with tempfile.TemporaryDirectory() as folder:
        paths = serving_paths(classifier, Path(folder), network.name)
        if config.timm is not None:
            paths |= _timm_paths(config.timm, network.image_size)
        sizes = {path.name: megabytes(path) for path in Path(folder).iterdir()}
        for batch in config.batches:
            shape = (batch, classifier.image_size, classifier.image_size, 3)
            images = np.random.default_rng(1).uniform(0, 255, shape).astype("float32")
            calls = {n: partial(singly, partial(predict, images)) for n, predict in paths.items()}
            head, shortest = f"{network.name}, {batch}: ", config.min_ms / 1e3
            timings = time_in_turn(calls, config.repeats, shortest, head)
            p50s = {name: float(np.median(timing.samples)) for name, timing in timings.items()}
            expected = paths[KERAS](images)
            yield [
                {
                    "model": network.name,
                    "batch": batch,
                    "megabytes": sizes.get(name),
                    "path": name,
                    "p50_ms": 1e3 * p50s[name],
                    "p99_ms": 1e3 * float(np.percentile(timing.samples, 99)),
                    "images_per_second": batch / p50s[name],
                    "calls": len(timing.samples),
                    "max_difference": None
                    if name in TIMM
                    else float(np.abs(paths[name](images) - expected).max()),
                    "layers_ms": layer_times(Path(folder, name), images)
                    if name in BY_LAYER
                    else None,
                    "ratio_to_keras": p50s[KERAS] / p50s[name],
                    "ratio_to_function": p50s[BARE] / p50s[name],
                }
                for name, timing in timings.items()
            ]


def layer_times(folder: Path, images: Any) -> dict[str, float]:
    """Returns milliseconds per call of an OpenVINO export by kind of layer, longest first."""
    import openvino

    from zoo.export.openvino import compiled

    model = openvino.Core().read_model(folder / "model.xml")
    model = compiled(model, threads(), PERF_COUNT=True)
    request, total = model.create_infer_request(), defaultdict[str, float](float)
    request.infer({"images": images})  # the first call is slow
    for _ in range(CALLS):
        request.infer({"images": images})
        for layer in request.get_profiling_info():
            total[layer.node_type] += layer.real_time.total_seconds()
    longest_first = sorted(total.items(), key=lambda item: -item[1])
    return {kind: 1e3 * seconds / CALLS for kind, seconds in longest_first if seconds}


def serving_paths(classifier: Any, folder: Path, name: str) -> dict[str, Predict]:
    """Exports all formats to a folder; returns the functions that run the network, by name."""
    import numpy as np
    import tensorflow as tf

    from lambda_keras.applications import fold_batch_normalization, preprocess_input
    from zoo.export.base import DEFAULT, Options
    from zoo.inference.classifier import predict

    folded = fold_batch_normalization(classifier.model)

    @tf.function(autograph=False)
    def bare(images):
        return folded(preprocess_input(images), training=False)

    paths: dict[str, Predict] = {
        KERAS: lambda images: predict(classifier.model, images),
        PREDICT: lambda images: classifier.infer(preprocess_input(images)),
        BARE: lambda images: bare(tf.constant(images)).numpy(),
    }
    exports = [(form.title, kind, {}, {}) for kind, form in FORMATS.items()]
    exports += [(f"{FORMATS[kind].title} bfloat16", kind, *row) for kind, row in BFLOAT16.items()]
    exports += [
        (f"{form.title} int8", kind, INT8, {})
        for kind, form in FORMATS.items()
        if "int8" in form.quantizations
    ]
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        calibration = [Path(scratch, f"{number}.png") for number in range(CALIBRATION)]
        for path in calibration:
            pixels = random.integers(0, 256, (*[classifier.image_size] * 2, 3), "uint8")
            path.write_bytes(tf.io.encode_png(pixels).numpy())
        for title, kind, options, arguments in exports:
            progress(f"{name}: writing {title}")
            files = calibration if options == INT8 else ()
            FORMATS[kind].write(classifier, folder / title, Options(**options, calibration=files))
            runtime: Any = FORMATS[kind].runtime
            infer = partial(runtime(folder / title, threads(), **arguments).run, DEFAULT)
            paths[title] = lambda images, infer=infer: infer({"images": images})["probabilities"]
    return paths


def _timm_paths(name: str, size: int) -> dict[str, Predict]:
    """Returns functions that run a network of timm, without its normalization of images."""
    import numpy as np
    import openvino

    from zoo.benchmark.backends import Torch
    from zoo.export.openvino import compiled as for_cpu
    from zoo.export.openvino import keeping_signal_stack

    nncf, torch = import_module("nncf"), import_module("torch")

    def compiled(dtype: Dtype) -> Predict:
        @cache
        def step(batch: int) -> Any:
            text = f"timm.{name}@{size}x{batch}:compile=true"
            return parse(text, dtype=dtype).step(FORWARD, Torch())

        return lambda images: step(len(images)).run(1)

    def in_openvino(model: Any) -> Predict:
        network = for_cpu(model, threads())
        return lambda images: network(images.reshape(len(images), 3, size, size))

    network = parse(f"timm.{name}@{size}").build().eval()
    for layer in network.modules():  # trained biases are not 0, and OpenVINO drops zeros
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(layer.bias, std=0.1)
    shape = (1, 3, size, size)
    model = openvino.convert_model(
        network, input=[-1, *shape[1:]], example_input=torch.zeros(shape)
    )
    random = np.random.default_rng(0)
    noise = [random.normal(size=shape).astype("float32") for _ in range(CALIBRATION)]
    with keeping_signal_stack():
        quantized = nncf.quantize(model, nncf.Dataset(noise), subset_size=CALIBRATION)
    predicts = (
        compiled("float32"),
        compiled("mixed_bfloat16"),
        in_openvino(model),
        in_openvino(quantized),
    )
    return dict(zip(TIMM, predicts, strict=True))
