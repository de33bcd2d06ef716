"""The lambda layer equals the NumPy float64 reference: outputs and gradients, every variant."""

import zlib

import keras
import numpy as np
import pytest
from support import backends, reference

from lambda_keras.layers import LambdaLayer, position_lambdas

TOLERANCE = 1e-5
# name: (grid, layer arguments). Depth 5, 8 filters, 2 heads and k = 3 unless said. Few sizes:
# JAX compiles each operation once for each.
CASES = {
    "non_square": ((4, 3), {"scope": 3}),
    "tuple_scope": ((4, 3), {"scope": (1, 5)}),
    "scope_larger_than_map": ((4, 3), {"scope": 11}),
    "one_pixel": ((1, 1), {"scope": 5}),
    "one_row": ((1, 6), {"scope": 3}),
    "global": ((4, 3), {"scope": None}),
    "one_head": ((4, 3), {"scope": 3, "num_heads": 1}),
    "as_many_heads_as_filters": ((4, 3), {"scope": 3, "num_heads": 8}),
    "intra_depth": ((4, 3), {"scope": 3, "intra_depth": 2}),
    "global_intra_depth": ((4, 3), {"scope": None, "intra_depth": 3}),
    "sequence": ((6,), {"scope": 5}),
    "global_sequence": ((6,), {"scope": None}),
    "sequence_intra_depth": ((6,), {"scope": 3, "intra_depth": 2}),
    "video": ((2, 2, 3), {"scope": 3}),
    "video_intra_depth": ((2, 2, 3), {"scope": (1, 3, 3), "intra_depth": 2}),
    "global_video": ((2, 2, 3), {"scope": None}),
    "dilation": ((4, 3), {"scope": 3, "dilation_rate": 2}),
    "dilation_sequence": ((6,), {"scope": 3, "dilation_rate": 3}),
    "strides": ((4, 3), {"scope": 3, "strides": 2}),
    "strides_sequence": ((6,), {"scope": 3, "strides": 2}),
    "strides_video": ((2, 2, 3), {"scope": 3, "strides": 2}),
    "multi_head": ((4, 3), {"scope": 3, "multi_query": False}),
    "multi_head_global_intra_depth": (
        (4, 3),
        {"scope": None, "multi_query": False, "intra_depth": 2},
    ),
    "content_only": ((4, 3), {"position_embedding": None}),
    "content_only_multi_head_intra_depth": (
        (4, 3),
        {"position_embedding": None, "multi_query": False, "intra_depth": 2},
    ),
    "position_only": ((4, 3), {"scope": 3, "use_content": False}),
    "bias": ((4, 3), {"scope": 3, "use_bias": True}),
    "bias_multi_head_intra_depth": (
        (4, 3),
        {"scope": 3, "use_bias": True, "multi_query": False, "intra_depth": 2},
    ),
    "projection_bias": (
        (4, 3),
        {
            "scope": 3,
            "use_projection_bias": True,
            "query_normalization": None,
            "value_normalization": None,
        },
    ),
    "absolute": ((4, 3), {"position_embedding": "absolute"}),
    "absolute_multi_head": ((6,), {"position_embedding": "absolute", "multi_query": False}),
    "absolute_causal": ((6,), {"position_embedding": "absolute", "causal": True}),
    "causal": ((6,), {"scope": 5, "causal": True}),
    "causal_global": ((6,), {"scope": None, "causal": True}),
    "causal_intra_depth": ((6,), {"scope": 3, "causal": True, "intra_depth": 2}),
    "causal_image": ((4, 3), {"scope": 3, "causal": True}),
    "causal_multi_head": ((6,), {"scope": 3, "causal": True, "multi_query": False}),
    "causal_dilation": ((6,), {"scope": 3, "causal": True, "dilation_rate": 2}),
    "causal_l2": ((6,), {"scope": 3, "causal": True, "key_normalization": "l2"}),
    "causal_no_key_normalization": ((6,), {"scope": 3, "causal": True, "key_normalization": None}),
    "l2_keys": ((4, 3), {"scope": 3, "key_normalization": "l2"}),
    "no_key_normalization": ((4, 3), {"scope": 3, "key_normalization": None}),
    "softmax_queries": ((4, 3), {"scope": 3, "query_normalization": "softmax"}),
    "batch_softmax_queries": ((4, 3), {"scope": 3, "query_normalization": "batch_softmax"}),
    "no_normalization": (
        (4, 3),
        {
            "scope": 3,
            "query_normalization": None,
            "key_normalization": None,
            "value_normalization": None,
        },
    ),
}
STRIDED = {"strides": 2, "strided_queries": True}
CASES |= {
    f"strided_{name}": (grid, {"scope": 3, **STRIDED, **arguments})
    for name, (grid, arguments) in {
        "map": ((5, 4), {"scope": (3, 5)}),
        "sequence": ((7,), {"intra_depth": 2}),
        "video": ((2, 3, 3), {}),
        "by_three": ((5, 4), {"strides": 3}),
        "global": ((5, 4), {"scope": None}),
        "dilation": ((5, 4), {"dilation_rate": 2}),
        "multi_head": ((5, 4), {"multi_query": False, "intra_depth": 2}),
        "content_only": ((5, 4), {"position_embedding": None}),
        "bias": ((5, 4), {"use_bias": True}),
        "absolute": ((3, 4), {"position_embedding": "absolute"}),
        "absolute_multi_head": ((7,), {"position_embedding": "absolute", "multi_query": False}),
        "absolute_causal": ((3, 4), {"position_embedding": "absolute", "causal": True}),
        "causal": ((7,), {"causal": True, "intra_depth": 2}),
        "causal_map": ((5, 4), {"causal": True}),
        "causal_l2": ((5, 4), {"causal": True, "key_normalization": "l2"}),
        "causal_no_key_normalization": ((7,), {"causal": True, "key_normalization": None}),
        "batch_softmax_queries": ((5, 4), {"query_normalization": "batch_softmax"}),
    }.items()
}
RELATION = {"position_embedding": "relation", "num_relations": 3}
# name: (grid, context grid, layer arguments, call arguments to draw, those of examples as such).
CALLS = {
    "context": ((4, 3), (4, 3), {"scope": 3}, ()),
    "longer_context": ((4, 3), (6, 5), {"scope": 5}, ()),
    "shorter_context": ((4, 3), (3, 2), {"scope": 5}, ()),
    "mixed_context": ((4, 3), (3, 4), {"scope": 3}, ()),
    "sequence_context": ((6,), (9,), {"scope": 7}, ()),
    "video_context": ((2, 2, 3), (3, 2, 2), {"scope": 3}, ()),
    "absolute_context": ((6,), (9,), {"position_embedding": "absolute"}, ()),
    "content_only_context": ((4, 3), (3, 4), {"position_embedding": None}, ()),
    "multi_head_context": ((6,), (9,), {"scope": 3, "multi_query": False}, ()),
    "attention_mask": ((4, 3), None, {"scope": 3}, ("attention_mask",)),
    "attention_mask_intra_depth": ((6,), None, {"scope": 3, "intra_depth": 2}, ("attention_mask",)),
    "attention_mask_absolute": (
        (6,),
        None,
        {"position_embedding": "absolute"},
        ("attention_mask",),
    ),
    "attention_mask_content_only": ((6,), None, {"position_embedding": None}, ("attention_mask",)),
    "attention_mask_l2": ((6,), None, {"scope": 3, "key_normalization": "l2"}, ("attention_mask",)),
    "attention_mask_causal": ((6,), None, {"scope": 5, "causal": True}, ("attention_mask",)),
    "attention_mask_context": ((6,), (9,), {"scope": 5}, ("attention_mask",)),
    "padding": ((6,), None, {"scope": 3}, ("mask",)),
    "padding_image": ((4, 3), None, {"scope": 3}, ("mask",)),
    "padding_l2": ((6,), None, {"scope": 3, "key_normalization": "l2"}, ("mask",)),
    "padding_causal": ((6,), None, {"scope": 3, "causal": True}, ("mask",)),
    "padding_context": ((6,), (9,), {"scope": 3}, ("mask", "context_mask")),
    "padding_attention_mask_multi_head": (
        (6,),
        None,
        {"scope": 3, "multi_query": False},
        ("mask", "attention_mask"),
    ),
    "strided_longer_context": ((4, 3), (6, 5), {"scope": 5, **STRIDED}, ()),
    "strided_shorter_context": ((4, 3), (3, 2), {"scope": 5, **STRIDED}, ()),
    "strided_padding": ((5, 4), None, {"scope": 3, **STRIDED}, ("mask",)),
    "strided_padding_context": ((6,), (9,), {"scope": 3, **STRIDED}, ("mask", "context_mask")),
    "strided_attention_mask": ((5, 4), None, {"scope": 3, **STRIDED}, ("attention_mask",)),
    "strided_attention_mask_causal": (
        (5, 4),
        None,
        {"scope": 3, "causal": True, **STRIDED},
        ("attention_mask", "mask"),
    ),
    "strided_attention_mask_causal_l2": (
        (5, 4),
        None,
        {"scope": 3, "causal": True, "key_normalization": "l2", **STRIDED},
        ("attention_mask",),
    ),
    **{
        f"masks_of_examples_{name}": ((6,), None, arguments, ("examples' attention_mask",))
        for name, arguments in {
            "relative": {"scope": 5},
            "intra_depth": {"scope": 3, "intra_depth": 2},
            "multi_head": {"scope": 3, "multi_query": False},
            "absolute": {"position_embedding": "absolute"},
            "absolute_causal": {"position_embedding": "absolute", "causal": True},
            "content_only": {"position_embedding": None},
            "l2": {"scope": 3, "key_normalization": "l2"},
            "causal": {"scope": 5, "causal": True},
            "causal_intra_depth": {"scope": 5, "causal": True, "intra_depth": 2},
            "causal_no_key_normalization": {
                "scope": 3,
                "causal": True,
                "key_normalization": None,
            },
        }.items()
    },
    "masks_of_examples_image": ((4, 3), None, {"scope": 3}, ("mask", "examples' attention_mask")),
    "masks_of_examples_context": (
        (6,),
        (9,),
        {"scope": 5},
        ("mask", "context_mask", "examples' attention_mask"),
    ),
    **{
        f"{name}{of_examples}": (
            *(grid, context_grid, {**RELATION, **arguments}),
            tuple(mask.replace("-", of) for mask in masks),
        )
        for of_examples, of in (("", ""), ("_of_examples", "examples' "))
        for name, (grid, context_grid, arguments, masks) in {
            "relations": ((6,), None, {}, ("-relations",)),
            "relations_image": ((4, 3), None, {}, ("-relations",)),
            "relations_intra_depth": ((6,), None, {"intra_depth": 2}, ("-relations",)),
            "relations_multi_head_intra_depth": (
                (6,),
                None,
                {"multi_query": False, "intra_depth": 2},
                ("-relations", "mask"),
            ),
            "relations_causal": ((6,), None, {"causal": True}, ("-relations",)),
            "relations_context": ((6,), (9,), {}, ("-relations", "mask", "context_mask")),
            "relations_mask": ((6,), None, {}, ("relations", "-attention_mask", "mask")),
            "relations_causal_mask": (
                (6,),
                None,
                {"causal": True, "intra_depth": 2},
                ("-relations", "attention_mask", "mask"),
            ),
        }.items()
    },
}


def implementations(grid, arguments, masks) -> tuple[str, ...]:
    """Implementations that can compute a case, or one where it is not about position lambdas."""
    embedding = arguments.get("position_embedding", "relative")
    if embedding is None or any(name.endswith("_normalization") for name in arguments):
        return ("auto",)
    return position_lambdas.capable(
        any_pairs=embedding in ("absolute", "relation") or "attention_mask" in masks,
        own_pairs=any("examples" in name for name in masks),
        causal=arguments.get("causal", False),
        intra_depth=arguments.get("intra_depth", 1),
        axes=len(grid),
    )


EVERY_CASE = {name: (grid, None, arguments, ()) for name, (grid, arguments) in CASES.items()}
EVERY_CASE |= CALLS


def everything():
    """Every case in training, by one of the implementations in turn, and a quarter in inference.

    `position_lambdas/test_every_implementation.py` has each implementation by itself.
    """
    for number, (name, (grid, context_grid, arguments, masks)) in enumerate(EVERY_CASE.items()):
        names = implementations(grid, arguments, masks)
        kinds = [
            (names[number % len(names)], True),
            *([("auto", False)] if number % 4 == 0 else []),
        ]
        for implementation, training in kinds:
            yield pytest.param(
                *(grid, context_grid, arguments, masks, implementation, training),
                id=f"{name}-{implementation}-{'training' if training else 'inference'}",
            )


def randomize(layer, rng):
    """Sets every weight, statistics too, to a value that no initialization has."""
    for variable in layer.variables:
        draw = rng.normal(size=variable.shape)
        if "variance" in variable.path or "gamma" in variable.path:
            draw = rng.uniform(0.5, 1.5, size=variable.shape)
        variable.assign(draw.astype("float32"))


def weights_of(layer):
    """The weights by the names that the reference uses, in float64, and where they come from."""
    names, arrays = [], []
    for variable in layer.variables:
        *_, owner, name = variable.path.split("/")
        names.append((name, None) if owner == layer.name else (owner, name))
        arrays.append(np.array(keras.ops.convert_to_numpy(variable), "float64"))
    return names, arrays


def as_dictionary(names, arrays):
    weights: dict = {}
    for (owner, name), array in zip(names, arrays, strict=True):
        if name is None:
            weights[owner] = array
        else:
            weights.setdefault(owner, {})[name] = array
    return weights


def draw_masks(names, rng, batch, grid, context_grid, strides):
    """Random masks under which every example and query sees something, and relations."""
    n, m = (int(np.prod([-(-i // s) for i in g])) for g, s in ((grid, strides), (context_grid, 1)))
    masks = {}
    for name in names:
        *examples, what = name.split()
        shape = (batch, n, m) if examples else (n, m)
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


def assert_near(received, expected):
    """Equal up to TOLERANCE relative to the largest value."""
    assert np.abs(received - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize(
    ("grid", "context_grid", "arguments", "masks", "implementation", "training"), list(everything())
)
def test_equals_the_reference(grid, context_grid, arguments, masks, implementation, training):
    """Outputs; in training gradients by inputs, context and every weight, too."""
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
    layer.build(*[array.shape for array in inputs])
    randomize(layer, rng)
    names, weights = weights_of(layer)
    not_theirs = ("scope", "num_relations")
    arguments = {name: value for name, value in arguments.items() if name not in not_theirs}

    def expected_output(*arrays):
        return reference.lambda_layer(
            arrays[0],
            as_dictionary(names, arrays[len(inputs) :]),
            arrays[1] if context_grid is not None else None,
            training=training,
            **arguments,
            **call,
        )

    arrays = [*(array.astype("float64") for array in inputs), *weights]
    expected = expected_output(*arrays)
    assert expected.shape == layer.compute_output_shape(inputs[0].shape)
    if not training:
        assert_near(keras.ops.convert_to_numpy(layer(*inputs, **call)), expected)
        return
    cotangent = rng.normal(size=expected.shape).astype("float32")
    output, by_inputs, by_weights = backends.output_and_gradients(
        layer, inputs, cotangent, training=True, **call
    )
    assert_near(output, expected)
    paths = [variable.path for variable in layer.trainable_variables]
    trainable = dict(zip(paths, by_weights, strict=True))
    gradients = by_inputs + [trainable.get(variable.path) for variable in layer.variables]
    # Batch statistics make some gradients vanish; rounding is then relative to the terms.
    least = np.linalg.norm(cotangent)
    reference.assert_gradients(
        gradients, lambda *arrays: (expected_output(*arrays) * cotangent).sum(), arrays, rng, least
    )
