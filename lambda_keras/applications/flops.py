"""Floating-point operations of a model by the paper's conventions.

Two for each multiply-accumulate of convolutions, products and lambdas; position lambdas and local
attention have as many context positions per query as the scope holds, at most the whole map, at its
borders too; halo attention has all of its window. Normalizations, softmax, activations and poolings
count nothing.
"""

import inspect
import math
from collections.abc import Iterator
from typing import Any

import keras
from keras import layers as theirs

from lambda_keras import layers as ours
from lambda_keras.layers.attention.base import AttentionLayer

# Kinds of operations; the last three are parts of lambda and attention layers.
CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"

_CONVOLUTIONS = (
    theirs.Conv1D,
    theirs.Conv2D,
    theirs.Conv3D,
    theirs.DepthwiseConv1D,
    theirs.DepthwiseConv2D,
)
_TRANSPOSED = (theirs.Conv1DTranspose, theirs.Conv2DTranspose, theirs.Conv3DTranspose)
_SEPARABLE = (theirs.SeparableConv1D, theirs.SeparableConv2D)
# Layers with weights that count nothing.
_FREE = (
    theirs.BatchNormalization,
    theirs.Embedding,
    theirs.GroupNormalization,
    theirs.LayerNormalization,
    theirs.Normalization,
    theirs.PReLU,
    theirs.RMSNormalization,
    theirs.UnitNormalization,
    ours.RelativePositionEmbedding,
)
# Layers and operations without weights that multiply matrices.
_PRODUCTS = {"AdditiveAttention", "Attention", "Conv", "ConvTranspose", "DepthwiseConv", "Dot"}
_PRODUCTS |= {"DotProductAttention", "Einsum", "Inner", "Lambda", "Matmul", "Outer"}
_PRODUCTS |= {"SeparableConv", "Tensordot", "Vdot"}


def count_flops(model: keras.Model) -> int:
    """Counts the floating-point operations of a model for one example, by the paper's conventions.

    Two for each multiply-accumulate of convolutions, dense layers, attention and lambdas; nothing
    for normalizations, activations and poolings. A layer that is called twice counts twice.

    Args:
        model: A functional or `keras.Sequential` model of inputs of a known size, with layers of
            this package and the common ones of Keras: convolutions, also transposed, depthwise and
            separable; `Dense`, `EinsumDense`, `MultiHeadAttention`; models within models.

    Returns:
        An int.

    Raises:
        ValueError: If a size is unknown, or the operations of a layer are; it is named.

    Example:

    >>> import keras
    >>> from lambda_keras.applications import LambdaResNet50, count_flops
    >>> count_flops(LambdaResNet50(input_shape=(128, 128, 3)))
    2661646336
    >>> count_flops(keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Conv2D(8, 1)]))
    768
    """
    return sum(sum(kinds.values()) for kinds in count_flops_by_stage(model).values())


def count_flops_by_stage(model: keras.Model) -> dict[str, dict[str, int]]:
    """Counts the floating-point operations of a model for one example, by stage and kind.

    Stages are the first parts of the names of the layers: `"stem"`, `"c2"`, ..., `"predictions"`.

    Args:
        model: As for `count_flops`.

    Raises:
        ValueError: As for `count_flops`.
    """
    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise ValueError(f"expected a functional keras.Model. Received: a {type(model)}")
    shapes = [tuple(inputs.shape) for inputs in model.inputs]
    if any(None in shape[1:] for shape in shapes):
        received = ", ".join(map(str, shapes))
        raise ValueError(f"expected a model built for inputs of a known size. Received: {received}")
    counts: dict[str, dict[str, int]] = {}
    for operation, node in _calls(model):
        stage = counts.setdefault(operation.name.split("_")[0], {})
        for kind, number in _call_flops(operation, node).items():
            stage[kind] = stage.get(kind, 0) + number
    return {stage: kinds for stage, kinds in counts.items() if sum(kinds.values())}


def _calls(model: keras.Model) -> Iterator[tuple[Any, Any]]:
    """Yields every call of a layer or operation in the graph of a model: what, and its node."""
    graph: Any = model
    if isinstance(model, keras.Sequential):
        graph = keras.Model(model.inputs, model.outputs)
    order = {id(operation): number for number, operation in enumerate(graph.operations)}
    nodes = [node for depth in graph._nodes_by_depth.values() for node in depth]
    for node in sorted(nodes, key=lambda node: order[id(node.operation)]):
        if not node.is_input:
            yield node.operation, node


def _call_flops(layer: Any, node: Any) -> dict[str, int]:
    """Operations of a layer in one of its calls, by kind."""
    inputs = [tuple(tensor.shape[1:]) for tensor in node.input_tensors]
    outputs = [tuple(tensor.shape[1:]) for tensor in node.output_tensors]
    if isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED, *_SEPARABLE)):
        *grid, _ = inputs[0] if isinstance(layer, _TRANSPOSED) else outputs[0]
        if layer.data_format == "channels_first":
            _, *grid = inputs[0] if isinstance(layer, _TRANSPOSED) else outputs[0]
        names = ("kernel",)
        if isinstance(layer, _SEPARABLE):
            names = ("depthwise_kernel", "pointwise_kernel")
        kernels = sum(math.prod(getattr(layer, name).shape) for name in names)
        return {CONVOLUTION: 2 * _product(layer, grid) * kernels}
    if isinstance(layer, theirs.Dense):
        return {DENSE: 2 * _product(layer, outputs[0][:-1]) * math.prod(layer.kernel.shape)}
    if isinstance(layer, theirs.EinsumDense):
        return {DENSE: _einsum_flops(layer, inputs[0])}
    if isinstance(layer, theirs.MultiHeadAttention):
        given = _arguments(layer, node)
        return _multi_head_flops(layer, given["query"].shape[1:], given["value"].shape[1:])
    if isinstance(layer, keras.Model) and getattr(layer, "inputs", None):
        inner: dict[str, int] = {}
        for kinds in count_flops_by_stage(layer).values():
            for kind, number in kinds.items():
                inner[kind] = inner.get(kind, 0) + number
        return inner
    if isinstance(layer, ours.SqueezeExcitation):
        kernels = (layer.squeeze.kernel, layer.excite.kernel)
        return {EXCITATION: sum(2 * math.prod(kernel.shape) for kernel in kernels)}
    if isinstance(layer, ours.LambdaLayer):
        given = _arguments(layer, node)
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
        return attention_flops(layer, *inputs[0])
    kind = type(layer)
    is_known = kind.__module__.split(".")[0] in ("keras", "lambda_keras")
    is_known &= kind.__name__ not in _PRODUCTS
    if not isinstance(layer, _FREE) and (getattr(layer, "weights", ()) or not is_known):
        raise ValueError(
            f"expected layers whose operations are known. Received: {layer.name!r}, "
            f"a {kind.__name__}"
        )
    return {}


def _arguments(layer: Any, node: Any) -> dict[str, Any]:
    """Arguments of a call by their names."""
    given = node.arguments
    return inspect.signature(layer.call).bind(*given.args, **given.kwargs).arguments


def _product(layer: Any, sizes: Any) -> int:
    if None in sizes:
        raise ValueError(
            f"expected a known size. Received: {tuple(sizes)} in the layer {layer.name!r}"
        )
    return math.prod(sizes)


def _einsum_flops(layer: theirs.EinsumDense, shape: tuple[int, ...]) -> int:
    """Operations of `EinsumDense`: as many products as its indices have values together."""
    left, kernel = layer.equation.replace(" ", "").split("->")[0].split(",")
    sizes = dict(zip(kernel, layer.kernel.shape, strict=True))
    shared = math.prod(sizes[letter] for letter in kernel if letter in left)
    return 2 * _product(layer, shape) * math.prod(sizes.values()) // shared


def _multi_head_flops(layer: Any, query: tuple[int, ...], value: tuple[int, ...]) -> dict[str, int]:
    """Operations of Keras' `MultiHeadAttention` on sequences."""
    if len(query) != 2 or len(value) != 2:
        raise ValueError(
            f"expected attention on sequences. Received: {layer.name!r}, on inputs of shape "
            f"{query} and {value}"
        )
    queries, values = _product(layer, query[:1]), _product(layer, value[:1])
    dense = layer.query_dense, layer.output_dense, layer.key_dense, layer.value_dense
    kernels = [math.prod(one.kernel.shape) for one in dense]
    projecting = queries * sum(kernels[:2]) + values * sum(kernels[2:])
    pairs = queries * values * layer.num_heads
    return {PROJECTIONS: 2 * projecting, CONTENT: 2 * pairs * (layer.key_dim + layer.value_dim)}


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
