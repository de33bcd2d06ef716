"""Arguments of the networks that keras.applications lacks, and their documentation."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

from lambda_keras.models.mixers import LambdaArguments, MixerArguments

Weights = str | os.PathLike[str] | None
Shape = tuple[int | None, int | None, int] | None
Pooling = Literal["avg", "max"] | None


class NetworkArguments(TypedDict, total=False):
    """Arguments of every network."""

    adapt_weights: bool
    dropout_rate: float
    batch_norm_momentum: float


class ResNetArguments(NetworkArguments, total=False):
    """Arguments of residual networks."""

    stochastic_depth_rate: float
    padding: Literal["same", "fixed", "symmetric"]
    stem: Literal["v1", "tiered", "rs", "small"]
    blocks: Sequence[int]
    squeeze_excitation: bool | Sequence[bool]
    double_attention: bool


class MixerResNetArguments(ResNetArguments, MixerArguments, total=False):
    """Arguments of residual networks with lambda layers or another mixer."""

    placement: str | None
    mixer: str


class SmallResNetArguments(MixerResNetArguments, total=False):
    """Arguments of LambdaResNet14."""

    filters: int


class MobileNetArguments(NetworkArguments, total=False):
    """Arguments of MobileNetV2."""

    alpha: float


class LambdaMobileNetArguments(MobileNetArguments, LambdaArguments, total=False):
    """Arguments of MobileNetV2 with lambda layers."""

    expand_lambda: bool


# `document` fills in the fields in braces.
SHARED = """Args:
    include_top: Bool, whether there is a classifier.
    weights: None for random weights (E.1){published};
        the path of a `.weights.h5` or `.safetensors` file of this network, or of a published
        folder; or `"hf://owner/repo"` for a repository of the Hugging Face Hub. Defaults to None,
        unlike keras.applications, because most of these networks have no published weights.
    input_tensor: Keras tensor to build the network on, in place of a new `keras.Input`.
    input_shape: `(height, width, channels)` of an image, channels last; height and width may be
        None. Defaults to `{input_shape}`.
    pooling: Pooling of a network without a classifier: None (the last feature map), `"avg"` or
        `"max"`.
    classes: Int, number of classes.
    classifier_activation: Activation of the classifier, None for logits.
    name: String, name of the model.
    adapt_weights: Bool, whether weights of another number of classes or channels are accepted. A
        classifier of other classes stays random. The kernel of the first convolution is summed over
        its channels for one channel, else repeated and scaled, as in timm. Defaults to `False`.
    dropout_rate: Float in [0, 1), dropout of the pooled features before the classifier (Table 20).
        Defaults to `{spec.dropout_rate}`.
    batch_norm_momentum: Float in [0, 1), momentum of the moving statistics of all batch
        normalizations. Inference is near chance until they have followed the batches, which takes
        about 20 steps with 0.9, 200 with 0.99 and 2000 with 0.999. Defaults to
        `{spec.batch_norm_momentum}`.
"""
RESNET = """\
    stochastic_depth_rate: Float in [0, 1), drop rate of the branches of c5; earlier stages drop
        less, in proportion to the number of the stage (Table 20). Defaults to
        `{spec.stochastic_depth_rate}`.
    padding: Padding of strided convolutions, `"same"` (TensorFlow's), or equal on both sides:
        `"fixed"`, with TensorFlow's poolings (ResNet-RS), or `"symmetric"`, with PyTorch's. Weights
        fit the padding that they were trained with. Defaults to `{spec.padding!r}`.
    stem: Layers before c2: `"v1"`, `"tiered"` or `"rs"` with stride 4, or `"small"` with stride 1
        (`lambda_keras.models.specs.ResNetSpec`). Defaults to `{spec.stem!r}`.
    blocks: Numbers of blocks of the stages c2, c3, c4 and c5. Stages all of whose blocks have a
        lambda layer or another mixer stay so; otherwise mixers are as far apart as before, and in
        c4 of LambdaResNets as in Table 18 for the numbers 6, 23, 36, 53, 72 and 87. In
        LambdaResNet14, a stage of 0 blocks is left out with its stride and its features. Defaults
        to `{spec.blocks}`.
    squeeze_excitation: Whether blocks with 3x3 convolutions have squeeze-and-excitation, a bool or
        four for the stages c2 to c5; a block with a mixer never has. ResNet-RS without it are
        baselines of Table 14. Defaults to `{spec.squeeze_excitation}`.
    double_attention: Bool, whether double attention (Chen et al., 2018) follows every other block
        of c3 and c4. Defaults to `False`.
"""


def _hyper_parameters(names: Iterable[str], text: str) -> str:
    """Formats one docstring entry for several arguments."""
    entry = f"{', '.join(names)}: Hyper-parameters of {text}"
    return textwrap.fill(entry, 96, initial_indent="    ", subsequent_indent="        ") + "\n"


LAMBDA = _hyper_parameters(
    LambdaArguments.__annotations__,
    "`lambda_keras.layers.LambdaLayer`; each is one value, or four for the stages c2 to c5. "
    "Defaults to:",
)
LAMBDA += "        {hyper_parameters}\n"
MIXER = """\
    placement: A letter for each of the stages c2, c3, c4 and c5 (Table 13), such as `"CLLL"`: C for
        convolutions, L for the mixer, such as a lambda layer, in all blocks. None for the network's
        own blocks, the default. LambdaResNet50 to LambdaResNet420 with `"CCLL"` are networks of
        Tables 14 and 15; they keep squeeze-and-excitation in the convolution blocks of c2 and c3.
    mixer: Layer in place of 3x3 convolutions: `"lambda"`, `"content"` (lambda layers without
        position lambdas), `"global"`, `"local"`, `"halo"`, `"axial"`, `"augmented"`, or the linear
        attention `"efficient"`, `"linear"`, `"favor"` or `"relu"` (`lambda_keras.models.mixers`).
        `"global"`, `"axial"` and `"augmented"` need an `input_shape` of known height and width.
        Defaults to `{spec.mixer!r}`.
"""
MIXER += _hyper_parameters(
    [*MixerArguments.__annotations__][len(LambdaArguments.__annotations__) :],
    "attention layers in `lambda_keras.layers`, next to their `num_heads`, `key_dim`, "
    "`multi_query`, `scope` and `strided_queries`. Each mixer accepts its own ones only.",
)
SMALL = """\
    filters: Int, width of the stem and of the bottlenecks of c2; every stage doubles it. Defaults
        to `{spec.filters}`.
"""
MOBILENET = """\
    alpha: Float, width multiplier of MobileNetV2. Defaults to `{spec.alpha}`.
"""
EXPAND = """\
    expand_lambda: Bool, whether blocks with a lambda layer keep their first pointwise convolution,
        as in D.3.2. Without it the network has the 3.21 M parameters of Table 17. Defaults to
        `{spec.expand_lambda}`.
"""
RESULT = """
Call arguments:
    inputs: Float tensor of shape `(batch, height, width, channels)`, RGB images that passed
        `lambda_keras.applications.preprocess_input`.

Returns:
    A functional `keras.Model` whose layers `"c2"`, `"c3"`, `"c4"` and `"c5"` are the features at
    strides 4, 8, 16 and 32 (LambdaResNet14: 1, 2, 4 and 8). Its output has shape
    `(batch, classes)`, or without classifier `(batch, channels)` if pooled and
    `(batch, height / stride, width / stride, channels)` if not.

Raises:
    ValueError: If an argument is out of its range, or the weights do not fit.
    TypeError: If the network has no such argument.

Example:
>>> from lambda_keras.applications import {constructor}
>>> model = {constructor}(classes=10)
>>> model.output_shape
(None, 10)

Reference:
    {reference}
"""
# By the beginning of the names of constructors.
REFERENCES = {
    "Lambda": "LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602).",
    "ResNetRS": "Revisiting ResNets (Bello et al., NeurIPS 2021, arXiv:2103.07579).",
    "ResNet50": "Deep Residual Learning (He et al., CVPR 2016, arXiv:1512.03385).",
    "BoTNet": "Bottleneck Transformers (Srinivas et al., CVPR 2021, arXiv:2101.11605).",
    "HaloNet": "Scaling Local Self-Attention (Vaswani et al., CVPR 2021, arXiv:2103.12731).",
    "MobileNetV2": "MobileNetV2 (Sandler et al., CVPR 2018, arXiv:1801.04381).",
}
# Documentation of each group, in the order of the text.
TEXTS = {
    ResNetArguments: SHARED + RESNET,
    MixerResNetArguments: SHARED + RESNET + MIXER + LAMBDA,
    SmallResNetArguments: SHARED + RESNET + SMALL + MIXER + LAMBDA,
    MobileNetArguments: SHARED + MOBILENET,
    LambdaMobileNetArguments: SHARED + MOBILENET + EXPAND + LAMBDA,
}
