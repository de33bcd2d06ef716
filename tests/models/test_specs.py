"""The networks of the paper as data."""

import dataclasses

import pytest
from support import networks

from lambda_keras.models import specs
from lambda_keras.models.mixers import MIXERS

pytestmark = pytest.mark.one_backend

FAMILY = networks.GOLDEN["resnet_rs_family"]


def test_placement_gives_all_blocks_of_a_lambda_stage():
    assert specs.placement((3, 4, 6, 3), "CCCC") == ((), (), (), ())
    assert specs.placement((3, 1, 2, 3), "LCLL") == ((1, 2, 3), (), (1, 2), (1, 2, 3))


@pytest.mark.parametrize("letters", ["", "CCC", "CCCCC", "cccc", "CCLX", "CC L", "1100"])
def test_bad_placement_raises(letters):
    with pytest.raises(ValueError, match=f"four letters C .* Received: placement='{letters}'"):
        specs.placement((3, 4, 6, 3), letters)


@pytest.mark.parametrize("depth", list(map(int, FAMILY)))
def test_lambda_resnets_of_table_18(depth):
    spec, row = specs.lambda_resnet(depth), FAMILY[str(depth)]
    assert list(spec.blocks) == row["blocks"]
    every_c5_block = tuple(range(1, spec.blocks[3] + 1))
    assert spec.mixer_blocks == ((), (), tuple(row["lambda_blocks_c4"]), every_c5_block)
    assert (spec.stem, spec.shortcut, spec.filters, spec.padding) == ("rs", "pool", 64, "fixed")
    assert spec.squeeze_excitation == (True, True, False, False)


def test_resnet_rs_has_no_lambda_layers():
    spec, hybrid = specs.resnet_rs(101), specs.lambda_resnet(101)
    assert (spec.mixer_blocks, spec.mixer) == (((), (), (), ()), None)
    assert spec.squeeze_excitation == (True,) * 4
    changed = {"mixer_blocks": (), "mixer": None, "squeeze_excitation": ()}
    assert dataclasses.replace(spec, **changed) == dataclasses.replace(hybrid, **changed)


def test_lambda_layers_have_the_hyper_parameters_of_the_paper():
    """E.1, and the defaults of LambdaLayer in everything that the text does not name."""
    expected = {"num_heads": 4, "key_dim": 16, "intra_depth": 1, "scope": 23}
    assert expected.items() <= MIXERS["lambda"].defaults.items()
    assert MIXERS["lambda"].arguments == {}
    assert {str(specs.lambda_resnet(depth).arguments) for depth in specs.DEPTHS} == {"{}"}


def test_specs_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        specs.lambda_resnet(50).filters = 32


def test_poolings_of_networks_that_are_not_of_timm_are_three_wide():
    """E.1; tests/weights/test_timm_golden.py has the outputs of the others."""
    others = [row.spec for row in specs.ROWS if row.source != "timm" and hasattr(row.spec, "stem")]
    assert {spec.mixer_pool_size for spec in others} == {3}
