"""The models by name: what to build, at which image size, and what was published for it."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from zoo.errors import unknown

if TYPE_CHECKING:
    import keras

    from lambda_keras.weights import PublishedWeights

CLASSIFIER = "predictions"  # name of the last layer of every classifier


@dataclass(frozen=True)
class Row:
    """One model of the zoo.

    Attributes:
        name: The model's name on command lines and in files.
        constructor: Name of its constructor in `lambda_keras.applications`. A name and not the
            function, so that names can be checked without importing Keras.
        parameters: Number of trainable parameters, with 1000 classes.
        gflops: Floating-point operations for one image of `image_size`, in 10^9, by the paper's
            conventions (`zoo.flops`).
        image_size: Height and width, in pixels, that `top1` was published for.
        top1: Published ImageNet top-1 accuracy in percent; None if none was published.
        source: Where `top1` was published: a table of the LambdaNetworks paper (arXiv 2102.08602),
            or who published weights.
        recipe: Training that `top1` comes from (E.2 for those of the paper).
        arguments: Arguments of the constructor.
    """

    name: str
    constructor: str
    parameters: int
    gflops: float
    image_size: int
    top1: float | None = None
    source: str = ""
    recipe: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def weights(self) -> "Mapping[str, PublishedWeights]":
        """Its pretrained weights by their names, the default ones first."""
        from lambda_keras.weights import PUBLISHED  # which imports Keras

        return PUBLISHED.get(self.name, {})

    def size_for(self, weights: str) -> int:
        """Returns the height and width of images for `weights=`: as published, if they were."""
        from lambda_keras.weights.published import find_published, is_published_name

        if not is_published_name(weights):
            return self.image_size
        return find_published(self.name, weights).image_size


# Source and recipe of published accuracies.
TIMM = ("timm", "timm")
TABLE_13, TABLE_17 = ("Table 13", "90 epochs"), ("Table 17", "mobilenet")
TABLE_14, TABLE_19 = ("Table 14", "350 epochs"), ("Table 19", "350 epochs")


def _rival(mixer: str, parameters: int, gflops: float) -> Row:
    arguments = {"placement": "LLLL", "mixer": mixer}
    return Row(f"resnet50_{mixer}", "ResNet50", parameters, gflops, 224, arguments=arguments)


def _ablation(placement: str, parameters: int, gflops: float, top1: float) -> Row:
    name, arguments = f"resnet50_{placement.lower()}", {"placement": placement}
    return Row(name, "ResNet50", parameters, gflops, 224, top1, *TABLE_13, arguments)


# Where the paper has several image sizes without extra data, the row is its most accurate one.
# fmt: off
ROWS = (
    Row("lambda_resnet14", "LambdaResNet14", 855_544, 0.064, 32),
    Row("lambda_resnet50", "LambdaResNet50", 18_963_272, 4.18, 160, 79.2, *TABLE_19),
    Row("lambda_resnet101", "LambdaResNet101", 36_866_920, 11.285, 192, 81.9, *TABLE_19),
    Row("lambda_resnet152", "LambdaResNet152", 51_404_696, 29.632, 256, 83.8, *TABLE_19),
    Row("lambda_resnet200", "LambdaResNet200", 57_993_112, 61.535, 320),
    Row("lambda_resnet270", "LambdaResNet270", 81_366_248, 52.186, 256, 84.2, *TABLE_19),
    Row("lambda_resnet350", "LambdaResNet350", 105_475_176, 105.697, 320, 84.7, *TABLE_19),
    Row("lambda_resnet420", "LambdaResNet420", 124_438_664, 125.984, 320, 84.9, *TABLE_19),
    Row("lambda_resnet50_c4", "LambdaResNet50C4", 16_242_072, 4.073, 160),
    Row("lambda_resnet101_c4", "LambdaResNet101C4", 25_982_120, 13.603, 224, 82.6, *TABLE_14),
    Row("lambda_resnet152_c4", "LambdaResNet152C4", 35_077_496, 26.353, 256, 83.4, *TABLE_14),
    Row("lambda_resnet200_c4", "LambdaResNet200C4", 41_665_912, 59.832, 320),
    Row("lambda_resnet270_c4", "LambdaResNet270C4", 55_786_968, 46.455, 256),
    Row("lambda_resnet350_c4", "LambdaResNet350C4", 69_555_336, 100.13, 320),
    Row("lambda_resnet420_c4", "LambdaResNet420C4", 81_443_704, 119.022, 320),
    Row("resnet_rs50", "ResNetRS50", 35_691_912, 4.557, 160),
    Row("resnet_rs101", "ResNetRS101", 63_618_696, 16.351, 224, 81.8, *TABLE_14),
    Row("resnet_rs152", "ResNetRS152", 86_621_576, 31.056, 256, 83.0, *TABLE_14),
    Row("resnet_rs200", "ResNetRS200", 93_209_992, 62.758, 320),
    Row("resnet_rs270", "ResNetRS270", 129_861_448, 53.9, 256),
    Row("resnet_rs350", "ResNetRS350", 163_956_168, 107.367, 320),
    Row("resnet_rs420", "ResNetRS420", 191_891_656, 127.885, 320),
    Row("resnet_rs50_no_se", "ResNetRS50NoSE", 25_613_256, 4.537, 160),
    Row("resnet_rs101_no_se", "ResNetRS101NoSE", 44_605_384, 16.313, 224, 81.3, *TABLE_14),
    Row("resnet_rs152_no_se", "ResNetRS152NoSE", 60_249_032, 31.003, 256, 82.5, *TABLE_14),
    Row("resnet_rs200_no_se", "ResNetRS200NoSE", 64_730_056, 62.701, 320),
    Row("resnet_rs270_no_se", "ResNetRS270NoSE", 89_655_496, 53.82, 256),
    Row("resnet_rs350_no_se", "ResNetRS350NoSE", 112_842_440, 107.265, 320),
    Row("resnet_rs420_no_se", "ResNetRS420NoSE", 131_840_712, 127.765, 320),
    Row("resnet50", "ResNet50", 25_557_032, 8.178, 224, 76.9, *TABLE_13),
    Row("resnet50_se", "ResNet50SE", 28_088_024, 8.183, 224, 77.6, "Table 3", "90 epochs"),
    _ablation("LCCC", 25_490_744, 10.192, 77.3),
    _ablation("LLCC", 24_992_888, 12.448, 77.2),
    _ablation("LLLC", 21_727_448, 12.466, 77.8),
    _ablation("LLLL", 14_995_592, 12.023, 78.4),
    _ablation("CLLL", 15_061_880, 10.009, 78.3),
    _ablation("CCLL", 15_559_736, 7.753, 78.3),
    _ablation("CCCL", 18_825_176, 7.735, 77.3),
    _rival("global", 18_045_304, 21.449),
    _rival("local", 18_015_504, 6.806),
    _rival("halo", 18_035_800, 7.885),
    _rival("axial", 19_397_832, 8.105),
    _rival("efficient", 18_012_200, 6.566),
    _rival("linear", 18_012_200, 6.57),
    _rival("favor", 18_012_200, 10.38),
    _rival("relu", 18_012_200, 10.38),
    Row("lambda_resnet26t", "LambdaResNet26T", 10_958_272, 6.002, 256, 79.126, *TIMM),
    Row("lambda_resnet26rpt_256", "LambdaResNet26RPT256", 10_988_688, 6.278, 256, 78.960, *TIMM),
    Row("lambda_resnet50ts", "LambdaResNet50TS", 21_536_832, 10.069, 256, 81.184, *TIMM),
    Row("botnet26t_256", "BoTNet26T256", 12_488_672, 6.595, 256, 79.256, *TIMM),
    Row("halonet26t", "HaloNet26T", 12_480_288, 6.346, 256, 79.134, *TIMM),
    Row("halonet50ts", "HaloNet50TS", 22_733_280, 10.539, 256, 81.640, *TIMM),
    Row("resnet50_pytorch", "ResNet50PyTorch", 25_557_032, 8.178, 224, 80.4, *TIMM),
    Row("resnet50_llll_pytorch", "ResNet50", 14_995_848, 12.023, 224, 78.208,
        "d-li14/lambda.pytorch", "130 epochs",
        {"placement": "LLLL", "padding": "symmetric", "use_bias": True}),
    Row("mobilenet_v2", "MobileNetV2", 3_504_872, 0.602, 224, 72.7, *TABLE_17),
    Row("lambda_mobilenet_v2", "LambdaMobileNetV2", 3_236_824, 0.577, 224, 73.3, *TABLE_17),
)
# fmt: on
TABLE = {row.name: row for row in ROWS}


def list_models(pattern: str = "*", pretrained: bool = False) -> list[str]:
    """Returns the names of the models that match a shell pattern, in the order of the table.

    Args:
        pattern: Shell pattern with `*`, `?` and `[...]`. Defaults to all models.
        pretrained: Whether to return only models whose weights were published, for
            `weights="imagenet"`. Defaults to False.

    Example:
    >>> from zoo.registry import list_models
    >>> list_models("lambda_resnet1??")
    ['lambda_resnet101', 'lambda_resnet152']
    """
    return [
        name
        for name, row in TABLE.items()
        if fnmatchcase(name, pattern) and (row.weights or not pretrained)
    ]


def find_model(name: str) -> Row:
    """Returns the row of a model.

    Raises:
        ValueError: If there is no such model; the message has the nearest names.
    """
    if name not in TABLE:
        raise ValueError(f"expected the name of a model. {unknown(name, TABLE)}")
    return TABLE[name]


def create_model(name: str, /, **overrides: Any) -> "keras.Model":
    """Builds a model by its name.

    Args:
        name: One of `list_models()`.
        **overrides: Arguments of the model's constructor, e.g. `classes=10`.

    Returns:
        A `keras.Model`: images of shape `(batch, height, width, 3)`, normalised by
        `lambda_keras.applications.preprocess_input`, to class probabilities.

    Raises:
        ValueError: If there is no such model, or its constructor has no such argument.
    """
    row = find_model(name)
    from lambda_keras import applications

    constructor = getattr(applications, row.constructor)
    arguments = inspect.signature(constructor).parameters
    for argument in overrides:
        if argument not in arguments:
            raise ValueError(
                f"expected an argument of {row.constructor}. {unknown(argument, arguments)}"
            )
    return constructor(**{"name": name, **row.arguments, **overrides})


def set_batch_norm(model: "keras.Model", momentum: float | None, synchronized: bool) -> None:
    """Sets up every batch normalisation of a network, those within lambda layers too.

    Args:
        model: The network, before it is called.
        momentum: Of the moving statistics; None: as they are.
        synchronized: Whether batch statistics are those of all devices.
    """
    import keras

    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = synchronized
            if momentum is not None:
                layer.momentum = momentum


def kernels(model: "keras.Model") -> list[Any]:
    """Returns the trainable kernels, which weight decay is for."""
    return [variable for variable in model.trainable_variables if variable.name.endswith("kernel")]


def trainable_parameters(model: "keras.Model") -> int:
    """Returns how many numbers of a model training changes."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
