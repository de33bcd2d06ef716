"""Checkpoints of timm, torchvision and lambda.pytorch, on small networks."""

import functools
from dataclasses import replace

import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from support import networks
from support.arrays import to_numpy

from lambda_keras.applications import LambdaResNet14
from lambda_keras.models.resnet import build_resnet
from lambda_keras.models.specs import NETWORKS, ResNetSpec, resnet_rs
from lambda_keras.weights import load_weights, state_dicts
from lambda_keras.weights.state_dicts import SCHEMES, assign_state_dict, expected_tensors
from tools.timm_parity import filled
from zoo.precision import precision

TIMM_NAMES, *_, TORCHVISION_NAMES = SCHEMES
BLOCKS = {"blocks": (1, 1, 2, 1), "filters": 8}
SMALL_TIMM = replace(NETWORKS["lambda_resnet26t"].spec, **BLOCKS, mixer_blocks=((), (), (2,), (1,)))
SMALL_BOTNET, SMALL_HALONET = (
    replace(NETWORKS[name].spec, **BLOCKS, mixer_blocks=SMALL_TIMM.mixer_blocks)
    for name in ("botnet26t_256", "halonet26t")
)
OF_LAMBDA = {"arguments": {"lambda": {"scope": 5, "use_bias": True}}, "padding": "symmetric"}
SMALL_LAMBDA_PYTORCH = ResNetSpec(**BLOCKS, mixer_blocks=((1,), (1,), (1, 2), (1,)), **OF_LAMBDA)


def small(spec=SMALL_TIMM, classes=3, include_top=True, size=32) -> keras.Model:
    inputs = keras.Input((size, size, 3))
    return build_resnet(spec, inputs, include_top=include_top, classes=classes, name="small")


def checkpoint(model, names=TIMM_NAMES) -> dict[str, np.ndarray]:
    return filled({tensor.key: tensor.shape for tensor in expected_tensors(model, names)})


def assert_refused(model, state, match):
    with networks.refused(model, match):
        assign_state_dict(model, state, "somewhere")


def loaded(spec, names=TIMM_NAMES):
    """A small network with the weights of a checkpoint, and the checkpoint."""
    model = small(spec)
    state = checkpoint(model, names)
    assign_state_dict(model, state, "somewhere")
    return model, state


def assert_holds(model, values):
    """Weights by the names of their layers, and the attributes that lead to them."""
    for path, expected in values.items():
        layer, *names = path.split("/")
        weight = functools.reduce(getattr, names, model.get_layer(layer))
        np.testing.assert_array_equal(to_numpy(weight), expected, err_msg=path)


def test_layouts_of_timm():
    model, state = loaded(SMALL_TIMM)
    attention, block = "stages.2.1.self_attn", "c4_block2_2_lambda"
    projections = state[f"{attention}.qkv.weight"][:, :, 0, 0].T
    embeddings = state[f"{attention}.conv_lambda.weight"][..., 0]
    values = {
        "stem2_conv/kernel": state["stem.conv2.conv.weight"].transpose(2, 3, 1, 0),
        f"{block}/query_kernel": projections[:, :64],
        f"{block}/key_kernel": projections[:, 64:80],
        f"{block}/value_kernel": projections[:, 80:],
        f"{block}/query_batch_norm/gamma": state[f"{attention}.norm_q.weight"],
        f"{block}/value_batch_norm/moving_variance": state[f"{attention}.norm_v.running_var"],
        f"{block}/position_bias": state[f"{attention}.conv_lambda.bias"],
        f"{block}/position_embeddings": embeddings.transpose(2, 3, 1, 0),
        "c4_block2_2_bn/moving_mean": state["stages.2.1.post_attn.running_mean"],
        "c4_block1_2_bn/beta": state["stages.2.0.conv2_kxk.bn.bias"],
        "c5_block1_shortcut_bn/gamma": state["stages.3.0.shortcut.bn.weight"],
        "predictions/kernel": state["head.fc.weight"].T,
        "predictions/bias": state["head.fc.bias"],
    }
    assert_holds(model, values)


def test_global_embeddings_of_timm():
    spec = replace(SMALL_TIMM, arguments={"lambda": {"scope": None}})
    model, state = loaded(spec)
    embeddings = state["stages.2.1.self_attn.pos_emb"]
    assert_holds(model, {"c4_block2_2_lambda/position_embeddings": embeddings[:, :, None]})
    assert_refused(small(spec, size=64), state, r"pos_emb: expected \(7, 7, 16\), received \(3, 3,")


def test_layouts_of_lambda_pytorch():
    model, state = loaded(SMALL_LAMBDA_PYTORCH, TORCHVISION_NAMES)
    layer, norm = "layer3.1.conv2", ("weight", "bias", "running_mean", "running_var")
    names = {f"norm_{name}.{part}" for name in "qv" for part in norm}
    names |= {"conv_qkv.weight", "lambda_conv.weight", "lambda_conv.bias"}
    assert {key for key in state if layer in key} == {f"{layer}.{name}" for name in names}
    embeddings = state[f"{layer}.lambda_conv.weight"][:, 0]
    values = {
        "stem_conv/kernel": state["conv1.weight"].transpose(2, 3, 1, 0),
        "stem_bn/gamma": state["bn1.weight"],
        "c4_block2_1_conv/kernel": state["layer3.1.conv1.weight"].transpose(2, 3, 1, 0),
        "c4_block2_2_bn/beta": state["layer3.1.bn2.bias"],
        "c4_block2_2_lambda/position_bias": state[f"{layer}.lambda_conv.bias"],
        "c4_block2_2_lambda/position_embeddings": embeddings.transpose(2, 3, 1, 0),
        "c3_block1_shortcut_bn/moving_mean": state["layer2.0.downsample.1.running_mean"],
        "predictions/kernel": state["fc.weight"].T,
    }
    assert_holds(model, values)


def test_global_attention_of_timm():
    model, state = loaded(SMALL_BOTNET)
    attention, block = "stages.2.1.self_attn", "c4_block2_2_attention"
    projections = state[f"{attention}.qkv.weight"][:, :, 0, 0].T
    rows, columns = (state[f"{attention}.pos_embed.{one}_rel"] for one in ("height", "width"))
    values = {
        f"{block}/query_kernel": projections[:, :32],
        f"{block}/key_kernel": projections[:, 32:64],
        f"{block}/value_kernel": projections[:, 64:],
        f"{block}/row_embeddings": rows,
        f"{block}/column_embeddings": columns,
        "c4_block2_2_bn/moving_mean": state["stages.2.1.post_attn.running_mean"],
    }
    assert_holds(model, values)


def test_halo_attention_of_timm():
    """The keys and the values of a head stand beside each other."""
    model, state = loaded(SMALL_HALONET)
    attention, block = "stages.3.0.self_attn", "c5_block1_2_attention"
    both = state[f"{attention}.kv.weight"][:, :, 0, 0]
    keys, values = (both.reshape(8, 2, 8, 64)[:, one].reshape(64, 64).T for one in (0, 1))
    queries = state[f"{attention}.q.weight"][:, :, 0, 0].T
    kernels = {"query_kernel": queries, "key_kernel": keys, "value_kernel": values}
    assert_holds(model, {f"{block}/{name}": kernels[name] for name in kernels})
    assert state[f"{attention}.pos_embed.height_rel"].shape == (2 * (8 + 2 * 2) - 1, 8)


def test_layouts_of_resnet_rs():
    """Of Keras 2 as here, but excitations are 1x1 convolutions, as they are in timm."""
    for names, key, axes in (
        (SCHEMES[2], "BlockGroup4__block_1__se_se_reduce/kernel", (0, 1)),
        (SCHEMES[1], "layer3.1.se.fc1.weight", (1, 0)),
    ):
        model, state = loaded(replace(resnet_rs(50), **BLOCKS), names)
        assert state_dicts.find_scheme(state) is names
        kernel = state[key].squeeze().transpose(axes)
        assert_holds(model, {"c4_block2_se/squeeze/kernel": kernel})
    stem = checkpoint(model, SCHEMES[2])["stem_1_stem_conv_4/kernel"]
    assert stem.shape == model.get_layer("stem4_conv").kernel.shape


def test_every_weight_changes_and_counters_of_batches_and_prefixes_are_ignored():
    model, (expected, state) = small(), loaded(SMALL_TIMM)
    before = networks.values(model.weights)
    state["stem.conv1.bn.num_batches_tracked"] = np.array(7)
    state = {f"module.{key}": array for key, array in state.items()}
    assign_state_dict(model, state, "somewhere")
    networks.assert_same(model, expected)
    for variable, old in zip(model.weights, before, strict=True):
        assert not np.any(to_numpy(variable) == old), variable.path


def test_model_without_classifier_takes_a_checkpoint_with_one():
    state, model = checkpoint(small()), small(include_top=False)
    assign_state_dict(model, state, "somewhere")
    del state["head.fc.weight"], state["head.fc.bias"]
    assign_state_dict(model, state, "somewhere")
    assert_refused(small(), state, r"head\.fc\.bias: expected \(3,\), received no such tensor")


def test_checkpoint_of_another_library():
    state = checkpoint(small(SMALL_LAMBDA_PYTORCH), TORCHVISION_NAMES)
    assert state_dicts.find_scheme(state) is TORCHVISION_NAMES
    assert_refused(small(), state, "of torchvision or lambda.pytorch.*'small'.*stem1_conv/kernel")


PROJECTED = {"halo": {"output_projection": True}}


def without(**changes):
    return lambda: small(replace(SMALL_TIMM, **changes))


def of_lambda(**changes):
    return without(arguments={"lambda": {**SMALL_TIMM.arguments["lambda"], **changes}})


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        (lambda: LambdaResNet14(filters=4), "stem_conv"),
        (without(squeeze_excitation=(True,) * 4), "c2_block1_se"),
        (of_lambda(position_embedding="shared"), "position_embeddings"),
        # In lambda.pytorch, intra-depth and value depth are the other way round.
        (of_lambda(intra_depth=2), "c4_block2_2_lambda"),
        (of_lambda(use_content=False), "c4_block2_2_lambda"),
        (without(mixer="linear"), "c4_block2_2_attention"),
        (without(mixer="halo", arguments=PROJECTED), "c4_block2_2_attention/output_kernel"),
    ],
)
def test_layers_without_counterpart(model, layer):
    assert_refused(model(), {"stages.0": np.zeros(1)}, f"no counterpart there: .*{layer}")


@pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16])
def test_other_precisions_become_float32(tmp_path, dtype):
    model = small()
    state = {key: array.astype(dtype) for key, array in checkpoint(model).items()}
    path = tmp_path / "model.safetensors"
    save_file(state, path)
    load_weights(model, path, "small")
    expected = state["stem.conv2.conv.weight"].astype("float32").transpose(2, 3, 1, 0)
    assert_holds(model, {"stem2_conv/kernel": expected})


def test_mixed_precision_keeps_float32_variables():
    with precision("mixed_float16"):
        model, state = loaded(SMALL_TIMM)
    assert_holds(model, {"stem1_bn/beta": state["stem.conv1.bn.bias"]})
