"""The published accuracies: of networks of the zoo, counted, and equal to the paper's tables."""

import csv
import inspect
import json
from pathlib import Path

import pytest
from support.networks import GOLDEN

from lambda_keras import applications
from lambda_keras.applications import count_flops
from zoo import list as command
from zoo.list import RESULTS
from zoo.registry import TABLE, create_model, trainable_parameters

IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"

pytestmark = pytest.mark.one_backend
# Of each network with its arguments, one: counts differ by the image size alone.
NETWORKS = {(one.network, str(one.arguments), one.image_size): one for one in RESULTS}


def of(table: str) -> list:
    return [one for one in RESULTS if one.table == table]


def test_rows_name_networks_and_their_arguments():
    assert len({str(vars(one)) for one in RESULTS}) == len(RESULTS)
    for one in RESULTS:
        row = TABLE[one.network]
        known = inspect.signature(getattr(applications, row.constructor)).parameters
        assert one.arguments.keys() <= known.keys()
        assert one.data in (IMAGENET, PSEUDO_LABELS)
        if not one.arguments:
            assert one.parameters == row.parameters


def test_counts_of_the_registry_stand_there_alone():
    """A row states a count only if its network differs from the registry's."""
    with Path(command.__file__).with_name("results.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            has_size = int(row["img_size"]) == TABLE[row["model"]].image_size
            assert (row["param_count"] == "") == (row["arguments"] == "")
            assert (row["gflops"] == "") == (row["arguments"] == "" and has_size)


def test_accuracy_of_the_registry_is_one_of_them():
    for row in TABLE.values():
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
        row = GOLDEN["table13_resnet50_224_placement"][
            one.network.partition("_")[2].upper() or "CCCC"
        ]
        assert one.parameters == row["trainable_params"]
        assert one.gflops == pytest.approx(row["gflops"], abs=2e-3)


@pytest.mark.very_slow
@pytest.mark.parametrize(
    "one",
    NETWORKS.values(),
    ids=[f"{name} {arguments} {size}" for name, arguments, size in NETWORKS],
)
def test_counts_are_those_of_the_built_network(one):
    shape = (one.image_size, one.image_size, 3)
    model = create_model(one.network, input_shape=shape, **one.arguments)
    assert trainable_parameters(model) == one.parameters
    assert count_flops(model) / 1e9 == pytest.approx(one.gflops, abs=1e-3)


def test_command_prints_them(capsys):
    command.main(["lambda_resnet152*", "--results", "true"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["model", "parameters"]
    assert len(lines) == sum(one.network.startswith("lambda_resnet152") for one in RESULTS)
    assert "84  Table 15" in next(line for line in lines if "Table 15" in line)
    command.main(["--results", "true", "--format", "json"])
    assert json.loads(capsys.readouterr().out) == [vars(one) for one in RESULTS]
