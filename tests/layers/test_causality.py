"""Causal layers: what comes later has no effect, exactly, and the past is summed exactly."""

import functools

import numpy as np
import pytest
from support import backends, reference
from support.arrays import to_numpy

from lambda_keras.layers import LambdaLayer, position_lambdas

LENGTH, SEEN = 40, 21  # several blocks of a causal softmax, the present amid one of them
WITHOUT = {"query_normalization": None, "value_normalization": None}
RELATION = {"position_embedding": "relation", "num_relations": 3}
RELATIONS = np.arange(LENGTH**2).reshape(LENGTH, LENGTH) % 4 - 1
IMPLEMENTATIONS = {
    **{name: ({"implementation": name}, {}) for name in position_lambdas.capable(causal=True)},
    "absolute": ({"position_embedding": "absolute"}, {}),
    "without_batch_norm": (WITHOUT, {"training": True}),
    "masked": ({}, {"attention_mask": np.tri(LENGTH, k=3, dtype=bool)}),
    "masks_of_examples": ({}, {"attention_mask": np.tri(LENGTH, k=3, dtype=bool)[None]}),
    "relations": (RELATION, {"relations": RELATIONS}),
    "relations_of_examples": (RELATION, {"relations": RELATIONS[None]}),
}


NORMALIZATIONS = ("softmax", "l2", None)
CASES = [
    (name, NORMALIZATIONS[number % 3], scale)
    for number, name in enumerate(IMPLEMENTATIONS)
    for scale in ([1e3] if number % 2 else [1.0])
] + [("auto", "softmax", 1e3), ("auto", None, 1.0)]


@pytest.mark.parametrize(("implementation", "normalization", "scale"), CASES)
def test_future_has_no_effect(implementation, normalization, scale):
    """Derivatives of outputs[:t] by inputs[t:] are 0, and other inputs[t:] give the same values."""
    arguments, call = IMPLEMENTATIONS[implementation]
    call = {"training": False, **call}
    arguments = {"num_heads": 2, "key_dim": 3, "scope": 5, **arguments}
    layer = LambdaLayer(8, causal=True, key_normalization=normalization, **arguments)
    rng = np.random.default_rng(0)
    x = (scale * rng.normal(size=(1, LENGTH, 4))).astype("float32")
    layer.build(x.shape)
    cotangent = np.zeros((1, LENGTH, 8), "float32")
    cotangent[:, :SEEN] = rng.normal(size=(1, SEEN, 8))
    _, (gradient,), _ = backends.output_and_gradients(layer, [x], cotangent, **call)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[:, :SEEN]).max() > 0
    assert np.abs(gradient[:, SEEN:]).max() == 0
    expected = to_numpy(layer(x, **call))
    for future in (9.0, 1e3 * scale * rng.normal(size=(1, LENGTH - SEEN, 4))):
        changed = x.copy()
        changed[:, SEEN:] = future
        outputs = to_numpy(layer(changed, **call))
        np.testing.assert_array_equal(outputs[:, :SEEN], expected[:, :SEEN])


@pytest.mark.parametrize("length", [1, 16, 17, 270])
@pytest.mark.parametrize("masked", [False, True], ids=["causal", "causal_and_mask"])
def test_far_keys_equal_the_reference(length, masked):
    """Keys that rise and fall by hundreds: maxima that come later must not cost the earlier ones.

    Whole numbers make the projections exact, so that only the softmax rounds.
    """
    rng = np.random.default_rng(length)
    arguments = {"num_heads": 2, "key_dim": 3, "intra_depth": 2, "position_embedding": None}
    arguments |= {"causal": True, **WITHOUT}
    call = {}
    if masked:
        call["attention_mask"] = rng.random((length, length)) < 0.5
        call["attention_mask"][:1] = False  # a query that sees nothing
    layer = LambdaLayer(4, **arguments)
    x = rng.integers(-9, 10, (2, length, 5)).astype("float32")
    equations = functools.partial(reference.lambda_layer, **arguments, **call)
    reference.assert_equals_equations(layer, [x], equations, draw=whole_numbers, **call)
    assert length == 1 or np.ptp(x @ to_numpy(layer.key_kernel)) > 250


def whole_numbers(layer, rng):
    for variable in layer.variables:
        variable.assign(rng.integers(-9, 10, variable.shape))
