"""What every layer has to do as a layer of Keras: one row of VARIANTS, and one of LAYERS."""

import keras
import numpy as np
import pytest
from keras.src import testing
from support import backends, networks
from support.arrays import assert_near, normal, to_numpy
from support.reference import like

from lambda_keras import layers
from lambda_keras.layers import attention, position_lambdas

SMALL = {"filters": 8, "num_heads": 2}
LAMBDA = {**SMALL, "key_dim": 3, "scope": 3}
HALO = {**SMALL, "block_size": 2, "halo_size": 1, "strides": 2, "strided_queries": True}
NONE = dict.fromkeys(("query_normalization", "key_normalization", "value_normalization"))
KERNELS = {"kernel_regularizer": "l2"}
ONES = {**KERNELS, "kernel_initializer": "ones"}
REGULARIZED = {**KERNELS, "embeddings_regularizer": "l2"}
MAP = (5, 4, 6)
# Layer, its arguments, shape of an example, numbers of trainable and other weights, and of losses.
VARIANTS = {
    "lambda": (layers.LambdaLayer, {**LAMBDA, "strides": 2, **REGULARIZED}, (4, 5, 6), 8, 4, 4),
    "lambda_causal": (
        layers.LambdaLayer,
        {**LAMBDA, "causal": True, "multi_query": False, "use_bias": True},
        *((5, 6), 9, 4, 0),
    ),
    "lambda_plain": (layers.LambdaLayer, {**LAMBDA, **NONE}, (2, 3, 4, 6), 4, 0, 0),
    "squeeze": (layers.SqueezeExcitation, {"ratio": 0.5}, (4, 3, 8), 4, 0, 0),
    "global": (layers.GlobalAttention, {**SMALL, "strides": 2, **REGULARIZED}, MAP, 5, 0, 5),
    "local": (
        layers.LocalAttention,
        {**SMALL, "scope": 3, "mask_padding": False, "strides": 2},
        *(MAP, 5, 0, 0),
    ),
    "halo": (layers.HaloAttention, HALO, MAP, 5, 0, 0),
    "axial": (
        layers.AxialAttention,
        {**SMALL, "strides": 2, "output_projection": True, **REGULARIZED},
        *(MAP, 45, 32, 13),
    ),
    "augmented": (
        layers.AugmentedConvolution,
        {**SMALL, "value_filters": 4, "strides": 2, **KERNELS},
        *(MAP, 7, 0, 5),
    ),
    "softmax": (layers.LinearAttention, {**SMALL, "multi_query": True, **ONES}, MAP, 3, 0, 3),
    "favor": (
        layers.LinearAttention,
        {**SMALL, "feature_map": "favor", "num_features": 6},
        *(MAP, 3, 1, 0),
    ),
    "double": (layers.DoubleAttention, {"ratio": 0.4, **KERNELS}, MAP, 10, 2, 4),
}
# Their parts are those of the others: halo has local's windows, global axial's tables.
SOME = ("lambda_causal", "squeeze", "global", "halo", "softmax", "favor")


def variant(name, **arguments):
    layer, own, *_ = VARIANTS[name]
    return layer(**{**own, **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("name", backends.elsewhere(VARIANTS, SOME))
def test_as_a_keras_layer(name):
    """Keras' own checks: config, build, symbolic and eager shapes, fit, mixed precision."""
    layer, arguments, example, *_ = VARIANTS[name]
    testing.TestCase().run_layer_test(
        layer,
        init_kwargs=arguments,
        input_shape=(2, *example),
        expected_output_shape=variant(name).compute_output_shape((2, *example)),
        expected_num_seed_generators=0,
        supports_masking=layer is layers.LambdaLayer,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_losses_shapes_and_config(name):
    _, arguments, example, trainable, others, losses = VARIANTS[name]
    layer = variant(name)
    outputs = layer(normal(2, *example))
    assert tuple(outputs.shape) == layer.compute_output_shape((2, *example))
    assert (len(layer.trainable_weights), len(layer.non_trainable_weights)) == (trainable, others)
    ends = tuple(one.removesuffix("_regularizer") for one in arguments if "_regularizer" in one)
    squares = [(to_numpy(v) ** 2).sum() for v in layer.trainable_weights if v.name.endswith(ends)]
    assert len(layer.losses) == losses
    assert to_numpy(sum(layer.losses)) == pytest.approx(0.01 * float(sum(squares)), rel=1e-5)
    config = layer.get_config()
    plain = {name: one for name, one in arguments.items() if not name.endswith("izer")}
    assert {name: config[name] for name in plain} == plain
    kinds = {name: type(getattr(layer, name)).__name__.lower() for name in arguments - plain.keys()}
    assert kinds == {name: arguments[name] for name in kinds}
    assert type(layer).from_config(config).get_config() == config


HALVES = ("mixed_bfloat16", "mixed_float16", "bfloat16")
OF_LAMBDA = [{"implementation": name} for name in position_lambdas.IMPLEMENTATIONS]
OF_OTHERS = [name for name in VARIANTS if not name.startswith("lambda") and name != "double"]


@pytest.mark.parametrize(
    ("name", "arguments", "dtype"),
    [("lambda", {"strides": 1, **one}, HALVES[n % 3]) for n, one in enumerate(OF_LAMBDA)]
    + [(name, {}, HALVES[n % 3]) for n, name in enumerate(OF_OTHERS)]
    + [("favor", {"feature_map": kind}, "mixed_float16") for kind in ("elu", "relu")]
    + [("squeeze", {}, "bfloat16")],
)
def test_half_precision_is_near_float32(name, arguments, dtype):
    kind, _, example, *_ = VARIANTS[name]
    x, exact = normal(2, *example), variant(name, **arguments)
    expected, layer = to_numpy(exact(x)), like(exact, dtype=dtype)
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    kernels = [one.dtype for one in layer.trainable_weights if one.name.endswith("kernel")]
    assert {*kernels} == {layer.variable_dtype}
    half = layer.compute_dtype == "float16"
    # Spectra are rounded, too: without AVX-512, outputs differ by 3 % of the largest.
    close = kind is layers.LambdaLayer and arguments.get("implementation") != "fourier"
    assert_near(to_numpy(output), expected, (5e-3 if half else 5e-2) / (2.5 if close else 1))


SOFTMAX = [("lambda", {"query_normalization": "softmax"})]
SOFTMAX += [(name, {}) for name in ("global", "local", "axial", "softmax", "double")]


@pytest.mark.parametrize(("name", "arguments"), SOFTMAX)
def test_softmax_is_computed_in_float32(name, arguments, monkeypatch):
    """Backends may do so themselves for bfloat16; the layers do not rely on it."""
    layer = variant(name, dtype="bfloat16", **arguments)
    layer.build((2, *MAP))
    seen, softmax = [], keras.ops.softmax
    noticed = lambda x, *of, **options: seen.append(x.dtype) or softmax(x, *of, **options)  # noqa: E731
    monkeypatch.setattr(keras.ops, "softmax", noticed)
    layer(normal(2, *MAP))
    assert seen
    assert {keras.backend.standardize_dtype(dtype) for dtype in seen} == {"float32"}


OF_ANY_SIZE = position_lambdas.capable(axes=2, unknown_grid=True)
ANY_SIZE = [("lambda", {"strides": 1, "implementation": name}) for name in OF_ANY_SIZE]
STRIDED = {"strides": 2, "strided_queries": True}
ANY_SIZE += [("lambda", {**STRIDED, "implementation": name}) for name in ("conv", "query_first")]
ANY_SIZE += [("lambda", {**STRIDED, "causal": True})]
ANY_SIZE += [("lambda", {"strides": 1, "key_normalization": how}) for how in ("l2", None)]
ANY_SIZE += [(name, {}) for name in ("squeeze", "local", "halo", "softmax", "favor")]
ANY_SIZE += [("double", {"gamma_initializer": "ones"})]


@pytest.mark.parametrize(("name", "arguments"), ANY_SIZE)
def test_map_of_unknown_size(name, arguments):
    layer, depth = variant(name, **arguments), VARIANTS[name][2][-1]
    outputs = layer(keras.Input((None, None, depth)))
    assert outputs.shape == layer.compute_output_shape((None, None, None, depth))
    x = normal(2, 5, 4, depth)
    expected, received = to_numpy(layer(x)), backends.of_unknown_sizes(layer, x)
    assert expected.shape == layer.compute_output_shape(x.shape)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)


EMPTY = [(name, {}) for name in VARIANTS]
EMPTY += [("lambda_causal", {"scope": None}), ("lambda_causal", {"position_embedding": "absolute"})]


@pytest.mark.parametrize(("name", "arguments"), EMPTY)
def test_empty_batch(name, arguments):
    """Nothing in, nothing out, in training too, and the statistics stay."""
    layer, shape = variant(name, **arguments), (0, *VARIANTS[name][2])
    for training in (False, True):
        outputs = layer(np.zeros(shape, "float32"), training=training)
        assert tuple(outputs.shape) == layer.compute_output_shape(shape)
    assert all(np.isfinite(array).all() for array in layer.get_weights())


# Arguments of each public layer.
LAYERS = {
    "AugmentedConvolution": {**SMALL, "value_filters": 4},
    "AxialAttention": SMALL,
    "BatchNormalization": {"momentum": 0.5, "epsilon": 0.1},
    "DoubleAttention": {"ratio": 0.5},
    "GlobalAttention": SMALL,
    "HaloAttention": {**SMALL, "block_size": 2},
    "LambdaLayer": {"filters": 8, "scope": (3, 5), "use_bias": True, "use_projection_bias": True},
    "LinearAttention": {**SMALL, "feature_map": "favor", "seed": 3},
    "LocalAttention": {**SMALL, "scope": 3},
    "RelativePositionEmbedding": {"scope": 3, "key_dim": 5},
    "SqueezeExcitation": {"ratio": 0.5},
    "StochasticDepth": {"rate": 0.25, "seed": 1},
    "LambdaCell": {"grid": (None,)},
}


def test_every_public_layer_has_a_row():
    assert LAYERS.keys() == set(layers.__all__)
    assert {*attention.__all__} <= {layer.__name__ for layer, *_ in VARIANTS.values()}


@pytest.mark.parametrize(
    ("name", "at_construction"),
    [(name, n % 2 == 0) for n, name in enumerate(LAYERS) if name != "LambdaCell"],
)
def test_frozen_before_it_is_built(name, at_construction):
    """As a saved model builds its layers."""
    layer = getattr(layers, name)(**LAYERS[name], trainable=not at_construction)
    layer.trainable = False
    layer.build((None, 4, 4, 8))
    assert layer.trainable_variables == []
    layer.trainable = True
    expected = getattr(layers, name)(**LAYERS[name])
    expected.build((None, 4, 4, 8))
    assert len(layer.trainable_variables) == len(expected.trainable_variables)


@pytest.mark.parametrize("name", LAYERS)
def test_a_subclass_with_arguments_of_its_own(name, tmp_path):
    """As of a layer of Keras: `get_config` adds what the subclass has; no attribute has the name.

    Its arguments are checked by nobody, whatever their annotations are.
    """
    base = getattr(layers, name)

    class Own(base):
        def __init__(self, *args, drop: bool = 0.1, units=None, **kwargs):  # pyright: ignore
            super().__init__(*args, **kwargs)
            self.own = (drop, units)

        def get_config(self):
            return {**super().get_config(), "drop": self.own[0], "units": self.own[1]}

    arguments, is_cell = LAYERS[name], name == "LambdaCell"
    of_cell = {"layer": layers.LambdaLayer(8, causal=True)} if is_cell else {}
    layer = Own(drop=0.3, units="two", **of_cell, **arguments)
    again = Own.from_config(layer.get_config())
    assert again.own == (0.3, "two")
    assert {**again.get_config(), "layer": 0} == {**layer.get_config(), "layer": 0}
    if is_cell:  # called with states
        return
    inputs = keras.Input((4, 4, 4), batch_size=1)
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", {"Own": Own})
    (found,) = (one for one in loaded.layers if isinstance(one, Own))
    assert found.own == (0.3, "two")
    assert {name: getattr(found, name) for name in arguments} == arguments


@pytest.mark.slow
def test_frozen_network_is_frozen_when_loaded(tmp_path):
    inputs = keras.Input((4, 3, 8))
    x = layers.SqueezeExcitation()(layers.AxialAttention(**SMALL)(inputs))
    x = layers.LambdaLayer(**LAYERS["LambdaLayer"], num_heads=2)(x)
    backbone = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x), name="backbone")
    backbone.trainable = False
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(backbone(inputs)))
    model.compile("adam", "mse", jit_compile=False)
    data = {"x": networks.images(4, 4, 3, 8), "y": networks.images(4, 2), "verbose": 0}
    model.fit(**data)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one in (model, loaded):
        names = [variable.path for variable in one.trainable_variables]
        assert names == ["head/kernel", "head/bias"]
    networks.assert_same(loaded.optimizer.variables, model.optimizer.variables)
    loaded.fit(**data)
    networks.assert_same(*(one.get_layer("backbone").weights for one in (loaded, model)))
    heads = (one.get_layer("head").get_weights()[0] for one in (model, loaded))
    assert not np.array_equal(*heads)
