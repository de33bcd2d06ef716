"""Constructors of the networks, with the arguments of `keras.applications`."""

from lambda_keras.applications.preprocessing import decode_predictions, preprocess_input
from lambda_keras.applications.resnet import (
    LambdaResNet14,
    LambdaResNet50,
    LambdaResNet101,
    LambdaResNet152,
    LambdaResNet200,
    LambdaResNet270,
    LambdaResNet350,
    LambdaResNet420,
    ResNet50,
)

__all__ = [
    "LambdaResNet14",
    "LambdaResNet50",
    "LambdaResNet101",
    "LambdaResNet152",
    "LambdaResNet200",
    "LambdaResNet270",
    "LambdaResNet350",
    "LambdaResNet420",
    "ResNet50",
    "decode_predictions",
    "preprocess_input",
]
