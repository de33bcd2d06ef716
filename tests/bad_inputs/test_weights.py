"""Damaged, forged and unfit weights: each is a ValueError of one line, the model is unchanged."""

import json
import os
import struct

import h5py
import keras
import numpy as np
import pytest
from safetensors.numpy import save
from support import networks
from support.damage import flip, later

from lambda_keras.layers import LambdaLayer
from lambda_keras.weights import load_weights
from lambda_keras.weights.state_dicts import SCHEMES, expected_tensors
from tools.timm_parity import filled

CONV, LAMBDA, DENSE = "layers/conv2d/vars", "layers/lambda_layer", "layers/dense/vars"
INTACT = "expected an intact HDF5 weights file"
UNFIT = "do not fit the model 'tiny'"
KINDS = "expected floating-point weights"


@later
def replaced(file, address, *arguments, **keywords):
    """A damage: another dataset in place of one."""
    del file[address]
    file.create_dataset(address, *arguments, **keywords)


@later
def changed(file, address, value, index=0):
    """A damage: another number."""
    file[address][np.unravel_index(index, file[address].shape)] = value


@later
def removed(file, address):
    del file[address]


@later
def linked(file, address, link):
    del file[address]
    file[address] = link


@later
def named(file, name, layer="layers/conv2d"):
    file[f"{layer}/vars"].attrs["name"] = name


def without_name(file):
    del file[CONV].attrs["name"]


def swapped(file):
    file.move(f"{CONV}/0", f"{CONV}/9")
    file.move(f"{CONV}/1", f"{CONV}/0")
    file.move(f"{CONV}/9", f"{CONV}/1")


@later
def twice(file, name="stem"):
    file.copy("layers/conv2d", "layers/conv2d_9")
    named(name, "layers/conv2d_9")(file)


def virtual(file):
    layout = h5py.VirtualLayout((8,), "float32")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "a", (8,))
    removed(f"{CONV}/1")(file)
    file.create_virtual_dataset(f"{CONV}/1", layout)


def in_another_file(file):
    """Eight numbers of any file that the reader may open, such as this one."""
    replaced(f"{CONV}/1", (8,), "float32", external=[(__file__, 0, 32)])(file)


def broken_chunk(file):
    replaced(f"{CONV}/1", (8,), "f4", chunks=(8,), compression="gzip")(file)
    file[f"{CONV}/1"].id.write_direct_chunk((0,), b"no gzip")


HDF5 = {
    "no_layers": (removed("layers"), UNFIT),
    "layers_is_a_dataset": (replaced("layers", data=[1.0]), INTACT),
    "layer_is_a_link": (linked("layers/conv2d", h5py.ExternalLink("ok.weights.h5", CONV)), UNFIT),
    "array_is_a_dead_soft_link": (linked(f"{CONV}/0", h5py.SoftLink("/no")), UNFIT),
    "vars_is_a_dataset": (replaced(CONV, data=[1.0]), INTACT),
    "no_name": (without_name, INTACT),
    "name_is_a_number": (named(5), "layers/conv2d has the name"),
    "name_of_another_layer": (named("predictions"), "layers/dense has the name 'predictions'"),
    "name_with_escapes": (named("\x1b[2Ja\nb"), r"'\x1b[2Ja\nb/vars/0'"),
    "layer_twice": (twice(), "has the name 'stem'"),
    "layer_too_many": (twice("more"), "more/vars/0: expected no such array"),
    "layer_missing": (removed("layers/dense"), "predictions/vars/0: expected (8, 3), received no"),
    "array_missing": (removed(f"{CONV}/1"), "stem/vars/1: expected (8,), received no such array"),
    "array_too_many": (lambda f: f.create_dataset(f"{CONV}/2", data=[1.0]), "stem/vars/2: expec"),
    "arrays_swapped": (swapped, "stem/vars/0: expected (1, 1, 3, 8), received (8,)"),
    "array_of_an_inner_layer": (removed(f"{LAMBDA}/query_batch_norm/vars/2"), UNFIT),
    "transposed": (replaced(f"{DENSE}/0", (3, 8), "f4"), "expected (8, 3), received (3, 8)"),
    "too_large_to_read": (replaced(f"{CONV}/1", (10**15,), "f4", chunks=(8,)), "(1000000000000000"),
    "strings": (replaced(f"{CONV}/1", data=[b"a"] * 8), KINDS),
    "integers": (replaced(f"{CONV}/1", (8,), "i4"), "Received: stem/bias of int32"),
    "virtual": (virtual, "vars/1 is in another file"),
    "external": (in_another_file, "vars/1 is in another file"),
    "broken_chunk": (broken_chunk, INTACT),
    "nan": (changed(f"{CONV}/0", np.nan, 5), "Received: nan in stem/kernel"),
    "infinity": (changed(f"{DENSE}/1", np.inf, 2), "Received: inf in predictions/bias"),
    "minus_infinity_in_an_inner_layer": (
        changed(f"{LAMBDA}/query_batch_norm/vars/3", -np.inf),
        "Received: -inf in lambda/query_batch_norm/moving_variance",
    ),
    "overflow": (replaced(f"{CONV}/1", data=np.full(8, 1e300)), "Received: inf in stem/bias"),
}

BYTES = {
    "nothing": lambda content: b"",
    "text": lambda content: b"not weights",
    "superblock_alone": lambda content: content[:96],
    "zeros_after_the_superblock": lambda content: content[:96] + bytes(len(content) - 96),
    "pickle": lambda content: b"\x80\x04cos\nsystem\n" + content,
}


@later
def tensors(state, **changes):
    """A damage of a checkpoint: other tensors by the ends of their names, None removes them."""
    state |= {f"fc.{end}": value for end, value in changes.items()}
    return save({key: value for key, value in state.items() if value is not None})


@later
def with_header(state, **changes):
    """A damage of the JSON in front of the numbers, of what it says of a tensor."""
    content = save(state)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["fc.bias"].update(changes)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


NO_SAFETENSORS = "expected an intact safetensors file"
ONE = np.ones(3, "float32")
SAFETENSORS = {
    "nothing": (lambda state: b"", NO_SAFETENSORS),
    "short": (lambda state: save(state)[:-4], NO_SAFETENSORS),
    "long": (lambda state: save(state) + b"1234", NO_SAFETENSORS),
    "huge_header": (lambda state: b"\xff" * 8 + save(state)[8:], NO_SAFETENSORS),
    "pickle": (lambda state: b"\x80\x04" + save(state), NO_SAFETENSORS),
    "offsets": (with_header(data_offsets=[0, 10**9]), NO_SAFETENSORS),
    "shape_of_others": (with_header(shape=[4]), NO_SAFETENSORS),
    "unknown_type": (with_header(dtype="F99"), NO_SAFETENSORS),
    "no_tensors": (lambda state: save({}), "expected a checkpoint of timm, timm's ResNet-RS, "),
    "other_names": (lambda state: save({"a.b": ONE}), "with the names ['a.b']"),
    "too_many": (tensors(more=ONE), "fc.more: expected no such tensor, received (3,)"),
    "escapes": (lambda state: save({**state, "\x1b\n": ONE}), r"'\x1b\n': expected no such tensor"),
    "shape": (tensors(bias=ONE[:2]), "fc.bias: expected (3,), received (2,)"),
    "missing_and_shape": (
        tensors(bias=None, weight=ONE),
        "bias: expected (3,), received no such tensor; fc.weight: expected (3, 8), received (3,)",
    ),
    "integers": (tensors(bias=np.ones(3, "int64")), "Received: fc.bias of int64"),
    "nan": (tensors(bias=ONE * np.nan), "Received: nan in fc.bias"),
    "overflow": (tensors(bias=np.full(3, -1e300)), "Received: -inf in fc.bias"),
}

PICKLES = ("a.pth", "a.pth.tar", "a.pt", "pytorch_model.bin")
PLACES = {
    "missing": ("none.weights.h5", "that exists. Received: weights="),
    "folder": ("folder.weights.h5", "a folder with model.safetensors or model.weights.h5, or"),
    "device": ("/dev/zero", "that exists"),
    "too_long": ("a" * 5000 + ".weights.h5", "that exists"),
    "wrong_suffix": ("ok.hdf5", "that exists"),
    "suffix_of_keras_2": ("ok.h5", "Keras 3 wrote it, so its name has to end with .weights.h5"),
    **{name: (name, "python -m zoo.convert") for name in PICKLES},
    "number": (5, "Received: weights='5'"),
    "no_repository": ("hf://owner", "'hf://owner/repo@revision'. Received: 'hf://owner'"),
    "unpublished": ("imagenet", "weights='imagenet' of 'tiny'"),
}


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """With a counterpart in PyTorch's libraries, so that it takes both formats."""
    attention = LambdaLayer(8, scope=3, key_dim=2, num_heads=2, name="lambda")
    return networks.few_layers(keras.layers.Conv2D(8, 1, name="stem"), attention)


@pytest.fixture(scope="module")
def torch_model() -> keras.Model:
    convolution = keras.layers.Conv2D(8, 1, use_bias=False, name="c2_block1_1_conv")
    return networks.few_layers(convolution)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "ok.weights.h5"
    model.save_weights(path)
    return path.read_bytes()


def assert_refused(model, weights, part):
    with networks.refused(model, r"\S") as caught:
        load_weights(model, weights, "tiny")
    message = str(caught.value)
    assert part in message
    assert message.isprintable()  # so it is one line


@pytest.mark.parametrize(("damage", "part"), HDF5.values(), ids=HDF5)
def test_hdf5(model, saved, here, damage, part):
    for name in ("ok.weights.h5", "bad.weights.h5"):
        (here / name).write_bytes(saved)
    with h5py.File("bad.weights.h5", "r+") as file:
        damage(file)
    assert_refused(model, "bad.weights.h5", part)
    assert sorted(os.listdir()) == ["bad.weights.h5", "ok.weights.h5"]


@pytest.mark.parametrize("damage", BYTES.values(), ids=BYTES)
def test_bytes_of_hdf5(model, saved, tmp_path, damage):
    path = tmp_path / "bad.weights.h5"
    path.write_bytes(damage(saved))
    assert_refused(model, path, INTACT)


@pytest.mark.one_backend
def test_flipped_bits(model, saved, tmp_path):
    """Each is a ValueError of one line, or it was in a number, which is still finite."""
    path, before = tmp_path / "flipped.weights.h5", networks.values(model.variables)
    refusals = []
    for position in np.random.default_rng(0).integers(0, 8 * len(saved), 100):
        path.write_bytes(saved)
        flip(path, position // 8, position % 8)
        allowed = 0
        try:
            load_weights(model, path, "tiny")
            allowed = 1
        except ValueError as error:
            refusals.append(str(error))
        after = networks.values(model.variables)
        assert all(np.isfinite(array).all() for array in after)
        assert sum(np.sum(old != new) for old, new in zip(before, after, strict=True)) <= allowed
        model.set_weights(before)
    assert len(refusals) > 10
    assert all(str(path) in refusal and "\n" not in refusal for refusal in refusals)


@pytest.mark.parametrize(("damage", "part"), SAFETENSORS.values(), ids=SAFETENSORS)
def test_safetensors(torch_model, tmp_path, damage, part):
    wanted = expected_tensors(torch_model, SCHEMES[-1])
    path = tmp_path / "bad.safetensors"
    path.write_bytes(damage(filled({tensor.key: tensor.shape for tensor in wanted})))
    assert_refused(torch_model, path, part)


@pytest.mark.parametrize(("weights", "part"), PLACES.values(), ids=PLACES)
def test_places(model, saved, here, weights, part):
    for name in ("ok.weights.h5", "ok.h5"):
        (here / name).write_bytes(saved)
    for name in ("ok.hdf5", *PICKLES):
        (here / name).touch()
    (here / "folder.weights.h5").mkdir()
    assert_refused(model, weights, part)


def test_undamaged_files_load(model, saved, torch_model, tmp_path):
    """Intact files, of which the tests above damage copies."""
    (tmp_path / "ok.weights.h5").write_bytes(saved)
    load_weights(model, tmp_path / "ok.weights.h5", "tiny")
    state = filled({t.key: t.shape for t in expected_tensors(torch_model, SCHEMES[-1])})
    (tmp_path / "ok.safetensors").write_bytes(save(state))
    load_weights(torch_model, tmp_path / "ok.safetensors", "tiny")
