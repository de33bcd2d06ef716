"""Relations other than offsets: graphs of any form, unknown sizes, numbers out of range.

`test_lambda_layer_exact.py` compares relations and masks of each example's own with the equations.
"""

import functools

import keras
import numpy as np
import pytest
from support import backends
from support.arrays import to_numpy

from lambda_keras.layers import LambdaLayer, position_lambdas

SELF, PARENT, CHILD, SIBLING, NONE = 0, 1, 2, 3, -1


def layer(**arguments):
    sizes = {"filters": 8, "num_heads": 2, "key_dim": 3, "num_relations": 4}
    return LambdaLayer(**{**sizes, "position_embedding": "relation", **arguments})


def tree(rng, size):
    """The parent of each node of a random tree, in random order, the root's being itself."""
    parents = np.array([0, *(rng.integers(0, node) for node in range(1, size))])
    order = rng.permutation(size)
    renamed = np.empty(size, int)
    renamed[order] = order[parents]
    return renamed


def kinds(parents):
    """Relations `(nodes, nodes)` of a tree: what the column is to the row."""
    n = np.arange(len(parents))
    parent = (parents[:, None] == n) & (parents != n)[:, None]
    child = parent.T
    sibling = (parents[:, None] == parents) & (parents != n) & (parents != n)[:, None]
    cases = [np.eye(len(n), dtype=bool), parent, child, sibling]
    return np.select(cases, [SELF, PARENT, CHILD, SIBLING], NONE).astype("int32")


def forest(seed, sizes, nodes):
    """Features, relations and mask of trees of some sizes, padded to a number of nodes."""
    rng = np.random.default_rng(seed)
    x = np.zeros((len(sizes), nodes, 5), "float32")
    relations = np.full((len(sizes), nodes, nodes), NONE, "int32")
    for example, size in enumerate(sizes):
        x[example, :size] = rng.normal(size=(size, 5))
        relations[example, :size, :size] = kinds(tree(rng, size))
    return x, relations, np.arange(nodes) < np.array(sizes)[:, None]


def test_kinds_of_a_tree_by_hand():
    """A root 1 with the children 0 and 2, of which 2 has the child 3."""
    assert kinds(np.array([1, 1, 1, 2])).tolist() == [
        [SELF, PARENT, SIBLING, NONE],
        [CHILD, SELF, CHILD, NONE],
        [SIBLING, PARENT, SELF, CHILD],
        [NONE, NONE, PARENT, SELF],
    ]


@pytest.mark.parametrize(("training", "causal"), [(True, False), (False, True)])
def test_padding_of_trees_has_no_effect(training, causal):
    """Batch statistics are those of the nodes; what stands at padding does not count."""
    one = layer(causal=causal)
    outputs = []
    for nodes in (7, 11):
        x, relations, mask = forest(0, [7, 1, 4], nodes)
        if not outputs:
            one.build(x.shape)
        x[~mask], relations[~mask] = 1e3, PARENT
        relations.swapaxes(1, 2)[~mask] = CHILD
        call = {"relations": relations, "mask": mask, "training": training}
        call["attention_mask"] = relations >= 0  # Content of neighbors only.
        outputs.append(to_numpy(one(x, **call))[mask])
    scale = np.abs(outputs[0]).max()
    np.testing.assert_allclose(outputs[1] / scale, outputs[0] / scale, atol=1e-5)


def test_numbers_of_nodes_that_are_unknown_until_graphs_come():
    one = layer()
    outputs = one(keras.Input((None, 5)), relations=keras.Input((None, None), dtype="uint8"))
    assert outputs.shape == (None, None, 8)
    assert one.position_embeddings.shape == (4, 1, 3)
    for nodes in (4, 6):
        x, relations, _ = forest(0, [nodes, nodes - 1], nodes)
        expected = to_numpy(one(x, relations=relations))
        # As an unsigned number, none is 255; the last axis of relations is of a known size here.
        numbers = np.where(relations < 0, 255, relations).astype("float32")
        call = lambda x, r: one(x, relations=keras.ops.cast(r, "uint8"))  # noqa: E731
        received = backends.of_unknown_sizes(call, x, numbers)
        np.testing.assert_allclose(received, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("of_examples", "number", "dtype"),
    [(False, -2, "int32"), (True, 4, "int32"), (False, 2**20, "int64"), (True, 255, "uint8")],
)
def test_numbers_out_of_range_are_no_relation(of_examples, number, dtype):
    x, relations, _ = forest(0, [5, 5], 5)
    relations = relations if of_examples else relations[0]
    one = layer()
    expected = to_numpy(one(x, relations=relations))
    assert (relations == NONE).any()
    relations = np.where(relations == NONE, number, relations).astype(dtype)
    np.testing.assert_array_equal(to_numpy(one(x, relations=relations)), expected)


@pytest.mark.parametrize(
    ("of_examples", "implementation", "dtype"),
    [
        (own, name, ("mixed_float16", "mixed_bfloat16")[number % 2])
        for own in (False, True)
        for number, name in enumerate(position_lambdas.capable(any_pairs=True, own_pairs=own)[1:])
    ],
)
def test_half_precision_is_near_float32(of_examples, implementation, dtype):
    """Outputs and gradients; those of the embeddings sum over thousands of pairs."""
    rng = np.random.default_rng(0)
    b, n, h, k, v, u, r = 4, 64, 2, 3, 4, 2, 4
    shapes = [(b, n, h, k), (b, n, v, u), (r, u, k), (b, n, h, v)]
    # Numbers that are exact in half precision, so that sums alone differ.
    *inputs, cotangent = (rng.integers(-64, 65, shape) / np.float32(64) for shape in shapes)
    relations = rng.integers(-1, r, (b, n, n) if of_examples else (n, n)).astype("int32")
    relations, found = keras.ops.convert_to_tensor(relations), []
    given = {"implementation": implementation, "relations": relations}
    outputs_of = functools.partial(position_lambdas.pair_outputs, **given)
    for policy in ("float32", dtype):
        one = backends.Applied(outputs_of, dtype=policy)
        outputs, gradients, _ = backends.output_and_gradients(one, inputs, cotangent)
        found.append([outputs, *gradients])
    for received, expected in zip(found[1], found[0], strict=True):
        assert np.linalg.norm(received - expected) <= 0.01 * np.linalg.norm(expected)
