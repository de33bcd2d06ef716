"""The published results: of the zoo's networks, counted; tables of the paper agree."""

import csv
import json
import re
from itertools import product
from pathlib import Path

import keras
import pytest
from support.counts import counts_of_deep
from support.networks import FORMS, GOLDEN, undrawn

from lambda_keras.applications import count_flops
from lambda_keras.applications.build import GROUPS
from zoo import results
from zoo.list.__main__ import main
from zoo.registry import TABLE, create_model
from zoo.results import DEVICES, OF_TIMM, RESULTS, TEST_SETS, Accuracy, Speed, compare
from zoo.variables import trainable_parameters

IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"

pytestmark = pytest.mark.one_backend
# Those whose counts are not the registry's, which has a test of its own.
OTHERS = {
    f"{one.network} {one.arguments} {one.image_size}": one
    for one in RESULTS
    if one.arguments or one.image_size != TABLE[one.network].image_size
}

ROOT = Path(__file__).parents[2]
LAMBDA_26, LAMBDA_50 = "lambda_resnet26t", "lambda_resnet50ts"
ATTENTION = {LAMBDA_26: ("botnet26t_256", "halonet26t"), LAMBDA_50: ("halonet50ts",)}
NAMES = {*ATTENTION, "lambda_resnet26rpt_256", *ATTENTION[LAMBDA_26], *ATTENTION[LAMBDA_50]}
ACCURACIES = {(one.network, one.test_set): one.top1 for one in OF_TIMM if isinstance(one, Accuracy)}
SPEEDS = {(one.network, one.measured): one for one in OF_TIMM if isinstance(one, Speed)}


def of(table: str) -> list:
    return [one for one in RESULTS if one.table == table]


def test_rows_name_networks_and_their_arguments():
    assert len({str(vars(one)) for one in RESULTS}) == len(RESULTS)
    for one in RESULTS:
        row = TABLE[one.network]
        assert one.arguments.keys() <= {*GROUPS[row.constructor].__annotations__}
        assert one.data in (IMAGENET, PSEUDO_LABELS)
        if not one.arguments:
            assert one.parameters == row.parameters
            assert one.image_size != row.image_size or one.gflops == row.gflops


def test_counts_of_the_registry_stand_there_alone():
    """A row states a count only if its network differs from the registry's."""
    with Path(results.__file__).with_name("results.csv").open(encoding="utf-8", newline="") as file:
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


def test_timm_measured_all_of_its_networks():
    assert ACCURACIES.keys() == set(product(NAMES, TEST_SETS.values()))
    conditions = {conditions for _, conditions in SPEEDS}
    for name, one in product(NAMES, conditions):
        # Those with 3-d convolutions were not measured with channels last.
        assert ((name, one) in SPEEDS) == ("channels last" not in one[1] or name not in ATTENTION)
    assert len(OF_TIMM) == len(ACCURACIES) + len(SPEEDS)
    assert {one.device for one in SPEEDS.values()} == set(DEVICES.values())


def test_values_of_timm_are_in_range():
    for one in OF_TIMM:
        assert one.image_size == TABLE[one.network].image_size
        assert one.snapshot == "2026-08-08"
        if isinstance(one, Accuracy):
            assert 10 < one.top1 < one.top5 < 99
        else:
            # Without a GPU images come one by one.
            assert (one.cuda is None) == one.device.startswith("Core") == (one.batch_size == 1)
            low, high = (10, 120) if one.cuda is None else (500, 13_000)
            assert low < one.images_per_second < high


def test_accuracy_of_the_weights_is_that_of_timm():
    with ROOT.joinpath("zoo", "timm.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["file"] in TEST_SETS]
    for row in rows:
        weights = TABLE[row["model"].partition(".")[0]].weights["imagenet"]
        assert weights.repository == f"timm/{row['model']}"
        if row["file"] == "results-imagenet.csv":
            assert weights.top1 == float(row["top1"])


def test_conditions_are_those_of_the_name_of_the_file():
    (one,) = [one for one in SPEEDS.values() if (one.network, one.batch_size) == (LAMBDA_50, 192)]
    assert one.file == "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"
    assert (one.device, one.pytorch, one.cuda, one.compiled) == ("RTX 3090", "1.12", "11.3", False)
    assert one.measured == ("training images/s", "RTX 3090, PyTorch 1.12, amp")
    one = SPEEDS["botnet26t_256", ("images/s", "RTX PRO 6000 Max-Q, PyTorch 2.9.1 compiled, bf16")]
    assert one.file == "benchmark-infer-bf16-nchw-pt291-cu130-pro6000maxq-dynamo.csv"
    assert (one.cuda, one.images_per_second, one.batch_size) == ("13.0", 12319.93, 2048)


def test_best_of_equal_blocks_is_bold():
    head, rows = compare(["halonet50ts", LAMBDA_26, "resnet50", "botnet26t_256"], bold=True)
    assert head[2:] == ["halonet50ts", LAMBDA_26, "botnet26t_256"]
    assert rows[0] == ["top-1, %", "ImageNet", "81.64", "79.13", "**79.26**"]
    assert "**" not in str(compare([LAMBDA_26], bold=True) + compare(NAMES))
    _, rows = compare([LAMBDA_26, "halonet26t"], bold=True)
    assert rows[0][2:] == ["**79.13**"] * 2  # 79.126 and 79.134
    _, rows = compare([LAMBDA_26])
    assert not [row for row in rows if "channels last" in row[1]]


def test_command_prints_those_of_timm(capsys):
    main(["lambda_resnet26*", "--timm", "true"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == [LAMBDA_26, "lambda_resnet26rpt_256"]
    assert lines[0].split() == ["top-1,", "%", "ImageNet", "79.13", "78.96"]
    main(["--timm", "true", "--format", "json"])
    assert json.loads(capsys.readouterr().out) == [vars(one) for one in OF_TIMM]
