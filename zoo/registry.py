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


IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"
SECTION = "Section 5.3"


@dataclass(frozen=True)
class Result:
    """One published accuracy.

    Attributes:
        table: Where it stands in the LambdaNetworks paper (arXiv 2102.08602).
        network: Name of the network in the registry.
        image_size: Height and width of the images in pixels.
        top1: ImageNet top-1 accuracy in percent.
        parameters: Trainable parameters, counted.
        gflops: Floating-point operations for one image in 10^9, counted by the paper's conventions.
        arguments: Arguments of the constructor beside the registry's.
        seconds: Time of a training step of 1024 images on 8 TPUv3 cores (Table 19).
        images_per_second: In inference on 8 TPUv3 cores (Tables 4, 13 and 14).
        data: What it was trained on.
    """

    table: str
    network: str
    image_size: int
    top1: float
    parameters: int
    gflops: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    images_per_second: int | None = None
    data: str = IMAGENET


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

# Every number of the paper's tables that is of a network above.
# fmt: off
RESULTS = (
    Result("Table 3", "resnet50", 224, 76.9, 25_557_032, 8.178),
    Result("Table 3", "resnet50_se", 224, 77.6, 28_088_024, 8.183),
    Result("Table 3", "resnet50_llll", 224, 78.4, 14_995_592, 12.023),
    Result("Table 3", "resnet50_llll", 224, 78.9, 16_040_360, 8.782,
           {"intra_depth": 4, "scope": 7}),
    Result("Table 4", "resnet50_llll", 224, 78.4, 14_995_592, 12.023, images_per_second=1160),
    Result("Table 4", "resnet50_llll", 224, 77.9, 14_775_816, 8.331,
           {"key_dim": 8}, images_per_second=1640),
    Result("Table 4", "resnet50_llll", 224, 78.0, 14_868_632, 12.023,
           {"position_embedding": "shared"}, images_per_second=1210),
    Result("Table 4", "resnet50_llll", 224, 78.1, 14_872_712, 5.829,
           {"scope": 7}, images_per_second=1100),
    Result("Table 9", "resnet50_llll", 224, 77.4, 14_610_984, 5.562, {"key_dim": 2}),
    Result("Table 9", "resnet50_llll", 224, 77.6, 14_665_928, 6.485, {"key_dim": 4}),
    Result("Table 9", "resnet50_llll", 224, 77.9, 14_775_816, 8.331, {"key_dim": 8}),
    Result("Table 9", "resnet50_llll", 224, 78.4, 14_995_592, 12.023),
    Result("Table 9", "resnet50_llll", 224, 78.4, 15_435_144, 19.406, {"key_dim": 32}),
    Result("Table 9", "resnet50_llll", 224, 77.8, 14_483_320, 5.078,
           {"key_dim": 2, "num_heads": 8}),
    Result("Table 9", "resnet50_llll", 224, 77.7, 14_568_728, 5.597,
           {"key_dim": 4, "num_heads": 8}),
    Result("Table 9", "resnet50_llll", 224, 77.9, 14_739_544, 6.634,
           {"key_dim": 8, "num_heads": 8}),
    Result("Table 9", "resnet50_llll", 224, 78.1, 15_081_176, 8.708, {"num_heads": 8}),
    Result("Table 9", "resnet50_llll", 224, 78.5, 15_764_440, 12.858,
           {"key_dim": 32, "num_heads": 8}),
    Result("Table 9", "resnet50_llll", 224, 77.2, 15_031_144, 11.909,
           {"key_dim": 8, "num_heads": 2}),
    Result("Table 9", "resnet50_llll", 224, 77.9, 14_904_192, 5.968,
           {"key_dim": 8, "num_heads": 16}),
    Result("Table 9", "resnet50_llll", 224, 78.4, 15_261_928, 5.99,
           {"key_dim": 8, "num_heads": 8, "intra_depth": 4, "scope": 7}),
    Result("Table 9", "resnet50_llll", 224, 78.6, 16_040_360, 7.196,
           {"key_dim": 8, "num_heads": 8, "intra_depth": 8, "scope": 7}),
    Result("Table 9", "resnet50_llll", 224, 78.9, 16_040_360, 8.782,
           {"intra_depth": 4, "scope": 7}),
    Result("Table 10", "resnet50_llll", 224, 68.8, 14_860_168, 5.021, {"position_embedding": None}),
    Result("Table 10", "resnet50_llll", 224, 78.1, 14_935_176, 11.946, {"use_content": False}),
    Result("Table 10", "resnet50_llll", 224, 78.4, 14_995_592, 12.023),
    Result("Table 11", "resnet50_clll", 224, 77.6, 14_953_720, 5.711, {"scope": 3}),
    Result("Table 11", "resnet50_clll", 224, 78.2, 14_962_040, 6.128, {"scope": 7}),
    Result("Table 11", "resnet50_clll", 224, 78.5, 14_998_648, 7.813, {"scope": 15}),
    Result("Table 11", "resnet50_clll", 224, 78.3, 15_061_880, 10.009),
    Result("Table 11", "resnet50_clll", 224, 78.5, 15_151_736, 12.42, {"scope": 31}),
    Result("Table 11", "resnet50_clll", 224, 78.4, 15_417_976, 19.405, {"scope": None}),
    Result("Table 12", "resnet50_llll", 224, 78.4, 14_995_592, 12.023),
    Result("Table 12", "resnet50_llll", 224, 78.1, 14_993_544, 12.023,
           {"query_normalization": "softmax"}),
    Result("Table 12", "resnet50_llll", 224, 78.0, 14_995_592, 12.023, {"key_normalization": "l2"}),
    Result("Table 12", "resnet50_llll", 224, 70.0, 14_995_592, 12.023, {"key_normalization": None}),
    Result("Table 12", "resnet50_llll", 224, 76.2, 14_991_656, 12.023,
           {"query_normalization": None, "value_normalization": None}),
    Result("Table 13", "resnet50", 224, 76.9, 25_557_032, 8.178, images_per_second=7240),
    Result("Table 13", "resnet50_lccc", 224, 77.3, 25_490_744, 10.192, images_per_second=1880),
    Result("Table 13", "resnet50_llcc", 224, 77.2, 24_992_888, 12.448, images_per_second=1280),
    Result("Table 13", "resnet50_lllc", 224, 77.8, 21_727_448, 12.466, images_per_second=1160),
    Result("Table 13", "resnet50_llll", 224, 78.4, 14_995_592, 12.023, images_per_second=1160),
    Result("Table 13", "resnet50_clll", 224, 78.3, 15_061_880, 10.009, images_per_second=2200),
    Result("Table 13", "resnet50_ccll", 224, 78.3, 15_559_736, 7.753, images_per_second=4980),
    Result("Table 13", "resnet50_cccl", 224, 77.3, 18_825_176, 7.735, images_per_second=7160),
    Result("Table 14", "resnet_rs101_no_se", 224, 81.3, 44_605_384, 16.313, images_per_second=4600),
    Result("Table 14", "resnet_rs101", 224, 81.8, 63_618_696, 16.351, images_per_second=4000),
    Result("Table 14", "lambda_resnet101", 224, 82.3, 36_866_920, 15.468, images_per_second=4040),
    Result("Table 14", "lambda_resnet101_c4", 224, 82.6, 25_982_120, 13.603,
           images_per_second=2560),
    Result("Table 14", "resnet_rs152_no_se", 256, 82.5, 60_249_032, 31.003, images_per_second=2780),
    Result("Table 14", "resnet_rs152", 256, 83.0, 86_621_576, 31.056, images_per_second=2400),
    Result("Table 14", "lambda_resnet152", 256, 83.4, 51_404_696, 29.632, images_per_second=2400),
    Result("Table 14", "lambda_resnet152_c4", 256, 83.4, 35_077_496, 26.353,
           images_per_second=1480),
    Result("Table 15", "lambda_resnet152_c4", 320, 84.0, 35_077_496, 45.567),
    Result("Table 15", "lambda_resnet200_c4", 320, 84.3, 41_665_912, 59.832),
    Result("Table 16", "lambda_resnet270", 256, 84.0, 47_697_384, 33.697,
           {"placement": "CLLL", "scope": 7}),
    Result("Table 17", "mobilenet_v2", 224, 72.7, 3_504_872, 0.602),
    Result("Table 17", "lambda_mobilenet_v2", 224, 73.3, 3_236_824, 0.577),
    Result("Table 19", "lambda_resnet50", 128, 77.4, 18_963_272, 2.662, seconds=0.058),
    Result("Table 19", "lambda_resnet50", 160, 79.2, 18_963_272, 4.18, seconds=0.089),
    Result("Table 19", "lambda_resnet101", 160, 80.8, 36_866_920, 7.791, seconds=0.14),
    Result("Table 19", "lambda_resnet101", 192, 81.9, 36_866_920, 11.285, seconds=0.2),
    Result("Table 19", "lambda_resnet152", 192, 82.5, 51_404_696, 16.398, seconds=0.28),
    Result("Table 19", "lambda_resnet152", 224, 83.2, 51_404_696, 22.49, seconds=0.38),
    Result("Table 19", "lambda_resnet152", 256, 83.8, 51_404_696, 29.632, seconds=0.49),
    Result("Table 19", "lambda_resnet270", 256, 84.2, 81_366_248, 52.186, seconds=0.91),
    Result("Table 19", "lambda_resnet350", 256, 84.4, 105_475_176, 67.019, seconds=1.16),
    Result("Table 19", "lambda_resnet350", 288, 84.5, 105_475_176, 85.195, seconds=1.48),
    Result("Table 19", "lambda_resnet350", 320, 84.7, 105_475_176, 105.697, seconds=1.91),
    Result("Table 19", "lambda_resnet420", 320, 84.9, 124_438_664, 125.984, seconds=2.25),
    Result("Table 19", "lambda_resnet50", 128, 82.1, 18_963_272, 2.662,
           seconds=0.058, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet50", 160, 83.4, 18_963_272, 4.18,
           seconds=0.089, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet101", 160, 84.7, 36_866_920, 7.791,
           seconds=0.14, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet101", 192, 85.4, 36_866_920, 11.285,
           seconds=0.2, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet152", 192, 86.1, 51_404_696, 16.398,
           seconds=0.28, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet152", 224, 86.5, 51_404_696, 22.49,
           seconds=0.38, data=PSEUDO_LABELS),
    Result("Table 19", "lambda_resnet152", 288, 86.7, 51_404_696, 37.874,
           seconds=0.63, data=PSEUDO_LABELS),
    Result(SECTION, "resnet_rs420", 320, 84.25, 191_891_656, 127.885),
    Result(SECTION, "resnet_rs420_no_se", 320, 84.0, 131_840_712, 127.765),
)
# fmt: on


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


def trainable_parameters(model: "keras.Model") -> int:
    """Returns how many numbers of a model training changes."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
