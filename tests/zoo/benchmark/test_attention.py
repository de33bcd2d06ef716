"""`python -m zoo.benchmark attention`: theory, tables, JSON, picture; nothing about speed."""

import json
import pickle
import sys

import pytest
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark import attention, fresh
from zoo.benchmark.attention import Config, MixerLayer
from zoo.benchmark.mixers import MAPS, NETWORKS, SEQUENCES
from zoo.benchmark.settings import FORWARD, FORWARD_BACKWARD, OUT_OF_MEMORY, TRAINING


@pytest.fixture
def calls(monkeypatch):
    """Arguments and limits of new processes, whose work is done in this process."""
    asked = []

    def call(function, *arguments, environment, limits):
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        subject, mode, _ = arguments
        asked.append((subject.name, mode, limits, environment["KERAS_BACKEND"]))
        if subject.name == "global":
            return {"reason": "ResourceExhaustedError: OOM when allocating tensor"}
        return function(*arguments)

    monkeypatch.setattr(fresh, "call", call)
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH"):
        monkeypatch.setenv(name, "false")
    return asked


def test_tables_json_and_picture(calls, tiny_networks, tmp_path, capsys):
    output = tmp_path / "new" / "attention.json"
    settings = "--maps 7x32 --growth 8x32x2 --sequences 64x32 --batch 3 --image_size 32"
    settings += " --mixers global,dot_product,lambda_k8 --repeats 2 --min_ms 0.1"
    command.main(["attention", *settings.split(), "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    found = [
        (row.get("part"), row.get("size"), row["mixer"] if "mixer" in row else row["entry"])
        for row in report["rows"]
    ]
    both = ("lambda", "global")
    resnet = "resnet50@32:placement=LLLL:mixer="
    kinds = ("lambda", "global", "lambda:key_dim=8")
    assert found == [
        *((part, size, name) for part, size in (("maps", 7), ("growth", 8)) for name in both),
        *(("sequences", 64, name) for name in ("lambda", "dot_product")),
        *((None, None, resnet + kind) for kind in kinds),
    ]
    for row in report["rows"]:
        network = "entry" in row
        for mode in (FORWARD, TRAINING if network else FORWARD_BACKWARD):
            figures = row[mode]
            if row.get("mixer") == "global" and row["part"] != "maps":
                assert figures["reason"].startswith(f"{OUT_OF_MEMORY}: ResourceExhaustedError")
                assert (figures["ms"], figures["ratio"]) == (None, None)
                continue
            assert figures["reason"] is None
            assert len(figures["rounds_ms"]) == 2
            assert figures["temporary_bytes"] >= 0
            first = next(
                one for one in report["rows"] if one.get("part") == row.get("part")
                and one.get("size") == row.get("size")
            )  # fmt: skip
            assert figures["ratio"] == pytest.approx(figures["ms"] / first[mode]["ms"])
    assert report["rows"][1]["theory_bytes"] == 4 * 3 * 8 * 49**2
    assert report["rows"][-3][FORWARD]["published"] == 1160
    assert report["rows"][-1][FORWARD]["published"] == 1640
    assert report["rows"][-1][TRAINING]["published"] is None
    theory = {row["mixer"]: row for row in report["theory"]}
    assert theory.keys() == NETWORKS.keys()
    assert theory["global"]["output_gib"] == pytest.approx(122.8, abs=0.05)
    assert theory["global"]["published_gb"] == 120
    assert "growth, 8x8, depth 32, batch 2, forward + backward" in printed
    assert printed.count(f"- global: {OUT_OF_MEMORY}") == 2
    assert {limits for _, _, limits, _ in calls} == {fresh.Limits(300, 8)}
    assert {backend for *_, backend in calls} == {"tensorflow"}
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > 2 * 500
        assert picture.height > 4 * 400


def test_parts_without_growth_have_no_picture(calls, tmp_path):
    output = tmp_path / "attention.json"
    settings = "--parts maps --maps 4x16x1 --mixers linear --modes forward --memory false"
    settings += f" --repeats 1 --min_ms 0.1 --output {output}"
    command.main(["attention", *settings.split()])
    rows = json.loads(output.read_text())["rows"]
    assert [row["mixer"] for row in rows] == ["lambda", "linear"]
    assert all(FORWARD in row and FORWARD_BACKWARD not in row for row in rows)
    assert not calls
    assert [path.name for path in tmp_path.iterdir()] == ["attention.json"]


@pytest.mark.very_slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_what_needs_too_much_memory_is_marked_and_the_others_go_on(tmp_path, capsys):
    # A map of attention takes 0.54 GB, and its softmax needs another one.
    settings = "--parts growth --growth 64x16x1 --mixers global --modes forward --repeats 1"
    output = tmp_path / "attention.json"
    command.main(
        [
            "attention",
            *settings.split(),
            "--limit_gb",
            "1.5",
            "--seconds",
            "500",
            "--output",
            str(output),
        ]
    )
    found = {row["mixer"]: row[FORWARD] for row in json.loads(output.read_text())["rows"]}
    assert found["lambda"]["reason"] is None
    assert found["lambda"]["ms"] > 0
    assert found["global"]["ms"] is None
    assert found["global"]["reason"].startswith(OUT_OF_MEMORY)
    assert f"- global: {OUT_OF_MEMORY}" in capsys.readouterr().out
    assert output.with_suffix(".png").is_file()


@pytest.mark.parametrize("part", ["maps", "sequences"])
def test_every_mixer_has_the_shape_of_its_inputs(part):
    for name in SEQUENCES if part == "sequences" else MAPS:
        subject = MixerLayer(name, part, size=6, depth=16, batch=2)
        layer = subject.build()
        assert layer.compute_output_shape(subject.input_shape) == subject.input_shape


def test_lambda_is_always_measured_and_first():
    def names(part, **settings):
        return [[layer.name for layer in layers] for layers in Config(**settings).layers(part)]

    assert names("maps", maps=("7x16", "4x16"), mixers=("axial",)) == [["lambda", "axial"]] * 2
    assert names("sequences", sequences=("64x16",)) == [list(SEQUENCES)]
    assert names("growth", growth=("8x16",), mixers=("dot_product",)) == [["lambda"]]
    assert list(Config().networks()) == list(NETWORKS)


def test_sizes_of_the_maps_of_a_resnet50():
    layers = [layers[0] for layers in Config(batch=4).layers("maps")]
    assert [(layer.size, layer.depth, layer.batch) for layer in layers] == [
        (56, 64, 4), (28, 128, 4), (14, 256, 4), (7, 512, 4)
    ]  # fmt: skip
    growth = [layers[0].size for layers in Config().layers("growth")]
    assert (growth[0], growth[-1]) == (14, 128)
    lengths = [layers[0].size for layers in Config().layers("sequences")]
    assert (lengths[0], lengths[-1]) == (1024, 65536)


def test_what_was_not_measured_has_no_ratio():
    figures = {"lambda": {"ms": 4.0}, "global": {"ms": None}, "linear": {"ms": 2.0}}
    attention.compare(FORWARD, figures)
    assert [found["ratio"] for found in figures.values()] == [1, None, 0.5]
    figures = {"lambda": {"ms": None}, "linear": {"ms": 2.0}}
    attention.compare_networks(8, {"lambda": 1160, "linear": None}, FORWARD, figures)
    assert figures["lambda"] == {
        "ms": None, "ratio": None, "images_per_second": None, "published": 1160
    }  # fmt: skip
    assert figures["linear"]["images_per_second"] == 4000
    assert figures["linear"]["ratio"] is None


def test_memory_is_limited_on_linux_only(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match=r"--limit_gb: expected Linux.*Received: darwin"):
        command.main(["attention"])
