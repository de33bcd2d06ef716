"""Constructors of the networks, with the arguments of `keras.applications`, and their tools."""

from lambda_keras.applications import networks
from lambda_keras.applications.common import describe
from lambda_keras.applications.flops import count_flops
from lambda_keras.applications.folding import feature_extractor, fold_batch_normalization
from lambda_keras.applications.networks import *  # noqa: F403
from lambda_keras.applications.preprocessing import (
    decode_predictions,
    imagenet_classes,
    preprocess_input,
    preprocessing_of,
)

__all__ = [
    "count_flops",
    "decode_predictions",
    "feature_extractor",
    "fold_batch_normalization",
    "imagenet_classes",
    "preprocess_input",
    "preprocessing_of",
]
__all__ += networks.__all__

for _name in networks.__all__:
    describe(globals()[_name])
