"""LambdaResNets and their baselines: thin constructors over the specs of `models.specs`."""

import keras

from lambda_keras.applications.common import Constructor, Shape, Weights, build, constructor
from lambda_keras.models import specs


def _lambda_resnet(depth: int, parameters: str) -> Constructor:
    return constructor(
        f"LambdaResNet{depth}",
        f"lambda_resnet{depth}",
        specs.lambda_resnet(depth),
        f"LambdaResNet-{depth} (Table 18): {parameters} parameters.",
    )


def _lambda_resnet_c4(depth: int, parameters: str) -> Constructor:
    return constructor(
        f"LambdaResNet{depth}C4",
        f"lambda_resnet{depth}_c4",
        specs.lambda_resnet(depth, all_c4=True),
        f"LambdaResNet-{depth} with lambda layers in every block of c4 and c5 (Tables 14, 15): "
        f"{parameters} parameters.",
    )


def _resnet_rs(depth: int, parameters: str) -> Constructor:
    return constructor(
        f"ResNetRS{depth}",
        f"resnet_rs{depth}",
        specs.resnet_rs(depth),
        f"ResNet-RS-{depth}, with squeeze-and-excitation, the baseline of Table 14: {parameters} "
        "parameters.",
    )


def _resnet_rs_no_se(depth: int, parameters: str) -> Constructor:
    return constructor(
        f"ResNetRS{depth}NoSE",
        f"resnet_rs{depth}_no_se",
        specs.resnet_rs(depth, squeeze_excitation=False),
        f"ResNet-RS-{depth} without squeeze-and-excitation, the baseline of Table 14: "
        f"{parameters} parameters.",
    )


LambdaResNet14 = constructor(
    "LambdaResNet14",
    "lambda_resnet14",
    specs.LAMBDA_RESNET14,
    "A small LambdaResNet for images of some 32 pixels; not in the paper. Its strides are 1 to 8.",
)
LambdaResNet50 = _lambda_resnet(50, "18.96 M")
LambdaResNet101 = _lambda_resnet(101, "36.87 M")
LambdaResNet152 = _lambda_resnet(152, "51.40 M")
LambdaResNet200 = _lambda_resnet(200, "57.99 M")
LambdaResNet270 = _lambda_resnet(270, "81.37 M")
LambdaResNet350 = _lambda_resnet(350, "105.48 M")
LambdaResNet420 = _lambda_resnet(420, "124.44 M")

LambdaResNet50C4 = _lambda_resnet_c4(50, "16.24 M")
LambdaResNet101C4 = _lambda_resnet_c4(101, "25.98 M")
LambdaResNet152C4 = _lambda_resnet_c4(152, "35.08 M")
LambdaResNet200C4 = _lambda_resnet_c4(200, "41.67 M")
LambdaResNet270C4 = _lambda_resnet_c4(270, "55.79 M")
LambdaResNet350C4 = _lambda_resnet_c4(350, "69.56 M")
LambdaResNet420C4 = _lambda_resnet_c4(420, "81.44 M")

ResNetRS50 = _resnet_rs(50, "35.69 M")
ResNetRS101 = _resnet_rs(101, "63.62 M")
ResNetRS152 = _resnet_rs(152, "86.62 M")
ResNetRS200 = _resnet_rs(200, "93.21 M")
ResNetRS270 = _resnet_rs(270, "129.86 M")
ResNetRS350 = _resnet_rs(350, "163.96 M")
ResNetRS420 = _resnet_rs(420, "191.89 M")

ResNetRS50NoSE = _resnet_rs_no_se(50, "25.61 M")
ResNetRS101NoSE = _resnet_rs_no_se(101, "44.61 M")
ResNetRS152NoSE = _resnet_rs_no_se(152, "60.25 M")
ResNetRS200NoSE = _resnet_rs_no_se(200, "64.73 M")
ResNetRS270NoSE = _resnet_rs_no_se(270, "89.66 M")
ResNetRS350NoSE = _resnet_rs_no_se(350, "112.84 M")
ResNetRS420NoSE = _resnet_rs_no_se(420, "131.84 M")

_TIMM = "It is timm's network, layer by layer, so that timm's weights give timm's outputs."
LambdaResNet26T = constructor(
    "LambdaResNet26T",
    "lambda_resnet26t",
    specs.TIMM["lambda_resnet26t"],
    f"timm's `lambda_resnet26t`, with published weights: 10.96 M parameters. {_TIMM}",
)
LambdaResNet26RPT256 = constructor(
    "LambdaResNet26RPT256",
    "lambda_resnet26rpt_256",
    specs.TIMM["lambda_resnet26rpt_256"],
    f"timm's `lambda_resnet26rpt_256`, with published weights: 10.99 M parameters. {_TIMM}\n\n"
    "    Its embeddings are global: the weights are for images of 256x256 pixels only.",
    default_shape=(256, 256, 3),
)
LambdaResNet50TS = constructor(
    "LambdaResNet50TS",
    "lambda_resnet50ts",
    specs.TIMM["lambda_resnet50ts"],
    f"timm's `lambda_resnet50ts`, with published weights: 21.54 M parameters. {_TIMM}",
)


def ResNet50(
    include_top: bool = True,
    weights: Weights = None,
    input_tensor=None,
    input_shape: Shape | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation="softmax",
    name: str = "resnet50",
    *,
    dropout_rate: float = 0.0,
    stochastic_depth_rate: float = 0.0,
    placement: str = "CCCC",
    padding: str = "same",
    num_heads: int = 4,
    key_dim: int = 16,
    intra_depth: int = 1,
    scope: int | None = 23,
    use_content: bool = True,
    position_embedding: str | None = "relative",
    query_normalization: str | None = "batch",
    key_normalization: str | None = "softmax",
    value_normalization: str | None = "batch",
    use_bias: bool = False,
    implementation: str = "auto",
) -> keras.Model:
    """ResNet-50 (v1) with lambda layers in place of all 3x3 convolutions of some stages.

    The networks of the ablations (Tables 3, 4 and 9-13). The arguments before `placement` are
    those of `LambdaResNet50`.

    Args:
        placement: a letter for each of the stages c2, c3, c4 and c5 (Table 13): C for convolutions,
            L for lambda layers. `"CCCC"` is the baseline of the paper, `"LLLL"` its lambda
            network. Defaults to `"CCCC"`.
        padding: of strided convolutions and poolings, `"same"` (TensorFlow's) or `"symmetric"`
            (PyTorch's, for weights that were trained there). Defaults to `"same"`.
        num_heads, key_dim, intra_depth, scope, use_content, query_normalization,
            key_normalization, value_normalization, use_bias, implementation: of all lambda layers;
            see `lambda_keras.layers.LambdaLayer`, which has the same defaults.
        position_embedding: the same; `"shared"` is one table for all lambda layers (Table 4).
    """
    if padding not in ("same", "symmetric"):
        raise ValueError(f"expected padding to be 'same' or 'symmetric'. Received: {padding!r}")
    blocks, _ = specs.DEPTHS[50]
    spec = specs.ResNetSpec(
        blocks,
        lambda_blocks=specs.placement(blocks, placement),
        padding=padding,
        dropout_rate=dropout_rate,
        stochastic_depth_rate=stochastic_depth_rate,
        lambda_layer=specs.LambdaSpec(
            num_heads=num_heads,
            key_dim=key_dim,
            intra_depth=intra_depth,
            scope=scope,
            use_content=use_content,
            position_embedding=position_embedding,
            query_normalization=query_normalization,
            key_normalization=key_normalization,
            value_normalization=value_normalization,
            use_bias=use_bias,
            implementation=implementation,
        ),
    )
    return build(
        spec,
        "resnet50",
        include_top,
        weights,
        input_tensor,
        input_shape,
        pooling,
        classes,
        classifier_activation,
        name,
    )
