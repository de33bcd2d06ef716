"""ResNet-50 (v1) of the ablations, and its baselines (Tables 3, 4 and 9 to 13)."""

from typing import Any, Unpack

import keras

from lambda_keras.applications.arguments import MixerResNetArguments, Pooling, Shape, Weights
from lambda_keras.applications.build import build, document

__all__ = ["ResNet50"]


def ResNet50(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet50",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-50 (v1) of the ablations; its arguments choose lambda layers or attention by stage.

    Blocks of c2 to c5: 3, 4, 6, 3.
    25,557,032 parameters, 8.178 GFLOPs for an image of 224x224.

    The networks of the ablations (Tables 3, 4 and 9-13): `placement="CCCC"` is the baseline of the
    paper, `"LLLL"` its lambda network; `squeeze_excitation=True` is the channel attention of
    Table 3, `double_attention=True` its linear attention.
    """
    return build("resnet50", **locals())


document(__all__, globals())
