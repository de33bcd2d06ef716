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
    """Arguments of a residual network whose mixer and size can be chosen."""

    filters: int


class MobileNetArguments(NetworkArguments, total=False):
    """Arguments of MobileNetV2."""

    alpha: float


class LambdaMobileNetArguments(MobileNetArguments, LambdaArguments, total=False):
    """Arguments of MobileNetV2 with lambda layers."""

    expand_lambda: bool


SHARED = """Args:
    include_top: Whether there is a classifier.
    weights: None (random initialization, E.1; unlike keras.applications the default, as most of
        these networks have no published weights), `"imagenet"` where weights were published (of
        LambdaResNet14 `"fashion_mnist"`, without download), the path of a `.weights.h5` or
        `.safetensors` file of this network, or `"hf://owner/repo"` for a repository of the Hugging
        Face Hub.
    input_tensor: Keras tensor to build the network on, in place of a new `keras.Input`.
    input_shape: `(height, width, channels)` of an image, channels last; height and width may be
        None. Defaults to three channels of any size.
    pooling: Pooling of a network without a classifier: None (the last feature map), `"avg"` or
        `"max"`.
    classes: Number of classes.
    classifier_activation: Activation of the classifier, None for logits.
    name: Name of the model.
    adapt_weights: Whether weights of another number of classes or channels are accepted: a
        classifier of other classes stays random; for other channels the first convolution is
        summed over its channels for one, else repeated and scaled, as in timm.
    dropout_rate: Dropout of the pooled features before the classifier (Table 20).
    batch_norm_momentum: Momentum in [0, 1) of the moving statistics of all batch normalizations.
        Inference is near chance until they have followed the batches, which takes about 20 steps
        with 0.9 (the default), 200 with 0.99 and 2000 with 0.999.
"""
RESNET = """\
    stochastic_depth_rate: Drop rate of the branches of c5; earlier stages drop less, in proportion
        to the number of the stage (Table 20).
    padding: Padding of strided convolutions, `"same"` (TensorFlow's), or equal on both sides:
        `"fixed"`, with TensorFlow's poolings (ResNet-RS), or `"symmetric"`, with PyTorch's. Weights
        fit the padding that they were trained with.
    stem: Layers before c2: `"v1"`, `"tiered"` or `"rs"` with stride 4, or `"small"` with stride 1
        (`lambda_keras.models.specs.ResNetSpec`).
    blocks: Numbers of blocks of the stages c2, c3, c4 and c5, such as `(3, 4, 12, 3)`. Stages all
        of whose blocks have a lambda layer or another mixer stay so; otherwise mixers are as far
        apart as before, and in c4 of LambdaResNets as in Table 18 for the numbers 6, 23, 36, 53, 72
        and 87. In LambdaResNet14, a stage of 0 blocks is left out with its stride and its features.
    squeeze_excitation: Whether blocks with 3x3 convolutions have squeeze-and-excitation, one value
        or four for the stages c2 to c5; a block with a mixer never has. By default all stages of
        ResNet-RS have it, and c2 and c3 of LambdaResNets. ResNet-RS without it are baselines of
        Table 14.
    double_attention: Whether double attention (Chen et al., 2018) follows every other block of c3
        and c4. Defaults to `False`.
"""


def _hyper_parameters(names: Iterable[str], text: str) -> str:
    """Formats one docstring entry for several arguments."""
    entry = f"{', '.join(names)}: Hyper-parameters of {text}"
    return textwrap.fill(entry, 96, initial_indent="    ", subsequent_indent="        ") + "\n"


LAMBDA = _hyper_parameters(
    LambdaArguments.__annotations__,
    "`lambda_keras.layers.LambdaLayer`; each is one value, or four for the stages c2 to c5. "
    "Defaults:",
)
LAMBDA += "        DEFAULTS.\n"
MIXER = """\
    placement: A letter for each of the stages c2, c3, c4 and c5 (Table 13), such as `"CLLL"`: C for
        convolutions, L for the mixer, such as a lambda layer, in all blocks. None for the network's
        own blocks. LambdaResNets with `"CCLL"` stand in Tables 14 and 15; they keep
        squeeze-and-excitation in the convolution blocks of c2 and c3.
    mixer: Layer in place of 3x3 convolutions: `"lambda"`, `"content"` (lambda layers without
        position lambdas), `"global"`, `"local"`, `"halo"`, `"axial"`, `"augmented"`, or the linear
        attention `"efficient"`, `"linear"`, `"favor"` or `"relu"` (`lambda_keras.models.mixers`).
        `"global"`, `"axial"` and `"augmented"` need an `input_shape` of known height and width.
"""
MIXER += _hyper_parameters(
    [*MixerArguments.__annotations__][len(LambdaArguments.__annotations__) :],
    "attention layers in `lambda_keras.layers`, next to their `num_heads`, `key_dim`, "
    "`multi_query`, `scope` and `strided_queries`. Each mixer accepts its own ones only.",
)
SMALL = """\
    filters: Width of the stem and of the bottlenecks of c2; every stage doubles it.
"""
MOBILENET = """\
    alpha: Width multiplier of MobileNetV2.
"""
EXPAND = """\
    expand_lambda: Whether the blocks with a lambda layer have their first pointwise convolution, as
        the text says. Without it they count the 3.21 M of Table 17.
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
>>> from lambda_keras.applications import NAME
>>> model = NAME(classes=10)
>>> model.output_shape
(None, 10)

Reference:
    LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602).
"""
# Documentation of each group, in the order of the text.
TEXTS = {
    ResNetArguments: SHARED + RESNET,
    MixerResNetArguments: SHARED + RESNET + MIXER + LAMBDA,
    SmallResNetArguments: SHARED + RESNET + SMALL + MIXER + LAMBDA,
    MobileNetArguments: SHARED + MOBILENET,
    LambdaMobileNetArguments: SHARED + MOBILENET + EXPAND + LAMBDA,
}
