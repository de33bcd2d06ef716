"""The published results: of the zoo's networks, counted; tables of the paper agree."""

import csv
import json
import re
from pathlib import Path

import keras
import pytest
from support.counts import counts_of_deep
from support.networks import FORMS, GOLDEN, undrawn

from lambda_keras.applications import count_flops
from lambda_keras.applications.build import GROUPS
from lambda_keras.models.specs import NETWORKS
from zoo import results
from zoo.list.__main__ import main
from zoo.registry import create_model
from zoo.results import RESULTS
from zoo.variables import trainable_parameters

IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"

pytestmark = pytest.mark.one_backend
# Those whose counts are not the registry's, which has a test of its own.
OTHERS = {
    f"{one.network} {one.arguments} {one.image_size}": one
    for one in RESULTS
    if one.arguments or one.image_size != NETWORKS[one.network].image_size
}


def of(table: str) -> list:
    return [one for one in RESULTS if one.table == table]


def test_rows_name_networks_and_their_arguments():
    assert len({str(vars(one)) for one in RESULTS}) == len(RESULTS)
    for one in RESULTS:
        row = NETWORKS[one.network]
        assert one.arguments.keys() <= {*GROUPS[row.constructor].__annotations__}
        assert one.data in (IMAGENET, PSEUDO_LABELS)
        if not one.arguments:
            assert one.parameters == row.parameters
            assert one.image_size != row.image_size or one.gflops == row.gflops


def test_counts_of_the_registry_stand_there_alone():
    """A row states a count only if its network differs from the registry's."""
    with Path(results.__file__).with_name("results.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            has_size = int(row["img_size"]) == NETWORKS[row["model"]].image_size
            assert (row["param_count"] == "") == (row["arguments"] == "")
            assert (row["gflops"] == "") == (row["arguments"] == "" and has_size)


def test_accuracy_of_the_registry_is_one_of_them():
    for row in NETWORKS.values():
        if row.source.startswith("Table"):
            same = [
                one.top1
                for one in of(row.source)
                if (one.network, one.image_size) == (row.name, row.image_size)
                and one.data == IMAGENET
                and not one.arguments
            ]
            assert same == [row.top1], row.name


def test_counts_of_golden_rows():
    keys = {"k": "key_dim", "h": "num_heads", "u": "intra_depth", "scope": "scope"}
    defaults = {"key_dim": 16, "num_heads": 4, "intra_depth": 1, "scope": 23}
    published = {str({**defaults, **one.arguments}): one for one in of("Table 9")}
    for row in GOLDEN["table9_resnet50_LLLL"]:
        one = published.pop(str({name: row[key] for key, name in keys.items()}))
        assert one.parameters == row["trainable_params"]
    assert not published
    for one, row in zip(of("Table 11"), GOLDEN["table11_resnet50_CLLL_scope"], strict=True):
        assert one.gflops == pytest.approx(row["gflops"], abs=2e-3)
    for one in of("Table 13"):
        rows = GOLDEN["table13_resnet50_224_placement"]
        row = rows[one.network.partition("_")[2].upper() or "CCCC"]
        assert one.parameters == row["trainable_params"]
        assert one.gflops == pytest.approx(row["gflops"], abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@undrawn()
def test_counts_are_those_of_the_network(name):
    one = OTHERS[name]
    family = re.sub(r"(resnet(_rs)?)(?!50)\d+", r"\1{}", one.network)
    if family in FORMS:
        names = [one.network]
        counts = counts_of_deep(family, one.image_size, names, **one.arguments)
        assert counts == {one.network: (one.parameters, pytest.approx(one.gflops, abs=1e-3))}
        return
    shape = (one.image_size, one.image_size, 3)
    model = create_model(one.network, input_shape=shape, **one.arguments)
    assert trainable_parameters(model) == one.parameters
    assert count_flops(model) / 1e9 == pytest.approx(one.gflops, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "parameters", "gflops"),
    [("EfficientNetB6", 528, 43.04, 38.14), ("EfficientNetB7", 600, 66.35, None)],
)
@undrawn()
def test_efficientnets_of_tables_5_and_15(name, size, parameters, gflops):
    """Keras' own, by our counts: 43 M and 38 GFLOPs, and 66 M."""
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3))
    assert trainable_parameters(model) / 1e6 == pytest.approx(parameters, abs=0.01)
    if gflops:
        assert count_flops(model) / 1e9 == pytest.approx(gflops, abs=0.01)


def test_command_prints_them(capsys):
    main(["lambda_resnet152*", "--results", "true"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["model", "parameters"]
    assert len(lines) == sum(one.network.startswith("lambda_resnet152") for one in RESULTS)
    assert "84  Table 15" in next(line for line in lines if "Table 15" in line)
    assert lines[0].split()[-2:] == ["0.632", "6100"]
    main(["--results", "true", "--format", "json"])
    assert json.loads(capsys.readouterr().out) == [vars(one) for one in RESULTS]
