"""Exports of classifiers, compared with Keras."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lambda_keras.applications import feature_extractor, fold_batch_normalization
from zoo.data.crops import decode_center
from zoo.export.base import (
    DEFAULT,
    FEATURES,
    FILES,
    IMAGES,
    INTEGERS,
    LAMBDA_MAPS,
    MAX_LOSS,
    Arrays,
    Options,
)
from zoo.export.exporter import Check, Export, Outputs, largest_difference
from zoo.export.formats import FORMATS
from zoo.export.litert import ZERO_POINTS
from zoo.export.saved_model import example_inputs
from zoo.inference.classifier import Classifier, predict
from zoo.inference.lambda_maps import with_lambda_maps
from zoo.inference.source.base import ClassifierSource

# Largest allowed difference from Keras by precision; for int8 it is only reported.
MAX_DIFFERENCE = {"float32": 1e-5, "float16": 1e-2, "mixed_bfloat16": 0.1, "int8": float("inf")}
MAX_IMAGES = 512  # held-out images for the comparison, which have to fit into memory
INT8_PIXELS, MAX_INT8_IMAGES = MAX_IMAGES * 256**2, 10_000  # for int8, more if images are small
TIMED, SECONDS = 8, 2.0  # timing of int8 and float32: images of a call, duration
FEW = 16  # images for computations other than `IMAGES`


def export_of(
    classifier: Classifier, source: ClassifierSource, format_name: str, options: Options
) -> Export:
    """Returns the export of a classifier, compared on images that it was not trained on."""
    form, policy = FORMATS[format_name], options.precision
    precision = policy or options.quantize.replace("none", "float32")
    if policy is not None:  # compared with float32, whatever it was trained in
        classifier = replace(
            classifier, model=fold_batch_normalization(classifier.model, "float32")
        )
    is_int8, most = options.quantize == "int8", MAX_IMAGES
    if is_int8:
        most = max(most, min(MAX_INT8_IMAGES, INT8_PIXELS // classifier.image_size**2))
    files, labels = source.held_out_files(most)
    images = np.stack([decode_center(file, classifier.preprocessing) for file in files])
    expected = predict(classifier.model, images)
    in_keras = expected.argmax(-1)
    held_out = [] if labels is None or not is_int8 else [*zip(images, labels, strict=True)]
    checks = checks_of(classifier, files, images, expected)
    if options.lambda_maps:
        checks[LAMBDA_MAPS] = maps_check(classifier, options.lambda_maps, images[:FEW])
    notes = [
        form.options[name].format(value, zero_point=ZERO_POINTS.get(str(value)))
        for name, value in options.changed().items()
    ]

    def predicted(outputs: Outputs) -> np.ndarray:
        return outputs.get(IMAGES, outputs[DEFAULT])["probabilities"].argmax(-1)

    def loss(outputs: Outputs) -> str:
        if labels is None or not is_int8:
            return ""
        before, after = ((classes == labels).mean() for classes in (in_keras, predicted(outputs)))
        lost = f"test accuracy falls from {before:.4f} to {after:.4f}"
        return f"{lost}, by more than {MAX_LOSS}" * bool(before - after > MAX_LOSS)

    def summary(outputs: Outputs, folder: Path) -> list[str]:
        agreement = (predicted(outputs) == in_keras).mean()
        lines = [f"the same most probable class for {agreement:.1%} of {len(files)} images"]
        if is_int8:
            lines.append(_speed(classifier, format_name, options, folder, images))
        if labels is not None:
            accuracy, title = (predicted(outputs) == labels).mean(), form.title
            if is_int8:
                lines.append(f"test accuracy {(in_keras == labels).mean():.4f} in Keras")
            lines.append(
                f"test accuracy {accuracy:.4f} ({len(files)} held-out images, exported {title})"
            )
        return lines

    return Export(
        title=classifier.name,
        labels=classifier.class_names,
        fields={"Task": "classification", **source.card(), **classifier.card("the model itself")},
        use="\n\n".join((*filter(None, notes), form.use.format(name=classifier.name))),
        format_name=format_name,
        writers={
            title: partial(
                form.write, classifier, options=replace(options, held_out=held_out, **way)
            )
            for title, way in form.ways.items()
            if held_out or "max_loss" not in way
        },
        checks={
            name: as_in_file(checks[computed], options)
            for name, computed in form.signatures(options).items()
        },
        allowed=MAX_DIFFERENCE[precision],
        summary=summary,
        loss=loss,
        precision=precision,
        batch_size=options.batch_size,
    )


def _speed(
    classifier: Classifier, format_name: str, options: Options, folder: Path, images: np.ndarray
) -> str:
    """Times the int8 export and a float32 one in alternation, on the runtime's default threads."""
    form, count = FORMATS[format_name], options.batch_size or TIMED
    check = Check({"images": np.resize(images, (count, *images.shape[1:]))}, lambda outputs: 0.0)
    plain = replace(options, quantize="none", calibration=(), io_type=None)
    with tempfile.TemporaryDirectory() as scratch:
        form.write(classifier, Path(scratch), plain)
        runs = [
            (form.runtime(path), as_in_file(check, form_options).inputs, [])
            for path, form_options in ((folder, options), (Path(scratch), plain))
        ]
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end or len(runs[0][2]) < 3:
            for runtime, inputs, seconds in runs:
                start = time.perf_counter()
                runtime.run(DEFAULT, inputs)
                seconds.append(time.perf_counter() - start)
    # First calls are slow.
    fast, slow = (1e3 * float(np.median(seconds[1:])) for *_, seconds in runs)
    line = f"int8 takes {fast / slow:.2f} of float32's time here: {fast:.1f} and {slow:.1f} ms"
    return f"{line} for {count} images" + ", so it is slower" * (fast > slow)


def checks_of(
    classifier: Classifier, files: Sequence[bytes], images: np.ndarray, expected: np.ndarray
) -> dict[str, Check]:
    """Returns a comparison with Keras for each computation that signatures have."""
    inputs = example_inputs(files[:FEW], images[:FEW])
    inputs[IMAGES] = {"images": images}
    probabilities = predict(classifier.model, inputs[INTEGERS]["images"])
    features: Any = predict(feature_extractor(classifier.model), images[:FEW])
    differences = {
        IMAGES: partial(largest_difference, {"probabilities": expected}),
        INTEGERS: partial(largest_difference, {"probabilities": probabilities}),
        FILES: partial(top_difference, classifier.class_names, expected[:FEW]),
        FEATURES: partial(largest_difference, features, relative=True),
    }
    return {name: Check(inputs[name], difference) for name, difference in differences.items()}


def as_in_file(check: Check, options: Options) -> Check:
    """Converts a comparison to the layout and the integer type of the file."""
    inputs = check.inputs
    if options.layout == "nchw":
        inputs = {name: images.transpose(0, 3, 1, 2) for name, images in inputs.items()}
    io_type = options.io_type
    if io_type is None:
        return Check(inputs, check.difference)
    zero_point = ZERO_POINTS[io_type]

    def difference(outputs: Arrays) -> float:
        # Differences of 8-bit integers would overflow.
        floats = {name: (a.astype("float32") - zero_point) / 256 for name, a in outputs.items()}
        return check.difference(floats)

    integers = {name: (np.round(a) + zero_point).astype(io_type) for name, a in inputs.items()}
    return Check(integers, difference)


def maps_check(classifier: Classifier, names: Sequence[str], images: np.ndarray) -> Check:
    """Returns the comparison of lambda maps, relative to the largest weight of each."""
    expected: Any = predict(with_lambda_maps(classifier.model, names), images)
    return Check({"images": images}, partial(largest_difference, expected, relative=True))


def top_difference(class_names: Sequence[str], expected: np.ndarray, outputs: Arrays) -> float:
    """Compares the most probable classes; equally probable ones may swap places."""
    classes, scores = outputs["classes"], outputs["scores"]
    names = np.array(class_names)[classes]
    if not (np.char.decode(outputs["labels"], "utf-8") == names).all():
        return np.inf
    highest = -np.sort(-expected, axis=-1)[:, : scores.shape[-1]]
    chosen = np.take_along_axis(expected, classes, -1)
    return max(
        largest_difference({"scores": reference}, outputs) for reference in (highest, chosen)
    )
