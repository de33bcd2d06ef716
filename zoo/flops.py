"""Floating-point operations by the paper's conventions: `python -m zoo.flops NAME`.

Two for each multiply-accumulate of convolutions, products and lambdas; position lambdas and local
attention have as many context positions per query as the scope holds, at most the whole map, at its
borders too; halo attention has all of its window. Normalizations, softmax, activations and poolings
count nothing.
"""

import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings

if TYPE_CHECKING:
    import keras

# Kinds of operations; the second three are parts of lambda and attention layers.
CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"


def lambda_layer_flops(
    positions: int,
    depth: int,
    filters: int,
    num_heads: int,
    key_dim: int,
    intra_depth: int = 1,
    scope_area: int | None = None,
    use_content: bool = True,
    use_position: bool = True,
    multi_query: bool = True,
    context: tuple[int, int] | None = None,
) -> dict[str, int]:
    """Returns the operations of a lambda layer for one example, by part.

    The keys' projection counts without content lambdas too, as in Table 10.

    Args:
        positions: Number n of queries.
        depth: Channels of the inputs.
        filters: Channels of the outputs.
        num_heads: Queries per position h.
        key_dim: Query and key depth k.
        intra_depth: Intra-depth u. Defaults to 1.
        scope_area: Positions in the scope; None: the whole context.
        use_content: Whether there is a content lambda. Defaults to True.
        use_position: Whether there are position lambdas. Defaults to True.
        multi_query: Whether heads share their lambdas. Defaults to True.
        context: Number m of context positions, and their channels; None: the inputs.
    """
    value_dim = filters // num_heads
    context_positions, context_depth = context or (positions, depth)
    seen = context_positions if scope_area is None else min(scope_area, context_positions)
    units = (1 if multi_query else num_heads) * intra_depth
    projecting = positions * depth * num_heads * key_dim
    projecting += context_positions * context_depth * units * (key_dim + value_dim)
    lambdas = units * key_dim * value_dim
    applying = positions * num_heads * key_dim * value_dim
    products = {
        PROJECTIONS: projecting,
        CONTENT: (context_positions * lambdas + applying) * use_content,
        POSITION: (positions * seen * lambdas + applying) * use_position,
    }
    return {part: 2 * number for part, number in products.items()}


def attention_flops(layer: Any, height: int, width: int, depth: int) -> dict[str, int]:
    """Returns the operations of an attention layer for one example, by part.

    A query is multiplied with each row of tables of relative positions once, however many context
    positions there are; only axial attention has products of its own for each of these.

    Args:
        layer: An attention layer of `lambda_keras.layers`.
        height: Height of the map.
        width: Width of the map.
        depth: Channels of the inputs.
    """
    from lambda_keras import layers as ours

    if isinstance(layer, ours.AxialAttention):
        first, second = layer.height_attention, layer.width_attention
        axes = (first, width, height, depth), (second, height, width, first.filters)
        both = [_row_attention_flops(*axis) for axis in axes]
        return {part: both[0][part] + both[1][part] for part in both[0]}
    products = _projections(layer, height, width, depth)
    positions = height * width
    if isinstance(layer, ours.LinearAttention):
        return products | _linear_attention(layer, positions)
    queries, units = positions, layer.num_heads * layer.key_dim
    if isinstance(layer, ours.GlobalAttention):
        seen, rows = positions, 2 * height - 1 + 2 * width - 1
    elif isinstance(layer, ours.LocalAttention):
        seen, rows = min(layer.scope**2, positions), layer.scope  # two tables of half the depth
    else:
        window = layer.block_size + 2 * layer.halo_size
        seen, rows = window**2, 2 * (2 * window - 1)
        queries = math.prod(
            -(-size // layer.block_size) * layer.block_size for size in (height, width)
        )
        if layer.strided_queries:
            queries //= layer.strides**2
    return products | {
        CONTENT: 2 * queries * seen * (units + layer.filters),
        POSITION: 2 * queries * rows * units,
    }


def _projections(layer: Any, height: int, width: int, depth: int) -> dict[str, int]:
    positions = height * width
    outputs = math.prod(layer.compute_output_shape((1, height, width, depth))[1:3])
    queries = outputs if getattr(layer, "strided_queries", False) else positions
    units = queries * layer.num_heads * layer.key_dim
    units += positions * layer.groups * (layer.key_dim + layer.value_dim)
    last = outputs * layer.filters**2 * layer.output_projection
    return {PROJECTIONS: 2 * (units * depth + last)}


def _row_attention_flops(layer: Any, height: int, width: int, depth: int) -> dict[str, int]:
    pairs, units = height * width**2, layer.num_heads * layer.key_dim
    return _projections(layer, height, width, depth) | {
        CONTENT: 2 * pairs * (units + layer.filters),
        POSITION: 2 * pairs * (2 * units + layer.filters),
    }


def _linear_attention(layer: Any, positions: int) -> dict[str, int]:
    heads, groups = layer.num_heads, layer.groups
    features, products = layer.key_dim, 0
    if layer.random_features is not None:
        features = layer.num_features
        products = (heads + groups) * features * layer.key_dim  # the features themselves
    products += (heads + groups) * features * layer.value_dim
    if layer.feature_map != "softmax":
        products += heads * features  # the denominators
    return {CONTENT: 2 * positions * products}


def count_flops(model: "keras.Model") -> dict[str, dict[str, int]]:
    """Returns the operations of a model for one image, by stage and kind.

    Stages are the first parts of the names of the layers: `"stem"`, `"c2"`, ..., `"predictions"`.

    Args:
        model: A functional model of the zoo, built for images of a known size.

    Raises:
        ValueError: If the size is unknown, or a layer with weights is of an unknown type.
    """
    shapes = [tuple(inputs.shape) for inputs in model.inputs]
    if any(None in shape[1:] for shape in shapes):
        received = ", ".join(map(str, shapes))
        raise ValueError(f"expected a model built for images of a known size. Received: {received}")
    counts: dict[str, dict[str, int]] = {}
    for layer in model.layers:
        stage = counts.setdefault(layer.name.split("_")[0], {})
        for kind, number in _layer_flops(layer).items():
            stage[kind] = stage.get(kind, 0) + number
    return {stage: kinds for stage, kinds in counts.items() if sum(kinds.values())}


def total(counts: dict[str, dict[str, int]]) -> int:
    """Returns the sum over stages and kinds."""
    return sum(sum(kinds.values()) for kinds in counts.values())


def _layer_flops(layer: Any) -> dict[str, int]:
    import keras

    from lambda_keras import layers as ours
    from lambda_keras.layers.attention.base import AttentionLayer

    if isinstance(layer, (keras.layers.Conv2D, keras.layers.DepthwiseConv2D, keras.layers.Dense)):
        outputs = math.prod(layer.output.shape[1:-1])
        kind = DENSE if isinstance(layer, keras.layers.Dense) else CONVOLUTION
        return {kind: 2 * outputs * math.prod(layer.kernel.shape)}
    if isinstance(layer, ours.SqueezeExcitation):
        kernels = (layer.squeeze.kernel, layer.excite.kernel)
        return {EXCITATION: sum(2 * math.prod(kernel.shape) for kernel in kernels)}
    if isinstance(layer, ours.LambdaLayer):
        call = layer._inbound_nodes[0].arguments
        given = inspect.signature(layer.call).bind(*call.args, **call.kwargs).arguments
        *grid, depth = given["inputs"].shape[1:]
        context = given.get("context")
        if context is not None:
            context = math.prod(context.shape[1:-1]), context.shape[-1]
        scope = None if layer.position_embedding == "absolute" else layer.scope
        if isinstance(scope, int):
            scope = (scope,) * len(grid)
        return lambda_layer_flops(
            math.prod(grid),
            depth,
            layer.filters,
            layer.num_heads,
            layer.key_dim,
            layer.intra_depth,
            None if scope is None else math.prod(scope),
            layer.use_content,
            layer.position_embedding is not None,
            layer.multi_query,
            context,
        )
    if isinstance(layer, (AttentionLayer, ours.AxialAttention)):
        return attention_flops(layer, *layer.input.shape[1:])
    free = (keras.layers.BatchNormalization, ours.RelativePositionEmbedding)
    if layer.weights and not isinstance(layer, free):
        raise ValueError(
            f"expected layers whose operations are known. Received: {layer.name!r}, "
            f"a {type(layer).__name__}"
        )
    return {}


class FlopsConfig(Settings, cli_prog_name="python -m zoo.flops"):
    """Counts the floating-point operations of a model for one image, by the paper's conventions.

    Two for each multiply-accumulate; position lambdas see the scope, at most the whole map.
    """

    model: CliPositionalArg[str] = Field(description="Model, by its name: see python -m zoo.list.")
    image_size: int | None = Field(
        default=None, ge=8, description="Height and width in pixels; None: the model's own."
    )
    overrides: dict[str, Any] = Field(
        default={},
        description="Other constructor arguments, e.g. --overrides placement=CLLL,scope=7, a list "
        "in quotes: 'scope=\"[7,7,7,23]\"'",
    )


def main(arguments: Sequence[str]) -> None:
    """Builds the model and prints its table.

    Raises:
        ValueError: If there is no such model, or an argument is wrong.
    """
    config = FlopsConfig.from_command_line(arguments)
    from zoo.cli.plain_yaml import typed
    from zoo.registry import create_model, find_model, trainable_parameters

    size = config.image_size or find_model(config.model).image_size
    overrides = typed(config.overrides)
    model = create_model(config.model, **{"input_shape": (size, size, 3), **overrides})
    counts = count_flops(model)
    print(f"{config.model} at {size}x{size}")
    print(f"trainable parameters {trainable_parameters(model):,}")
    print(f"floating-point operations {total(counts) / 1e9:.3f} G\n")
    kinds = list(dict.fromkeys(kind for stage in counts.values() for kind in stage))
    everything = {kind: sum(stage.get(kind, 0) for stage in counts.values()) for kind in kinds}
    print(f"{'GFLOPs':<12}" + "".join(f"{kind:>13}" for kind in [*kinds, "all"]))
    for name, stage in {**counts, "all": everything}.items():
        cells = [stage.get(kind) for kind in kinds]
        cells.append(sum(stage.values()))
        print(
            f"{name:<12}" + "".join(f"{cell / 1e9:>13.3f}" if cell else " " * 13 for cell in cells)
        )


if __name__ == "__main__":
    run_command(main)
