"""Floating-point operations of a model by the paper's conventions.

A multiply-accumulate counts two. Per query, position lambdas and local attention count all context
positions of the scope, at borders too, but at most the whole map; halo attention counts its whole
window. Normalizations, softmax, activations and poolings count nothing.
"""

import inspect
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras
from keras import layers

from lambda_keras.layers.arguments import check, check_functional
from lambda_keras.layers.base import CONTENT, CONVOLUTION, DENSE, PROJECTIONS

_CONVOLUTIONS = (
    layers.Conv1D,
    layers.Conv2D,
    layers.Conv3D,
    layers.DepthwiseConv1D,
    layers.DepthwiseConv2D,
)
_TRANSPOSED = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
_SEPARABLE = (layers.SeparableConv1D, layers.SeparableConv2D)
# Layers of Keras with weights that count nothing.
_FREE = (
    layers.BatchNormalization,
    layers.Embedding,
    layers.GroupNormalization,
    layers.LayerNormalization,
    layers.Normalization,
    layers.PReLU,
    layers.RMSNormalization,
    layers.UnitNormalization,
)
# Layers and operations without weights that multiply matrices.
_PRODUCTS = {"AdditiveAttention", "Attention", "Conv", "ConvTranspose", "DepthwiseConv", "Dot"}
_PRODUCTS |= {"DotProductAttention", "Einsum", "Inner", "Lambda", "Matmul", "Outer"}
_PRODUCTS |= {"SeparableConv", "Tensordot", "Vdot"}


def count_flops(model: keras.Model) -> int:
    """Counts the floating-point operations of a model for one example, by the paper's conventions.

    A layer that is called twice counts twice. A layer of your own needs a method
    `count_flops(inputs_shape)` that returns a dict of counts for one example by kind. Its arguments
    are shapes of the arguments of `call`, named `NAME_shape`.

    Args:
        model: A functional or `keras.Sequential` model of inputs of a known size, with layers of
            this package and the common ones of Keras: convolutions, also transposed, depthwise and
            separable; `Dense`, `EinsumDense`, `MultiHeadAttention`; models within models.

    Returns:
        Int, the number of operations; a multiply-accumulate counts as two.

    Raises:
        ValueError: If a size or the operations of a layer are unknown; the message names it.

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
    """
    check_functional(model)
    shapes = [tuple(inputs.shape) for inputs in model.inputs]
    known = all(None not in shape[1:] for shape in shapes)
    check(known, "a model built for inputs of a known size", inputs=shapes)
    counts: dict[str, Counter] = {}
    for operation, node in calls(model):
        stage = counts.setdefault(operation.name.split("_")[0], Counter())
        stage.update(call_flops(operation, node))
    return {stage: dict(kinds) for stage, kinds in counts.items() if kinds.total()}


def calls(model: keras.Model) -> Iterator[tuple[Any, Any]]:
    """Yields every call of a layer or operation in the graph of a model, with its node."""
    graph: Any = model
    if isinstance(model, keras.Sequential):
        graph = keras.Model(model.inputs, model.outputs)
    order = {id(operation): number for number, operation in enumerate(graph.operations)}
    nodes = [node for depth in graph._nodes_by_depth.values() for node in depth]
    for node in sorted(nodes, key=lambda node: order[id(node.operation)]):
        if not node.is_input:
            yield node.operation, node


def call_flops(layer: Any, node: Any) -> dict[str, int]:
    """Operations of a layer in one of its calls, by kind."""
    if hasattr(layer, "count_flops"):
        wanted = inspect.signature(layer.count_flops).parameters
        shapes = {
            f"{name}_shape": tuple(value.shape)
            for name, value in _arguments(layer, node).items()
            if f"{name}_shape" in wanted and value is not None
        }
        for shape in shapes.values():
            _product(layer, shape[1:])  # Refuses unknown sizes.
        return layer.count_flops(**shapes)
    if hasattr(getattr(layer, "cell", None), "count_flops"):  # recurrent
        (_, steps, *shape), *_ = (tuple(inputs.shape) for inputs in node.input_tensors)
        counts = layer.cell.count_flops((None, *shape)).items()
        return {kind: _product(layer, [steps]) * count for kind, count in counts}
    for kinds, count in KERAS_LAYERS:
        if isinstance(layer, kinds):
            return count(layer, node)
    if isinstance(layer, keras.Model) and getattr(layer, "inputs", None):
        if any(None in tensor.shape[1:] for tensor in layer.inputs):
            new_inputs = [
                keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=layer_input.name)
                for layer_input, tensor in zip(layer.inputs, node.input_tensors, strict=True)
            ]
            is_list = isinstance(layer, keras.Sequential)
            packed = new_inputs if is_list else keras.tree.pack_sequence_as(layer.input, new_inputs)
            layer = keras.models.clone_model(layer, packed)
        return dict(sum(map(Counter, count_flops_by_stage(layer).values()), Counter()))
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


def _convolution(layer: Any, node: Any) -> dict[str, int]:
    """Operations of a convolution: its kernels are applied at every output position."""
    (inputs,), (outputs,) = node.input_tensors, node.output_tensors
    shape = tuple(inputs.shape if isinstance(layer, _TRANSPOSED) else outputs.shape)
    grid = shape[2:] if layer.data_format == "channels_first" else shape[1:-1]
    names = ("kernel",)
    if isinstance(layer, _SEPARABLE):
        names = ("depthwise_kernel", "pointwise_kernel")
    kernels = sum(math.prod(getattr(layer, name).shape) for name in names)
    return {CONVOLUTION: 2 * _product(layer, grid) * kernels}


def _dense(layer: Any, node: Any) -> dict[str, int]:
    (outputs,) = node.output_tensors
    return {DENSE: 2 * _product(layer, outputs.shape[1:-1]) * math.prod(layer.kernel.shape)}


def _einsum_dense(layer: Any, node: Any) -> dict[str, int]:
    """Operations of `EinsumDense`: the product of the sizes of all its indices."""
    left, kernel = layer.equation.replace(" ", "").split("->")[0].split(",")
    sizes = dict(zip(kernel, layer.kernel.shape, strict=True))
    shared = math.prod(sizes[letter] for letter in kernel if letter in left)
    inputs = _product(layer, node.input_tensors[0].shape[1:])
    return {DENSE: 2 * inputs * math.prod(sizes.values()) // shared}


def _multi_head_attention(layer: Any, node: Any) -> dict[str, int]:
    """Operations of Keras' `MultiHeadAttention` on sequences."""
    tensors = _arguments(layer, node)
    query, value = (tuple(tensors[name].shape[1:]) for name in ("query", "value"))
    are_sequences = len(query) == len(value) == 2
    check(are_sequences, f"sequences in the layer {layer.name!r}", query=query, value=value)
    queries, values = _product(layer, query[:1]), _product(layer, value[:1])
    dense = layer.query_dense, layer.output_dense, layer.key_dense, layer.value_dense
    kernels = [math.prod(projection.kernel.shape) for projection in dense]
    projecting = queries * sum(kernels[:2]) + values * sum(kernels[2:])
    pairs = queries * values * layer.num_heads
    return {PROJECTIONS: 2 * projecting, CONTENT: 2 * pairs * (layer.key_dim + layer.value_dim)}


def _product(layer: Any, sizes: Any) -> int:
    check(None not in sizes, f"known sizes in the layer {layer.name!r}", sizes=tuple(sizes))
    return math.prod(sizes)


# Layers of Keras that multiply, with the function that counts the operations of a call.
KERAS_LAYERS = (
    ((*_CONVOLUTIONS, *_TRANSPOSED, *_SEPARABLE), _convolution),
    (layers.Dense, _dense),
    (layers.EinsumDense, _einsum_dense),
    (layers.MultiHeadAttention, _multi_head_attention),
)
