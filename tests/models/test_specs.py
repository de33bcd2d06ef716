"""The networks of the paper as data."""

import dataclasses

import networks
import pytest

from lambda_keras.models import specs

FAMILY = networks.GOLDEN["resnet_rs_family"]


def test_placement_gives_all_blocks_of_a_lambda_stage():
    assert specs.placement((3, 4, 6, 3), "CCCC") == ((), (), (), ())
    assert specs.placement((3, 1, 2, 3), "LCLL") == ((1, 2, 3), (), (1, 2), (1, 2, 3))


@pytest.mark.parametrize("letters", ["", "CCC", "CCCCC", "cccc", "CCLX", "CC L", "1100"])
def test_bad_placement_raises(letters):
    with pytest.raises(ValueError, match=f"four letters C .* Received: placement='{letters}'"):
        specs.placement((3, 4, 6, 3), letters)


def test_table_18_has_all_seven_networks():
    assert set(specs.LAMBDA_RESNETS) == {f"lambda_resnet{depth}" for depth in FAMILY}


@pytest.mark.parametrize("depth", FAMILY)
def test_table_18(depth):
    spec, row = specs.LAMBDA_RESNETS[f"lambda_resnet{depth}"], FAMILY[depth]
    assert list(spec.blocks) == row["blocks"]
    every_c5_block = tuple(range(1, row["blocks"][3] + 1))
    assert spec.lambda_blocks == ((), (), tuple(row["lambda_blocks_c4"]), every_c5_block)
    assert (spec.stem, spec.shortcut, spec.filters) == ("rs", "pool", 64)
    assert spec.squeeze_excitation == (True, True, False, False)


def test_lambda_layers_have_the_hyper_parameters_of_the_paper():
    for spec in specs.LAMBDA_RESNETS.values():
        assert dataclasses.asdict(spec.lambda_layer) == {
            "num_heads": 4,
            "key_dim": 16,
            "intra_depth": 1,
            "scope": 23,
        }


def test_specs_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        specs.LAMBDA_RESNETS["lambda_resnet50"].filters = 32
