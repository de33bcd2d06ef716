"""Parameters and FLOPs of detectors; those of the Model Garden's heads are counted by hand."""

import pytest
from support.backends import counts_memory
from support.detectors import drawn, sharded  # noqa: F401

from tools import detection_cost as cost
from zoo.detection.shards import DESCRIPTION, Dataset, Part
from zoo.registry import create_model
from zoo.variables import trainable_parameters

SIZE, IDS = 128, 90
CHANNELS = (24, 32, 96, 320)  # of the maps of MobileNetV2
CLASSES = IDS + 1


def conv(size, inputs, outputs):
    return size * size * inputs * outputs


@pytest.mark.slow
def test_heads_by_hand():
    parts = cost.count("mobilenet_v2", SIZE, IDS)
    areas = [(SIZE // 2**level) ** 2 for level in range(2, 7)]
    everywhere = sum(areas)
    lateral = sum(area * conv(1, c, 256) for area, c in zip(areas, CHANNELS, strict=False))
    assert parts["pyramid"].flops == 2 * (lateral + everywhere * conv(3, 256, 256))
    # An anchor of each of three shapes: a score and four numbers of a box.
    proposals = conv(3, 256, 256) + conv(1, 256, 3) + conv(1, 256, 12)
    assert parts["proposals"].flops == 2 * everywhere * proposals
    dense = 49 * 256 * 1024 + 1024 * CLASSES + 1024 * 4 * CLASSES
    assert parts["boxes"].flops == 2 * 1000 * (49 * 4 * conv(3, 256, 256) + dense)
    inside, outside = 4 * conv(3, 256, 256) + conv(2, 256, 256), 4 * conv(1, 256, CLASSES)
    assert parts["masks"].flops == 2 * 100 * 196 * (inside + outside)
    # Biases of the last layers; scales and offsets of batch normalizations after the others.
    others = 4 * conv(3, 256, 256) + 2 * (4 * 256 + 1024) + 4 * 256 + 1024
    assert parts["boxes"].parameters == dense + 5 * CLASSES + others
    network = create_model("mobilenet_v2", include_top=False, input_shape=(SIZE, SIZE, 3))
    last = 320 * 1280 + 2 * 1280  # a convolution after c5
    assert parts["backbone"].parameters == trainable_parameters(network) - last


@pytest.fixture
def asked(monkeypatch) -> list:
    """Whether masks were asked for, of networks that are not built."""
    asked: list = []
    parts = {"backbone": cost.Cost(3, 4), "x": cost.Cost(5, 6)}
    monkeypatch.setattr(cost, "time_step", lambda *of: asked.append(of[-1]) or (1.0, None))
    monkeypatch.setattr(cost, "count", lambda *of: asked.append(of[-1]) or parts)
    return asked


@pytest.mark.usefixtures("asked")
def test_command_prints_a_table(capsys):
    names = ["lambda_resnet50", "mobilenet_v2"]
    cost.main([*names, "--image_size", "128"])
    rows = [f"| {name} | 0.00 | 0.00 | 0.00 | 0.00 |" for name in names]
    assert capsys.readouterr().out.splitlines()[-2:] == rows


@pytest.mark.parametrize(
    ("arguments", "in_shards", "expected"),
    [
        ([], None, True),
        (["--masks", "false"], None, False),
        (["--dir", "."], True, True),
        (["--dir", "."], False, False),
        (["--dir", ".", "--masks", "false"], True, False),
        (["--dir", ".", "--masks", "true"], False, None),
    ],
)
def test_masks_are_those_of_the_data(asked, here, capsys, arguments, in_shards, expected):
    if in_shards is not None:
        part = Part(images=1, objects=1)
        described = Dataset(categories={1: "a"}, train=part, val=part, masks=in_shards)
        (here / DESCRIPTION).write_text(described.model_dump_json())
    if expected is None:
        with pytest.raises(ValueError, match=r"masks: expected shards with masks\. Received: '\."):
            cost.main(["mobilenet_v2", *arguments])
        return
    cost.main(["mobilenet_v2", *arguments])
    assert set(asked) == {expected}
    assert capsys.readouterr().out.startswith("Mask" if expected else "Faster")


@pytest.mark.slow
def test_step_on_shards_without_masks(sharded, capsys):  # noqa: F811
    options = ["--image_size", "64", "--dir", str(sharded), "--batch_size", "1", "--masks", "no"]
    cost.main(["mobilenet_v2", *options])
    title, head, _, row = capsys.readouterr().out.splitlines()
    assert title.startswith("Faster R-CNN")
    assert "masks" not in head
    assert head.endswith("| s / step | GB |")
    seconds, memory = row.strip("| ").split(" | ")[-2:]
    assert float(seconds) > 0
    # More than its weights.
    assert 0.05 < float(memory) < 8 if counts_memory() else memory == "-"
