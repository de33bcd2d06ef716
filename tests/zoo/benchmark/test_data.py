"""`python -m zoo.benchmark data`: table and JSON; nothing is said about speed."""

import json
import subprocess
import sys

import pytest

from zoo.benchmark import data
from zoo.config import DataConfig

SETTINGS = "--model.image_size 16 --data.mixup 0.2 --width 40 --height 30 --images 6 "
SETTINGS += "--data.batch_size 4 --repeats 2 --images_per_second 1e6"
WINDOWS = "windows and flips"


def checked_rows(report, library):
    rows = [row for row in report["rows"] if row["library"] == library]
    for row in rows:
        assert row["images_per_second"] == pytest.approx(1e3 / row["cpu_ms"])
        assert len(row["rounds_ms"]) == 2
        assert min(row["rounds_ms"]) > 0
    return rows


@pytest.mark.parametrize("kept", ["", " --file png --data.cache_gb 1"])
def test_table_and_json(measure, kept):
    report, printed = measure(f"data {SETTINGS}{kept}")
    rows = checked_rows(report, "zoo")
    assert [row["part"] for row in rows] == ["files", WINDOWS, "+ mixup", "test images"]
    cores = -(-1e6 // rows[-2]["images_per_second"])
    assert f"1,000,000 training images/s take {cores:.0f} cores like these" in printed
    assert report["settings"]["data"]["mixup"] == 0.2


@pytest.mark.needs("torchvision", "timm")
def test_torchvision_and_timm_in_turn(tmp_path):
    output = tmp_path / "data.json"
    program = [sys.executable, "-m", "zoo.benchmark", "data", *SETTINGS.split()]
    settings = ["--data.randaugment_magnitude", "9", "--output", str(output)]
    subprocess.run([*program, *settings], check=True)
    report = json.loads(output.read_text())
    for library in data.RIVALS:
        rows = [row["part"] for row in checked_rows(report, library)]
        assert sorted(rows) == ["+ randaugment", "test images", WINDOWS]
        assert library in report["versions"]
    assert len(checked_rows(report, "zoo")) == 5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"augment": False}, ["decoding"]),
        ({"shift": 0.125, "random_erasing": 0.2}, ["shifts and flips", "+ random_erasing"]),
        (
            {"randaugment_magnitude": 7, "randaugment_layers": 3, "cutmix": 1, "color_jitter": 0.4},
            [WINDOWS, "+ randaugment", "+ color_jitter", "+ cutmix"],
        ),
    ],
)
def test_parts_end_with_the_settings(settings, expected):
    config = DataConfig(**settings)
    names, steps = zip(*data.parts(config), strict=True)
    assert [*names] == expected
    assert steps[-1] == config
    assert steps[0].random_erasing is steps[0].cutmix is steps[0].randaugment_magnitude is None
