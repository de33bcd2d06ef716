"""Maps are what the layer computes: applied to the values they give its output."""

import re

import keras
import numpy as np
import pytest
from keras import ops
from support.networks import TINY, images, randomize, tiny_model

from lambda_keras.layers import GlobalAttention, HaloAttention, LambdaLayer, LocalAttention
from lambda_keras.layers.pooling import average_pool
from zoo.inference import lambda_maps as maps_of

HALO = {"block_size": 2, "halo_size": 1}
# name: (grid, layer arguments); 12 filters, 3 heads, k = 4, and a scope of 3 unless said.
CASES = {
    "both": ((5, 5), {}),
    "tall": ((7, 2), {"scope": (5, 1)}),
    "scope_larger_than_map": ((4, 3), {"scope": 23}),
    "global": ((3, 4), {"scope": None}),
    "content_only": ((4, 5), {"position_embedding": None}),
    "position_only": ((4, 5), {"use_content": False}),
    "many_heads": ((4, 5), {"num_heads": 12}),
    "multi_head": ((4, 5), {"multi_query": False}),
    "dilation": ((6, 5), {"dilation_rate": 2}),
    "absolute": ((3, 4), {"position_embedding": "absolute"}),
    "softmax_queries": ((4, 3), {"query_normalization": "softmax"}),
    "l2_keys": ((4, 3), {"key_normalization": "l2"}),
    "causal": ((3, 4), {"causal": True}),
    "fourier": ((4, 5), {"implementation": "fourier"}),
    "depthwise_conv": ((4, 5), {"implementation": "depthwise_conv"}),
    "strides": ((5, 4), {"strides": 2}),
}


def network(grid, **arguments) -> keras.Model:
    """One lambda layer behind a dense one, with random weights and statistics."""
    settings = {"num_heads": 3, "key_dim": 4, "scope": 3, "name": "looking", **arguments}
    return randomized((*grid, 3), keras.layers.Dense(5), LambdaLayer(12, **settings))


def randomized(shape, *layers) -> keras.Model:
    outputs = inputs = keras.Input(shape)
    for layer in layers:
        outputs = layer(outputs)
    model = keras.Model(inputs, outputs)
    randomize(model)
    return model


def groups_of(model, name, image):
    layer = model.get_layer(name)
    features = keras.Model(model.input, layer.input)(image[None], training=False)
    features = features if isinstance(features, list) else [features]
    return layer.project_inputs(features[0], None, *features[1:], training=False)


def everywhere(model, name, batch) -> np.ndarray:
    """Outputs of a layer for a batch, put together from its maps and its values.

    Two maps of each kind have to be those of `maps_of.lambda_maps` at their query.
    """
    grid, layer = maps_of.lambda_layers(model)[name], model.get_layer(name)
    extended = maps_of.with_lambda_maps(model, [name])
    found = {key: np.asarray(maps) for key, maps in extended(batch, training=False).items()}
    outputs = model(batch, training=False)
    np.testing.assert_allclose(found.pop("probabilities"), outputs, rtol=1e-5, atol=1e-6)
    for number, row, column in ((0, 0, 0), (1, grid[0] - 1, 1 % grid[1])):
        maps = vars(maps_of.lambda_maps(model, name, batch[number], row, column))
        expected = {f"{name}_{kind}": part for kind, part in maps.items() if part is not None}
        assert found.keys() == expected.keys()
        for key, part in expected.items():
            np.testing.assert_allclose(found[key][number, row, column], part, atol=1e-5)
    weights, outputs = sum(found.values()), []  # (b, height, width, heads, height, width)
    for number, image in enumerate(batch):
        groups = groups_of(model, name, image)
        maps = weights[number].reshape(*grid, len(groups), -1, grid[0] * grid[1])
        values = np.stack([ops.convert_to_numpy(one.values)[0, :, :, 0] for one in groups])
        outputs.append(np.einsum("yxghm,gmv->yxghv", maps, values))
    outputs = np.reshape(outputs, (len(batch), *grid, -1))
    if layer.strides > 1:
        outputs = ops.convert_to_numpy(average_pool(outputs, 3, layer.strides))
    return outputs


def output_of(model, layer, image) -> np.ndarray:
    images = image[None] if image.ndim == 3 else image
    return np.asarray(keras.Model(model.input, layer.output)(images, training=False))


@pytest.mark.parametrize("case", CASES)
def test_maps_applied_to_values_give_the_output(case):
    grid, arguments = CASES[case]
    model, batch = network(grid, **arguments), images(2, *grid, 3)
    expected = output_of(model, model.get_layer("looking"), batch)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(everywhere(model, "looking", batch), expected, atol=1e-5)


@pytest.mark.parametrize(
    "arguments", [{"intra_depth": 2, "multi_query": False}, {"use_bias": True}]
)
def test_maps_at_all_queries_are_those_of_each(arguments):
    everywhere(network((4, 3), **arguments), "looking", images(2, 4, 3, 3))


@pytest.mark.parametrize("multi_query", [True, False])
def test_each_map_follows_its_equation(multi_query):
    """Content and position are told apart, and summed over the intra-depth."""
    grid, (row, column) = (4, 6), (1, 4)
    model = network(grid, scope=(3, 5), intra_depth=2, multi_query=multi_query)
    (image,) = images(1, *grid, 3)
    maps = maps_of.lambda_maps(model, "looking", image, row, column)
    content, position = [], []
    for group in groups_of(model, "looking", image):
        q = ops.convert_to_numpy(group.queries)[0, row * grid[1] + column]
        normal = np.exp(ops.convert_to_numpy(group.keys)[0])
        normal /= normal.sum(0)
        content.append(np.einsum("hk,mku->hm", q, normal).reshape(-1, *grid))
        embeddings = ops.convert_to_numpy(group.embeddings)
        dense = np.zeros((*grid, *embeddings.shape[2:]))
        for i, j in np.ndindex(grid):
            if abs(i - row) <= 1 and abs(j - column) <= 2:
                dense[i, j] = embeddings[i - row + 1, j - column + 2]
        position.append(np.einsum("hk,ijuk->hij", q, dense))
    np.testing.assert_allclose(maps.content, np.concatenate(content), atol=1e-5)
    np.testing.assert_allclose(maps.position, np.concatenate(position), atol=1e-5)
    assert maps.content.shape == maps.position.shape == (3, *grid)


def test_layers_of_a_network_that_share_their_embeddings():
    arguments = {"lambda": {**TINY, "position_embedding": "shared"}}
    model = tiny_model((8, 8, 3), arguments=arguments)
    randomize(model)
    layers = [layer for layer in model.layers if isinstance(layer, LambdaLayer)]
    assert list(maps_of.lambda_layers(model)) == [layer.name for layer in layers]
    batch = images(2, 8, 8, 3)
    for layer in layers:
        assert len(layer.input) == 2
        expected = output_of(model, layer, batch)
        np.testing.assert_allclose(everywhere(model, layer.name, batch), expected, atol=1e-5)


def test_half_precision_gives_float32_maps():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = network((3, 4))
    finally:
        keras.config.set_dtype_policy("float32")
    maps = maps_of.lambda_maps(model, "looking", images(1, 3, 4, 3)[0], 2, 3)
    assert maps.content.dtype == maps.position.dtype == "float32"
    assert np.isfinite(maps.content).all()


VARIANTS = [{}, {"multi_query": False}, {"intra_depth": 2}, CASES["softmax_queries"][1]]


@pytest.mark.parametrize("arguments", VARIANTS)
def test_lambdas_applied_to_queries_give_the_output(arguments):
    grid, (image,) = (4, 3), images(1, 4, 3, 3)
    model = network(grid, **arguments)
    expected = output_of(model, model.get_layer("looking"), image)[0]
    queries = [ops.convert_to_numpy(one.queries)[0] for one in groups_of(model, "looking", image)]
    for row, column in ((0, 0), (3, 1), (1, 2)):
        found = maps_of.lambdas(model, "looking", image, row, column)
        place = row * grid[1] + column
        pairs = zip(queries, found, strict=True)
        outputs = [query[place] @ matrix for query, matrix in pairs]  # (h, v) of each group
        np.testing.assert_allclose(np.ravel(outputs), expected[row, column], atol=1e-5)


@pytest.mark.parametrize("groups", [{"multi_query": True}, {"multi_query": False}])
@pytest.mark.parametrize(
    "layer",
    [
        lambda **given: GlobalAttention(12, **given),
        lambda **given: LocalAttention(12, scope=3, key_dim=4, **given),
        lambda **given: HaloAttention(12, **HALO, **given),
        lambda **given: HaloAttention(12, **HALO, strides=2, strided_queries=True, **given),
    ],
    ids=["global", "local", "halo", "strided"],
)
@pytest.mark.parametrize("grid", [(4, 6), (5, 3)])
def test_attention_maps_applied_to_values_give_the_output(layer, groups, grid):
    heads, places = 3, grid[0] * grid[1]
    attention = layer(num_heads=heads, name="looking", **groups)
    model = randomized((*grid, 5), attention)
    (image,) = images(1, *grid, 5)
    expected = output_of(model, attention, image)[0]
    values = image.reshape(-1, 5) @ ops.convert_to_numpy(attention.value_kernel)
    values = np.broadcast_to(values.reshape(places, attention.groups, 4), (places, heads, 4))
    assert maps_of.attention_layers(model) == {"looking": grid}
    last = [size - 1 for size in expected.shape[:2]]
    for row, column in ((0, 0), (1, 1), last):
        maps = maps_of.attention_maps(model, "looking", image, row, column)
        np.testing.assert_allclose(maps.sum((1, 2)), 1, atol=1e-5)
        outputs = np.einsum("hm,mhv->hv", maps.reshape(heads, -1), values)
        np.testing.assert_allclose(outputs.ravel(), expected[row, column], atol=1e-5)


def test_attention_maps_of_a_pooled_layer_are_at_all_positions():
    layer = GlobalAttention(12, num_heads=3, strides=2, name="looking")
    model = randomized((4, 6, 5), layer)
    maps = maps_of.attention_maps(model, "looking", images(4, 6, 5), 3, 5)
    np.testing.assert_allclose(maps.sum((1, 2)), np.ones(3), atol=1e-5)


def test_what_is_not_there_is_refused():
    model, (image,) = network((3, 4)), images(1, 3, 4, 3)
    message = "expected the name of a layer. Received: 'dense'. Allowed: looking"
    with pytest.raises(ValueError, match=re.escape(message)):
        maps_of.lambda_maps(model, "dense", image, 0, 0)
    with pytest.raises(ValueError, match=re.escape(message)):
        maps_of.with_lambda_maps(model, ["looking", "dense"])
    for row, column in ((3, 0), (0, 4), (-1, 0), (0, -1)):
        message = f"expected a position in the grid (3, 4) of looking. Received: ({row}, {column})"
        with pytest.raises(ValueError, match=re.escape(message)):
            maps_of.lambda_maps(model, "looking", image, row, column)
    plain = keras.Model(model.input, model.layers[1].output)
    assert maps_of.lambda_layers(plain) == {}
    with pytest.raises(ValueError, match="expected the name of a layer"):
        maps_of.lambda_maps(plain, "looking", image, 0, 0)


def test_maps_that_are_not_finite():
    of_lambdas, attention = network((3, 4)), GlobalAttention(4, num_heads=2, name="looking")
    for model, function, kind in (
        (of_lambdas, maps_of.lambda_maps, "content"),
        (of_lambdas, maps_of.lambdas, "lambdas"),
        (randomized((3, 4, 3), attention), maps_of.attention_maps, "attention"),
    ):
        for weights in model.get_layer("looking").weights:
            weights.assign(ops.full_like(weights, 1e30))
        with pytest.raises(ValueError, match=rf"finite outputs of looking\. Received: .*in {kind}"):
            function(model, "looking", images(3, 4, 3), 1, 1)
