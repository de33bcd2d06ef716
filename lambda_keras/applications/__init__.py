"""Constructors of the networks, with the arguments of `keras.applications`.

A network that was saved needs `import lambda_keras` before `keras.models.load_model`, no
`custom_objects`.
"""

from lambda_keras.applications import mobilenet, resnet
from lambda_keras.applications.common import describe
from lambda_keras.applications.features import feature_extractor
from lambda_keras.applications.flops import count_flops
from lambda_keras.applications.folding import fold_batch_normalization
from lambda_keras.applications.mobilenet import *  # noqa: F403
from lambda_keras.applications.preprocessing import (
    decode_predictions,
    imagenet_classes,
    preprocess_input,
    preprocessing_of,
)
from lambda_keras.applications.resnet import *  # noqa: F403

__all__ = [
    "count_flops",
    "decode_predictions",
    "feature_extractor",
    "fold_batch_normalization",
    "imagenet_classes",
    "preprocess_input",
    "preprocessing_of",
]
__all__ += mobilenet.__all__
__all__ += resnet.__all__

for _name in (*mobilenet.__all__, *resnet.__all__):
    describe(globals()[_name])
