"""Exports a classifier for serving: `python -m zoo.export --run runs/FOLDER`."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from zoo.config.model_options import ClassifierOptions
from zoo.errors import refusal, require
from zoo.export.base import Options
from zoo.export.formats import FORMATS, SAVED_MODEL, check_packages
from zoo.fields import AnyOutputFolder, LocalPath, one_of
from zoo.inference.photos import find_photos
from zoo.precision import resolve_precision


class ExportConfig(ClassifierOptions):
    r"""Exports a model as a SavedModel for TensorFlow Serving, or in another format.

    Pass --run for the model of a finished run, --model for a published one, or --model and
    --weights. A SavedModel is written to OUTPUT/MODEL/1, the next time to OUTPUT/MODEL/2, and so
    on; other formats to OUTPUT/MODEL/FORMAT/1. Next to it are model_card.md, with inputs and
    outputs, and labels.txt. A new process with only the runtime of the format has to reproduce the
    outputs of Keras, in float32 to 1e-5, else the export is removed. Examples:

      python -m zoo.export --run runs/digits
      python -m zoo.export --model lambda_resnet26t --weights imagenet --format onnx
      python -m zoo.export --model lambda_mobilenet_v2 --weights FILE --labels labels.txt \
        --format litert --quantize int8 --calibration photos/
    """

    format: Annotated[str, one_of("format", FORMATS)] = Field(
        default=SAVED_MODEL,
        description="; ".join(f"{name}: {form.purpose}" for name, form in FORMATS.items()) + ".",
    )
    quantize: Literal["none", "float16", "int8"] = "none"
    """onnx, litert: float16 halves the file. onnx, litert, openvino: int8 makes it a quarter to a
    third, and computes in 8 bits. Outputs then differ from Keras'; accuracy, agreement and the
    time compared with float32 are reported."""
    calibration: LocalPath | None = None
    """int8: folder of 10 or more images like those that the model will see; 300 are enough."""
    io_type: Literal["int8", "uint8"] | None = None
    """litert, with int8: integer input and output, for accelerators without floats."""
    activation_type: Literal["int8", "uint8"] = "uint8"
    """onnx, with int8: int8 is symmetric, which TensorRT needs; uint8 is faster on CPUs."""
    batch_size: int | None = Field(default=None, ge=1, le=1024)
    """onnx, litert, openvino: number of images in every call, with static shapes; None: any."""
    layout: Literal["nhwc", "nchw"] = "nhwc"
    """onnx: nchw puts the channels of images first."""
    default_signature: Literal["images", "images_uint8", "image_bytes"] = "images"
    """saved_model: signature of requests that name none; image_bytes takes JPEG and PNG files."""
    lambda_maps: list[str] = Field(default=[])
    """onnx: names of lambda layers whose maps become outputs, too, e.g. c5_block1_2_lambda; a wrong
    name lists the layers of the model."""
    output: AnyOutputFolder = Path("exports")
    """Folder of all exports, local or gs://."""

    def options(self) -> Options:
        """Returns the settings that are passed to the format."""
        settings: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in fields(Options)
            if field.name in type(self).model_fields
        }
        settings["calibration"] = () if self.calibration is None else (self.calibration,)
        settings["lambda_maps"] = tuple(self.lambda_maps)
        return Options(**settings)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.quantize not in ("none", *FORMATS[self.format].quantizations):
            fitting = [name for name in FORMATS if self.quantize in FORMATS[name].quantizations]
            expected = f"quantize: {self.quantize} is for --format {', '.join(fitting)} only"
            raise refusal(expected, f"format={self.format!r}")
        for name in self.options().changed():
            fitting = [kind for kind, form in FORMATS.items() if name in form.options]
            expected = f"{name} is for --format {', '.join(fitting)} only"
            require(self.format in fitting, expected, f"format={self.format!r}")
        require(
            (self.quantize == "int8") == (self.calibration is not None),
            "expected --calibration FOLDER (images like those that the model will see) with "
            "--quantize int8, and with it alone",
            f"quantize={self.quantize!r}, calibration={str(self.calibration)!r}",
        )
        for name in {"io_type", "activation_type"} & self.options().changed().keys():
            received = f"quantize={self.quantize!r}"
            require(self.quantize == "int8", f"{name}: expected --quantize int8 with it", received)
        return self


def run(config: ExportConfig) -> Path:
    """Exports a classifier; returns the new folder."""
    from zoo.export import verify
    from zoo.export.calibration import LEAST
    from zoo.inference.source.kinds import choose

    options = config.options()
    if config.calibration is not None:
        images = find_photos([str(config.calibration)], "calibration")
        expected = f"calibration: expected {LEAST} or more images"
        require(len(images) >= LEAST, expected, f"{len(images)} in {str(config.calibration)!r}")
        options = replace(options, calibration=images)
    # Packages are checked first: loading the model takes a while.
    check_packages(config.format, config.quantize)
    if config.precision is not None:
        options = replace(options, precision=resolve_precision(config.precision))
    source = choose(config)
    classifier = source.load()
    exported = verify.export_of(classifier, source, config.format, options)
    parent = config.output / classifier.name
    return exported.to(parent if config.format == SAVED_MODEL else parent / config.format)
