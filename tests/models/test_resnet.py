"""The residual network builder."""

import keras
import numpy as np
import pytest
from keras import ops
from support import backends, networks

from lambda_keras.applications import count_flops
from lambda_keras.models.resnet import build_resnet
from lambda_keras.models.specs import ResNetSpec


def build(spec: ResNetSpec, input_shape, **arguments) -> keras.Model:
    return build_resnet(spec, keras.Input(input_shape), **arguments)


def endpoints(model: keras.Model) -> keras.Model:
    return keras.Model(model.input, [model.get_layer(stage).output for stage in networks.STAGES])


def ceil_divided(sizes, divisor: int) -> tuple[int, ...]:
    return tuple(-(-size // divisor) for size in sizes)


SMALL, USUAL = (1, 2, 4, 8), (4, 8, 16, 32)
# Arguments of the spec, strides of the endpoints.
STEMS = [
    ({"stem": "v1", "shortcut": "conv"}, USUAL),
    ({"stem": "rs"}, USUAL),
    ({"stem": "small", "shortcut": "conv"}, SMALL),
    ({"stem": "v1", "padding": "symmetric", "mixer_pool_size": 2}, USUAL),
    ({"stem": "tiered", "padding": "symmetric"}, USUAL),
]


@pytest.fixture(scope="module")
def tiny():
    """A network for images of any size, whose weights no test uses after changing them."""
    return networks.tiny_model((None, None, 3))


@pytest.mark.one_backend
@pytest.mark.parametrize(("arguments", "strides"), STEMS)
def test_endpoints_lie_at_their_strides(arguments, strides):
    """Of maps of any size, known or not."""
    spec = networks.tiny_spec(**arguments)
    model = endpoints(build(spec, (None, None, 3), include_top=False))
    assert [shape[1:3] for shape in model.output_shape] == [(None, None)] * 4
    for size in [(32, 32), (35, 61)]:
        shapes = [tuple(shape) for shape in model.compute_output_shape((2, *size, 3))]
        sizes = [ceil_divided(size, stride) for stride in strides]
        assert shapes == [(2, *one, 16 * 2**number) for number, one in enumerate(sizes)]
    features = model(networks.images(2, 35, 61, 3), training=False)
    assert [tuple(feature.shape) for feature in features] == shapes


@backends.slow_elsewhere
def test_global_scope_with_known_size():
    spec = networks.tiny_spec(arguments={"lambda": {**networks.TINY, "scope": None}})
    model = build(spec, (16, 24, 3), classes=5)
    assert model.get_layer("c5_block2_2_lambda").position_embeddings.shape == (3, 5, 1, 3)
    assert networks.predict(model, networks.images(2, 16, 24, 3)).shape == (2, 5)


@backends.slow_elsewhere
@pytest.mark.parametrize(
    ("shortcut", "training"), [pytest.param("conv", False, marks=pytest.mark.slow), ("pool", True)]
)
def test_every_block_starts_as_the_identity_of_its_shortcut(shortcut, training):
    model = networks.tiny_model(shortcut=shortcut)
    names = networks.block_names((2, 1, 1, 2))
    gammas = [one for one in model.trainable_variables if one.path.endswith("/gamma")]
    last = ["_3_bn/" in gamma.path for gamma in gammas]
    assert sum(last) == len(names)
    for is_last, gamma in zip(last, networks.values(gammas), strict=True):
        np.testing.assert_array_equal(gamma, 0 if is_last else 1)
    additions = [model.get_layer(f"{name}_add") for name in names]
    inside = keras.Model(model.input, [[*layer.input, layer.output] for layer in additions])
    outputs = inside(networks.images(2, 16, 16, 3), training=training)
    for shortcut_features, branch, total in map(networks.values, outputs):
        assert np.any(shortcut_features)
        np.testing.assert_array_equal(branch, 0)
        np.testing.assert_array_equal(total, shortcut_features)


def test_lambda_layers_sit_where_the_spec_says():
    model = networks.tiny_model(blocks=(2, 2, 3, 1), mixer_blocks=((2,), (), (1, 3), (1,)))
    expected = ["c2_block2", "c4_block1", "c4_block3", "c5_block1"]
    assert networks.lambda_blocks(model) == expected
    for name in networks.block_names((2, 2, 3, 1)):
        kind = "lambda" if name in expected else "conv"
        layer = model.get_layer(f"{name}_2_{kind}")
        strides = layer.strides if kind == "lambda" else layer.strides[0]
        assert strides == (2 if name.endswith("block1") and not name.startswith("c2") else 1)


def test_squeeze_excitation_is_in_the_convolution_blocks_of_its_stages():
    places = {"blocks": (2, 2, 2, 1), "mixer_blocks": ((), (2,), (1,), (1,))}
    model = networks.tiny_model(squeeze_excitation=(True, True, True, False), **places)
    expected = ["c2_block1", "c2_block2", "c3_block1", "c4_block2"]
    assert networks.squeeze_excitation_blocks(model) == expected


def test_every_trainable_variable_has_a_gradient():
    model, cotangent = networks.tiny_model((16, 12, 3)), networks.images(4, 5, seed=1)
    assert networks.without_gradient(model, networks.images(4, 16, 12, 3), cotangent, 1e-5) == []


@pytest.mark.parametrize(
    ("layer_name", "channels"), [("stem_pool", 4), ("c3_block1_shortcut_pool", 16)]
)
def test_padding_of_a_pool_is_not_seen(tiny, layer_name, channels):
    """Zero padding would show as a maximum of 0, or as averages nearer to 0, at the border."""
    if layer_name == "stem_pool":
        tiny = networks.tiny_model((None, None, 3), stem="v1")
    for size in ((6, 6), (5, 7)):
        pool, data = tiny.get_layer(layer_name), np.full((1, *size, channels), -1, "float32")
        outputs = ops.convert_to_numpy(pool(data))
        assert outputs.shape == (1, *ceil_divided(size, 2), channels)
        np.testing.assert_allclose(outputs, -1, rtol=1e-6)


def test_shortcut_pools_two_by_two(tiny):
    """ResNet-D: the window is as wide as the stride."""
    pool = tiny.get_layer("c3_block1_shortcut_pool")
    data = networks.images(2, 6, 4, 16)
    expected = data.reshape(2, 3, 2, 2, 2, 16).mean((2, 4))
    np.testing.assert_allclose(ops.convert_to_numpy(pool(data)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(6, 6), (5, 7)])
def test_padding_of_the_pool_of_a_strided_lambda_layer_is_not_seen(tiny, size):
    """A constant image leaves the content lambda alone, which is the same at every position."""
    layer = tiny.get_layer("c4_block1_2_lambda")
    layer.position_embeddings.assign(np.zeros(layer.position_embeddings.shape))
    data = np.tile(networks.images(1, 1, 1, layer.query_kernel.shape[0]), (1, *size, 1))
    outputs = ops.convert_to_numpy(layer(-np.abs(data)))
    assert outputs.shape[1:3] == ceil_divided(size, 2)
    assert np.any(outputs)
    inside = np.broadcast_to(outputs[:, 1:2, 1:2], outputs.shape)
    np.testing.assert_allclose(outputs, inside, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("padding", "size"), [("fixed", (7, 9)), ("symmetric", (8, 8))])
def test_strided_convolutions_pad_both_sides(size, padding):
    """One that picks the centre of its window sees positions 0, 2, 4 ...."""
    model = networks.tiny_model((None, None, 3), padding=padding, stem="v1")
    convolution = model.get_layer("stem_conv")
    kernel = np.zeros(convolution.kernel.shape)
    kernel[3, 3] = 1
    convolution.kernel.assign(kernel)
    inner = keras.Model(model.input, convolution.output)
    data = networks.images(1, *size, 3)
    outputs = ops.convert_to_numpy(inner(data))
    np.testing.assert_allclose(outputs[..., 0], data[:, ::2, ::2].sum(-1), rtol=1e-5)


def test_symmetric_pooling_of_a_lambda_layer_counts_zeros():
    """As PyTorch's average pooling does: at a corner, five of nine are padding."""
    size, model = (5, 7), networks.tiny_model((None, None, 3), padding="symmetric")
    pad = model.get_layer("c4_block1_2_pool_pad")
    pool = model.get_layer("c4_block1_2_pool")
    outputs = ops.convert_to_numpy(pool(pad(np.ones((1, *size, 4), "float32"))))
    assert outputs.shape[1:3] == ceil_divided(size, 2)
    np.testing.assert_allclose(outputs[:, 0, 0], 4 / 9, rtol=1e-6)
    np.testing.assert_allclose(outputs[:, 1, 1], 1, rtol=1e-6)


@backends.slow_elsewhere
def test_fixed_padding_is_of_convolutions_alone():
    """ResNet-RS: its poolings are TensorFlow's, which do not count what is padded."""
    same, fixed = (networks.tiny_model(padding=padding) for padding in ("same", "fixed"))
    padded = [layer.name for layer in fixed.layers if isinstance(layer, keras.layers.ZeroPadding2D)]
    assert padded == ["c3_block1_2_pad"]
    without = [layer.name for layer in fixed.layers if layer.name not in padded]
    assert without[1:] == [layer.name for layer in same.layers][1:]
    assert fixed.get_layer("c4_block1_2_lambda").strides == 2
    networks.randomize(same)
    fixed.set_weights(same.get_weights())
    data = networks.images(1, 16, 16, 3)
    (c2, c3, *_), (same_c2, other_c3, *_) = (
        networks.values(endpoints(model)(data)) for model in (same, fixed)
    )
    np.testing.assert_array_equal(same_c2, c2)  # before the first stride
    assert np.abs(other_c3 - c3).max() > 0.01


def test_stochastic_depth_grows_with_the_stage():
    """ResNet-RS: rate times stage over 5, for the stages 2 to 5."""
    model = networks.tiny_model(stochastic_depth_rate=0.5)
    rates = {layer.name: layer.rate for layer in model.layers if layer.name.endswith("_drop")}
    blocks = networks.block_names((2, 1, 1, 2))
    assert rates == {f"{one}_drop": pytest.approx(0.1 * int(one[1])) for one in blocks}


def test_rates_change_neither_layers_nor_predictions():
    model = networks.tiny_model(dropout_rate=0.3, stochastic_depth_rate=0.5)
    assert model.get_layer("dropout").rate == 0.3
    assert model.layers[-2].name == "dropout"
    without = networks.tiny_model()
    names = [layer.name for layer in model.layers[1:]]
    assert [layer.name for layer in without.layers[1:]] == names
    assert len(without.variables) == len(without.weights)  # no seeds
    without.set_weights(model.get_weights())
    data = networks.images(2, 16, 16, 3)
    np.testing.assert_allclose(networks.predict(model, data), networks.predict(without, data))


def test_momentum_and_epsilon_are_everywhere():
    model = networks.tiny_model(batch_norm_momentum=0.5, double_attention=True, blocks=(1, 2, 1, 0))
    norms = networks.inner_layers(model, keras.layers.BatchNormalization)
    inner = [one for one in norms if "double_attention" in one.path]
    assert len(inner) == 1
    assert {(one.momentum, one.epsilon) for one in norms} == {(0.5, 1e-5)}


def test_activation_is_everywhere():
    places = {"blocks": (1, 1, 0, 0), "mixer_blocks": ((), (1,), (), ())}
    model = networks.tiny_model(activation="silu", **places)
    found = networks.inner_layers(model, keras.layers.Activation)
    assert {layer.activation.__name__ for layer in found} == {"silu"}


@pytest.mark.one_backend
@pytest.mark.parametrize("padding", ["fixed", "symmetric"])
def test_strided_queries(padding):
    """The parameters stay, and nothing is pooled after a lambda layer, in PyTorch's padding too."""
    pooled, in_c5, strided = (
        networks.tiny_model(
            padding=padding, arguments={"lambda": {**networks.TINY, "strided_queries": value}}
        )
        for value in (False, (False, False, False, True), True)
    )
    shapes = [[variable.shape for variable in model.weights] for model in (pooled, strided, in_c5)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert count_flops(strided) < count_flops(in_c5) < count_flops(pooled)
    layers = [strided.get_layer(f"{stage}_block1_2_lambda") for stage in ("c4", "c5")]
    assert [(layer.strides, layer.strided_queries) for layer in layers] == [(2, True)] * 2
    assert not [layer.name for layer in strided.layers if layer.name.endswith("_2_pool")]
    assert strided.output_shape == pooled.output_shape


def test_one_table_for_all_lambda_layers():
    """Table 4: counted and saved once."""
    own = networks.tiny_model()
    arguments = {"lambda": {**networks.TINY, "position_embedding": "shared"}}
    shared = networks.tiny_model(arguments=arguments)
    others = len(networks.lambda_blocks(own)) - 1
    assert networks.lambda_blocks(shared) == networks.lambda_blocks(own)
    fewer = networks.trainable_parameters(own) - networks.trainable_parameters(shared)
    assert fewer == others * 3 * 3 * 3
    clone = keras.Model.from_config(shared.get_config())
    assert len(clone.weights) == len(shared.weights)
    networks.randomize(shared)
    data = networks.images(2, 16, 16, 3)
    before = networks.predict(shared, data)
    embeddings = shared.get_layer("position_embeddings")
    embeddings.set_weights([2 * array for array in embeddings.get_weights()])
    assert np.abs(networks.predict(shared, data) - before).max() > 1e-4
