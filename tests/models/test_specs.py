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
    assert (spec.stem, spec.shortcut, spec.filters) == ("rs", "pool", 64)
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


# Networks of timm: scope, heads, poolings and activations of their published weights.
OF_26 = ("relu", ((), (), (2,), (1, 2)), (2, 2, 2, 2))
OF_50 = ("silu", ((), (4,), (2, 4, 6), (2,)), (3, 4, 6, 3))
TIMM = {
    "lambda_resnet26t": (9, *OF_26),
    "lambda_resnet26rpt_256": (None, *OF_26),
    "lambda_resnet50ts": (9, *OF_50),
    "botnet26t_256": ("global", *OF_26),
    "halonet26t": ("halo", *OF_26),
    "halonet50ts": ("halo", *OF_50),
}
HALO = {"key_dim": None, "block_size": 8, "mask_padding": False, "scale_positions": False}
ATTENTION = {
    "botnet26t_256": {"num_heads": 4, "key_dim": None, "scale_positions": False},
    "halonet26t": {**HALO, "num_heads": 8, "halo_size": 2, "strided_queries": True},
    "halonet50ts": {**HALO, "num_heads": (8, 4, 8, 8), "halo_size": 3, "strided_queries": True},
}


def test_networks_of_timm():
    """A wrong one would load the weights, whose names and shapes are the same."""
    rows = {row.name: row.spec for row in specs.ROWS if row.source == "timm"}
    assert rows.pop("resnet50_pytorch").padding == "symmetric"
    assert rows.keys() == TIMM.keys()
    for name, spec in rows.items():
        own = spec.arguments["lambda"]
        first = own["scope"] if spec.mixer == "lambda" else spec.mixer
        assert (first, spec.activation, spec.mixer_blocks, spec.blocks) == TIMM[name]
        assert (spec.mixer_pool_size, spec.stem, spec.padding) == (2, "tiered", "symmetric")
        assert (spec.shortcut, spec.filters, spec.squeeze_excitation) == ("conv", 64, (False,) * 4)
        assert spec.arguments[spec.mixer] == ATTENTION.get(name, own)
        assert own.get("use_bias", False) == (own["scope"] == 9)
    others = [row.spec for row in specs.ROWS if row.source != "timm" and hasattr(row.spec, "stem")]
    assert {spec.mixer_pool_size for spec in others} == {3}
