"""Checks of the tensors that a lambda layer is called with."""

import math

from lambda_keras.layers.arguments import check, check_tensor
from lambda_keras.layers.positions import vary_by_example
from lambda_keras.layers.tiles import strided


def check_tensors(layer, inputs, context, mask, context_mask):
    """Refuses shapes of inputs, context and their padding masks that do not fit the layer."""
    given = inputs if context is None else context
    layer.check_shapes(inputs.shape, given.shape)
    depths = (inputs.shape[-1], given.shape[-1])
    built = (layer.query_kernel.shape[0], layer.value_kernel.shape[0])
    expected = f"the depths of inputs and context that the layer was built for, {built}"
    check(depths == built, expected, depths=depths)
    batches = (inputs.shape[0], given.shape[0])
    equal = None in batches or batches[0] == batches[1]
    check(equal, "a context of as many examples as the inputs", examples=batches)
    if mask is not None:
        check_tensor("mask", mask, "bool", inputs.shape[:-1])
    if context_mask is not None:
        check(context is not None, "a context for the context_mask", context=None)
        check_tensor("context_mask", context_mask, "bool", given.shape[:-1])


def check_pairs(layer, inputs, context, position_embeddings, attention_mask, relations):
    """Refuses grids, embeddings, masks and relations of pairs that do not fit the layer."""
    shapes = inputs.shape, (inputs if context is None else context).shape
    grids = tuple(tuple(shape[1:-1]) for shape in shapes)
    same = "a context on the grid of the inputs, because causal=True"
    check(not layer.causal or grids[0] == grids[1], same, grids=grids)
    kind = layer.position_embedding
    for owner, name, value in (
        ("shared", "position_embeddings", position_embeddings),
        ("relation", "relations", relations),
    ):
        expected = f"no {name} in the call unless position_embedding={owner!r}"
        check(value is None or kind == owner, expected, position_embedding=kind)
    # (queries, context positions), shared by the batch or of each example's own.
    pair_grids = (strided(grids[0], layer.query_strides), grids[1])
    pairs = tuple(None if None in grid else math.prod(grid) for grid in pair_grids)
    shapes = (pairs, (inputs.shape[0], *pairs))
    if layer.positions is not None:
        layer.positions.check_call(grids, position_embeddings, relations, shapes)
    if attention_mask is not None:
        check_tensor("attention_mask", attention_mask, "bool", *shapes)
    layer.check_capable("an attention_mask", any_pairs=attention_mask is not None)
    own_pairs = vary_by_example(attention_mask, relations)
    layer.check_capable("masks or relations of each example", own_pairs=own_pairs)
