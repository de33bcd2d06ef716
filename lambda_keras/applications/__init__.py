"""Network constructors with the arguments of `keras.applications`, and tools for networks."""

from lambda_keras.applications import lambda_resnet, mobilenet, resnet50, resnet_rs, timm
from lambda_keras.applications.flops import count_flops
from lambda_keras.applications.folding import feature_extractor, fold_batch_normalization
from lambda_keras.applications.lambda_resnet import *  # noqa: F403
from lambda_keras.applications.mobilenet import *  # noqa: F403
from lambda_keras.applications.preprocessing import (
    Preprocessing,
    decode_predictions,
    imagenet_classes,
    preprocess_input,
    preprocessing_of,
)
from lambda_keras.applications.resnet50 import *  # noqa: F403
from lambda_keras.applications.resnet_rs import *  # noqa: F403
from lambda_keras.applications.timm import *  # noqa: F403

__all__ = [
    "Preprocessing",
    "count_flops",
    "decode_predictions",
    "feature_extractor",
    "fold_batch_normalization",
    "imagenet_classes",
    "preprocess_input",
    "preprocessing_of",
]
# One line each: type checkers follow no other form.
__all__ += lambda_resnet.__all__
__all__ += resnet_rs.__all__
__all__ += resnet50.__all__
__all__ += timm.__all__
__all__ += mobilenet.__all__
