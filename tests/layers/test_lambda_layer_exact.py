"""The lambda layer equals the NumPy float64 reference: outputs and gradients, every variant."""

import zlib

import numpy as np
import pytest
from support import reference

from lambda_keras.layers import LambdaLayer, position_lambdas

STRIDED = {"strides": 2, "strided_queries": True}
RELATION = {"position_embedding": "relation", "num_relations": 3}
ABSOLUTE, CONTENT = {"position_embedding": "absolute"}, {"position_embedding": None}
MULTI_HEAD, L2 = {"multi_query": False}, {"key_normalization": "l2"}
HEADS_U2 = {**MULTI_HEAD, "intra_depth": 2}
PLAIN = {"query_normalization": None, "value_normalization": None}
MASK, OWN_MASK = {"call": "attention_mask"}, {"call": "own_attention_mask"}
MASKS = {"call": "attention_mask mask"}
PADDED = {"context": (9,), "call": "mask context_mask"}
CAUSAL_U2 = {"causal": True, "intra_depth": 2}


def case(*grid, context=None, call="", **arguments):
    """Grid, context grid, layer arguments, and call arguments to draw; `own_` ones by example."""
    return grid, context, arguments, tuple(call.split())


# Depth 5, 8 filters, 2 heads and k = 3 unless said. Few sizes: JAX compiles each operation once
# for each.
CASES = {
    "non_square": case(4, 3, scope=3),
    "tuple_scope": case(4, 3, scope=(1, 5)),
    "scope_larger_than_map": case(4, 3, scope=11),
    "one_pixel": case(1, 1, scope=5),
    "one_row": case(1, 6, scope=3),
    "global": case(4, 3, scope=None),
    "one_head": case(4, 3, scope=3, num_heads=1),
    "as_many_heads_as_filters": case(4, 3, scope=3, num_heads=8),
    "intra_depth": case(4, 3, scope=3, intra_depth=2),
    "sequence": case(6, scope=5),
    "video": case(2, 2, 3, scope=3),
    "video_intra_depth": case(2, 2, 3, scope=(1, 3, 3), intra_depth=2),
    "global_video": case(2, 2, 3, scope=None),
    "dilation": case(4, 3, scope=3, dilation_rate=2),
    "dilation_sequence": case(6, scope=3, dilation_rate=3),
    "strides": case(4, 3, scope=3, strides=2),
    "strides_video": case(2, 2, 3, scope=3, strides=2),
    "multi_head": case(4, 3, scope=3, **MULTI_HEAD),
    "content_only": case(4, 3, **CONTENT),
    "position_only": case(4, 3, scope=3, use_content=False),
    "bias": case(4, 3, scope=3, use_bias=True),
    "bias_multi_head_intra_depth": case(4, 3, scope=3, use_bias=True, **HEADS_U2),
    "projection_bias": case(4, 3, scope=3, use_projection_bias=True, **PLAIN),
    "absolute": case(4, 3, **ABSOLUTE),
    "absolute_multi_head": case(6, **ABSOLUTE, **MULTI_HEAD),
    "absolute_causal": case(6, **ABSOLUTE, causal=True),
    "causal": case(6, scope=5, causal=True),
    "causal_global": case(6, scope=None, causal=True),
    "causal_intra_depth": case(6, scope=3, **CAUSAL_U2),
    "causal_image": case(4, 3, scope=3, causal=True),
    "causal_dilation": case(6, scope=3, causal=True, dilation_rate=2),
    "causal_l2": case(6, scope=3, causal=True, **L2),
    "l2_keys": case(4, 3, scope=3, **L2),
    "no_key_normalization": case(4, 3, scope=3, key_normalization=None),
    "softmax_queries": case(4, 3, scope=3, query_normalization="softmax"),
    "batch_softmax_queries": case(4, 3, scope=3, query_normalization="batch_softmax"),
    "no_normalization": case(4, 3, scope=3, key_normalization=None, **PLAIN),
    "strided_map": case(5, 4, scope=(3, 5), **STRIDED),
    "strided_sequence": case(7, scope=3, intra_depth=2, **STRIDED),
    "strided_by_three": case(5, 4, scope=3, strides=3, strided_queries=True),
    "strided_global": case(5, 4, scope=None, **STRIDED),
    "strided_dilation": case(5, 4, scope=3, dilation_rate=2, **STRIDED),
    "strided_multi_head": case(5, 4, scope=3, **HEADS_U2, **STRIDED),
    "strided_absolute": case(3, 4, scope=3, **ABSOLUTE, **STRIDED),
    "strided_absolute_causal": case(3, 4, scope=3, **ABSOLUTE, causal=True, **STRIDED),
    "strided_causal_map": case(5, 4, scope=3, causal=True, **STRIDED),
    "strided_causal_l2": case(5, 4, scope=3, causal=True, **L2, **STRIDED),
    "context": case(4, 3, context=(4, 3), scope=3),
    "longer_context": case(4, 3, context=(6, 5), scope=5),
    "shorter_context": case(4, 3, context=(3, 2), scope=5),
    "mixed_context": case(4, 3, context=(3, 4), scope=3),
    "sequence_context": case(6, context=(9,), scope=7),
    "video_context": case(2, 2, 3, context=(3, 2, 2), scope=3),
    "absolute_context": case(6, context=(9,), **ABSOLUTE),
    "attention_mask": case(4, 3, **MASK, scope=3),
    "attention_mask_absolute": case(6, **MASK, **ABSOLUTE),
    "attention_mask_content_only": case(6, **MASK, **CONTENT),
    "attention_mask_l2": case(6, **MASK, scope=3, **L2),
    "attention_mask_causal": case(6, **MASK, scope=5, causal=True),
    "attention_mask_context": case(6, context=(9,), **MASK, scope=5),
    "padding": case(6, call="mask", scope=3),
    "padding_l2": case(6, call="mask", scope=3, **L2),
    "padding_causal": case(6, call="mask", scope=3, causal=True),
    "padding_context": case(6, **PADDED, scope=3),
    "padding_attention_mask_multi_head": case(6, call="mask attention_mask", scope=3, **MULTI_HEAD),
    "strided_longer_context": case(4, 3, context=(6, 5), scope=5, **STRIDED),
    "strided_shorter_context": case(4, 3, context=(3, 2), scope=5, **STRIDED),
    "strided_padding_context": case(6, **PADDED, scope=3, **STRIDED),
    "strided_attention_mask": case(5, 4, **MASK, scope=3, **STRIDED),
    "strided_attention_mask_causal": case(5, 4, **MASKS, scope=3, causal=True, **STRIDED),
    "strided_attention_mask_causal_l2": case(5, 4, **MASK, scope=3, causal=True, **L2, **STRIDED),
    "masks_of_examples_relative": case(6, **OWN_MASK, scope=5),
    "masks_of_examples_intra_depth": case(6, **OWN_MASK, scope=3, intra_depth=2),
    "masks_of_examples_absolute": case(6, **OWN_MASK, **ABSOLUTE),
    "masks_of_examples_absolute_causal": case(6, **OWN_MASK, **ABSOLUTE, causal=True),
    "masks_of_examples_content_only": case(6, **OWN_MASK, **CONTENT),
    "masks_of_examples_causal_intra_depth": case(6, **OWN_MASK, scope=5, **CAUSAL_U2),
    "masks_of_examples_causal_no_key_normalization": case(
        6, **OWN_MASK, scope=3, causal=True, key_normalization=None
    ),
    "masks_of_examples_image": case(4, 3, call="mask own_attention_mask", scope=3),
    "masks_of_examples_context": case(
        6, context=(9,), call="mask context_mask own_attention_mask", scope=5
    ),
    "relations": case(6, call="relations", **RELATION),
    "relations_multi_head_intra_depth": case(6, call="relations mask", **HEADS_U2, **RELATION),
    "relations_causal_mask": case(6, call="relations attention_mask mask", **CAUSAL_U2, **RELATION),
    "relations_causal_of_examples": case(6, call="own_relations", causal=True, **RELATION),
    "relations_context_of_examples": case(
        6, context=(9,), call="own_relations mask context_mask", **RELATION
    ),
    "relations_mask_of_examples": case(6, call="relations own_attention_mask mask", **RELATION),
    "relations_causal_mask_of_examples": case(
        6, call="own_relations attention_mask mask", **CAUSAL_U2, **RELATION
    ),
}


def implementations(grid, arguments, masks) -> tuple[str, ...]:
    """Implementations that can compute a case, or one where it is not about position lambdas."""
    embedding = arguments.get("position_embedding", "relative")
    if embedding is None or any(name.endswith("_normalization") for name in arguments):
        return ("auto",)
    return position_lambdas.capable(
        any_pairs=embedding in ("absolute", "relation") or "attention_mask" in " ".join(masks),
        own_pairs=any(name.startswith("own_") for name in masks),
        causal=arguments.get("causal", False),
        intra_depth=arguments.get("intra_depth", 1),
        axes=len(grid),
    )


def everything():
    """Every case in training, by one of the implementations in turn, and a quarter in inference.

    `position_lambdas/test_every_implementation.py` has each implementation by itself.
    """
    for number, (name, (grid, context_grid, arguments, masks)) in enumerate(CASES.items()):
        names = implementations(grid, arguments, masks)
        kinds = [(names[number % len(names)], True), ("auto", False)][: 1 + (number % 4 == 0)]
        for kind, training in kinds:
            case = f"{name}-{kind}-{'training' if training else 'inference'}"
            yield pytest.param(grid, context_grid, arguments, masks, kind, training, id=case)


def draw_masks(names, rng, batch, grid, context_grid, strides):
    """Random masks under which every example and query sees something, and relations."""
    n, m = (int(np.prod([-(-i // s) for i in g])) for g, s in ((grid, strides), (context_grid, 1)))
    masks = {}
    for name in names:
        what = name.removeprefix("own_")
        shape = (n, m) if what == name else (batch, n, m)
        if what == "attention_mask":
            masks[what] = (rng.random(shape) < 0.6) | np.eye(n, m, dtype=bool)
            masks[what][..., 0] = True
        if what == "relations":
            masks[what] = rng.integers(-1, 3, shape)
    for name, sizes in (("mask", grid), ("context_mask", context_grid)):
        if name in names:
            masks[name] = rng.random((batch, *sizes)) < 0.6
            masks[name].reshape(batch, -1)[:, 0] = True
    return masks


@pytest.mark.parametrize(
    ("grid", "context_grid", "arguments", "masks", "implementation", "training"), list(everything())
)
def test_equals_the_reference(grid, context_grid, arguments, masks, implementation, training):
    """Outputs, and gradients by inputs, context and every weight."""
    arguments = {"num_heads": 2, "key_dim": 3, **arguments}
    rng = np.random.default_rng(zlib.crc32(f"{grid}{arguments}".encode()))
    # Batch normalisation of two values gives +1 and -1: gradients that are rounding alone.
    batch = 5 if grid == (1, 1) else 2
    inputs = [rng.normal(size=(batch, *grid, 5)).astype("float32")]
    if context_grid is not None:
        inputs.append(rng.normal(size=(batch, *context_grid, 4)).astype("float32"))
    strides = arguments["strides"] if arguments.get("strided_queries") else 1
    call = draw_masks(masks, rng, batch, grid, context_grid or grid, strides)

    layer = LambdaLayer(8, implementation=implementation, **arguments)
    not_theirs = ("scope", "num_relations")
    arguments = {name: value for name, value in arguments.items() if name not in not_theirs}

    def equations(inputs, *context_and_weights):
        *context, weights = context_and_weights
        return reference.lambda_layer(
            inputs, weights, *context, training=training, **arguments, **call
        )

    reference.assert_equals_equations(layer, inputs, equations, training, **call)
