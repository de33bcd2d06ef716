"""timm's published results in the documentation: all are there, as its files have them."""

import csv
from itertools import product

import pytest

from docs._extensions.timm import DEVICES, FILE, RESULTS, TEST_SETS, compare, section
from lambda_keras.models.specs import NETWORKS

pytestmark = pytest.mark.one_backend

LAMBDA_26, LAMBDA_50 = "lambda_resnet26t", "lambda_resnet50ts"
ATTENTION = {LAMBDA_26: ("botnet26t_256", "halonet26t"), LAMBDA_50: ("halonet50ts",)}
NAMES = {*ATTENTION, "lambda_resnet26rpt_256", *ATTENTION[LAMBDA_26], *ATTENTION[LAMBDA_50]}
VALUES = {(one.network, one.measured): one.value for one in RESULTS}
MEASURED = dict.fromkeys(one.measured for one in RESULTS)
ROWS = list(csv.DictReader(FILE.read_text("utf-8").splitlines()))


def test_timm_measured_all_of_its_networks():
    assert len(VALUES) == len(RESULTS)
    assert {one.network for one in RESULTS} == NAMES
    assert {of for quantity, of in MEASURED if quantity == "top-1, %"} == {*TEST_SETS.values()}
    for name, (quantity, of) in product(NAMES, MEASURED):
        # Those with 3-d convolutions were not measured with channels last.
        is_there = "channels last" not in of or name not in ATTENTION
        assert ((name, (quantity, of)) in VALUES) == is_there
    devices = {of.partition(",")[0] for quantity, of in MEASURED if "images/s" in quantity}
    assert devices == {*DEVICES.values()}


def test_values_are_in_range():
    for one, row in zip(RESULTS, ROWS, strict=True):
        assert int(row["img_size"]) == NETWORKS[one.network].image_size
        assert one.snapshot == "2026-08-08"
        if one.measured[0] == "top-1, %":
            assert 10 < one.value < float(row["top5"]) < 99
        else:
            # Without a GPU images come one by one.
            on_cpu = one.measured[1].startswith("Core")
            assert ("-cu" not in row["file"]) == on_cpu == (row["batch_size"] == "1")
            low, high = (10, 120) if on_cpu else (500, 13_000)
            assert low < one.value < high


def test_accuracy_of_the_weights_is_that_of_timm():
    for row in (row for row in ROWS if row["file"] in TEST_SETS):
        weights = NETWORKS[row["model"].partition(".")[0]].weights["imagenet"]
        assert weights.repository == f"timm/{row['model']}"
        assert row["file"] != "results-imagenet.csv" or weights.top1 == float(row["top1"])


def test_conditions_are_those_of_the_name_of_the_file():
    measured = {(row["file"], one.network): one for one, row in zip(RESULTS, ROWS, strict=True)}
    one = measured["benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv", LAMBDA_50]
    assert one[1:3] == (("training images/s", "RTX 3090, PyTorch 1.12, amp"), 515.16)
    file = "benchmark-infer-bf16-nchw-pt291-cu130-pro6000maxq-dynamo.csv"
    device = "RTX PRO 6000 Max-Q, PyTorch 2.9.1 compiled, bf16"
    assert measured[file, "botnet26t_256"][1:3] == (("images/s", device), 12319.93)


def test_best_of_equal_blocks_is_bold():
    head, _, first, *_ = compare(["halonet50ts", LAMBDA_26, "botnet26t_256"]).splitlines()
    assert head.endswith(f"| halonet50ts | {LAMBDA_26} | botnet26t_256 |")
    assert first == "| top-1, % | ImageNet | 81.64 | 79.13 | **79.26** |"
    # 79.126 and 79.134
    assert "| ImageNet | **79.13** | **79.13** |" in compare([LAMBDA_26, "halonet26t"])
    assert "channels last" not in compare([LAMBDA_26])


def test_section_of_a_card():
    text, speed = section(LAMBDA_26), "| images/s | RTX 5090, PyTorch 2.9.1 compiled, amp | 6,136 |"
    for part in ("2026-08-08", "256 x 256 pixels", "| top-1, % | ImageNet-R | 37.39 |", speed):
        assert part in text
    assert "**" not in text
    assert section("mobilenet_v2") == ""
