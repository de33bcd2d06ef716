"""Dense embeddings, in each of the ways that they are made."""

import keras
import numpy as np
import pytest
from support import reference

from lambda_keras.layers.position_lambdas import compiling_for, dense_embeddings, embeddings

GRIDS = [((4,), (6,), (5,)), ((3, 5), (4, 2), (3, 7)), ((2, 3, 2), (2, 1, 4), (3, 3, 3))]


@pytest.mark.parametrize(
    ("xla", "kind", "most"),
    [(False, "cpu", 256), (False, "cpu", 1), (True, "cpu", 256), (True, "gpu", 256)],
    ids=["products", "gathered", "gathered in XLA", "shifted"],
)
@pytest.mark.parametrize(("query_grid", "context_grid", "scope"), GRIDS)
def test_dense_embeddings(query_grid, context_grid, scope, xla, kind, most):
    relative = np.random.default_rng(0).normal(size=(*scope, 2, 3)).astype("float32")
    expected = reference.embed(relative, query_grid, context_grid)
    with compiling_for(kind, xla):
        tensor = keras.ops.convert_to_tensor(relative)
        dense = dense_embeddings(tensor, query_grid, context_grid, most=most)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(dense), expected)


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ((2, 3), np.s_[1:4, 1:6]),
        ((9, None), np.s_[:, :]),  # of an unknown size any offset
        ((1, 4), np.s_[2:3, :]),
    ],
)
def test_offsets_that_no_query_reaches_are_cropped(grid, expected):
    relative = np.arange(35).reshape(5, 7, 1, 1)
    np.testing.assert_array_equal(embeddings.crop_to_reach(relative, grid), relative[expected])


@pytest.mark.parametrize("way", [embeddings.toeplitz, embeddings.one_hot_product])
def test_one_axis_with_queries_inside_of_the_context(way):
    relative = np.arange(1.0, 6).astype("float32")[:, None]
    dense = way(keras.ops.convert_to_tensor(relative), 0, 2, 5, first=1)
    expected = [[2, 3, 4, 5, 0], [1, 2, 3, 4, 5]]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(dense)[..., 0], expected)
