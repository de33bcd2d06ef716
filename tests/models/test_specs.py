"""The networks of the paper as data."""

import dataclasses
import inspect

import pytest
from support import networks

from lambda_keras.layers import LambdaLayer
from lambda_keras.models import specs

pytestmark = pytest.mark.one_backend

FAMILY = networks.GOLDEN["resnet_rs_family"]


def test_placement_gives_all_blocks_of_a_lambda_stage():
    assert specs.placement((3, 4, 6, 3), "CCCC") == ((), (), (), ())
    assert specs.placement((3, 1, 2, 3), "LCLL") == ((1, 2, 3), (), (1, 2), (1, 2, 3))


@pytest.mark.parametrize("letters", ["", "CCC", "CCCCC", "cccc", "CCLX", "CC L", "1100"])
def test_bad_placement_raises(letters):
    with pytest.raises(ValueError, match=f"four letters C .* Received: placement='{letters}'"):
        specs.placement((3, 4, 6, 3), letters)


def test_table_18_has_all_seven_depths():
    assert set(FAMILY) <= {str(depth) for depth in specs.DEPTHS}


@pytest.mark.parametrize("depth", list(map(int, FAMILY)))
@pytest.mark.parametrize("all_c4", [False, True])
def test_lambda_resnets_of_table_18(depth, all_c4):
    spec, row = specs.lambda_resnet(depth, all_c4), FAMILY[str(depth)]
    assert list(spec.blocks) == row["blocks"]
    every_c4_block, every_c5_block = (tuple(range(1, number + 1)) for number in spec.blocks[2:])
    c4 = every_c4_block if all_c4 else tuple(row["lambda_blocks_c4"])
    assert spec.mixer_blocks == ((), (), c4, every_c5_block)
    assert (spec.stem, spec.shortcut, spec.filters) == ("rs", "pool", 64)
    assert spec.squeeze_excitation == (True, True, False, False)


@pytest.mark.parametrize("squeeze_excitation", [False, True])
def test_resnet_rs_has_no_lambda_layers(squeeze_excitation):
    spec = specs.resnet_rs(101, squeeze_excitation)
    assert spec.mixer_blocks == ((), (), (), ())
    assert spec.squeeze_excitation == (squeeze_excitation,) * 4
    changed = {"mixer_blocks": (), "mixer": None, "squeeze_excitation": ()}
    hybrid = specs.lambda_resnet(101)
    assert dataclasses.replace(spec, **changed) == dataclasses.replace(hybrid, **changed)


def test_lambda_layers_have_the_hyper_parameters_of_the_paper():
    """E.1, and the defaults of LambdaLayer in everything that the text does not name."""
    expected = {"num_heads": 4, "key_dim": 16, "intra_depth": 1, "scope": 23}
    defaults = inspect.signature(LambdaLayer).parameters
    for depth in specs.DEPTHS:
        hyper_parameters = dataclasses.asdict(specs.lambda_resnet(depth).lambda_layer)
        assert expected.items() <= hyper_parameters.items()
        assert {name: defaults[name].default for name in hyper_parameters} == hyper_parameters


def test_specs_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        specs.lambda_resnet(50).filters = 32
