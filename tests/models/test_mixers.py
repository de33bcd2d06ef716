"""The layers that take the place of 3x3 convolutions, in whole networks."""

import json
from pathlib import Path

import networks
import pytest

from lambda_keras.applications import ResNet50
from zoo import flops

GOLDEN = json.loads((Path(__file__).parents[1] / "golden_baselines.json").read_text("utf-8"))
# Rows of the file: mixers, and other arguments.
ROWS = {
    "lambda k16 h4 scope23": {"mixer": "lambda"},
    "lambda content only": {"mixer": "content"},
    "local_7x7_h8": {"mixer": "local"},
    "global_relative_h8": {"mixer": "global"},
    "global_relative_h4": {"mixer": "global", "num_heads": 4},
    "halo_block7_halo3_h8": {"mixer": "halo"},
    "axial_position_sensitive_h8": {"mixer": "axial"},
    "linear_h8 (elu+1 or softmax)": {"mixer": "linear"},
    "performer_h8_m256": {"mixer": "favor"},
}


def counts_by_stage(**arguments) -> dict[str, tuple[int, int]]:
    """Trainable parameters and operations of the layers whose names begin with `"c4"`, ...."""
    model = ResNet50(input_shape=(224, 224, 3), **arguments)
    operations = flops.count_flops(model)
    counts: dict[str, tuple[int, int]] = {}
    for layer in model.layers:
        stage = layer.name.split("_")[0]
        parameters, _ = counts.get(stage, (0, 0))
        parameters += networks.trainable_parameters(layer)
        counts[stage] = parameters, sum(operations.get(stage, {}).values())
    return counts


@pytest.mark.one_backend
def test_counts_of_resnet50(monkeypatch):
    """Every row and placement: a stage has the same layers whatever the others are made of."""
    networks.skip_drawing(monkeypatch)
    convolutions, counts, expected = counts_by_stage(), {}, {}
    for row, arguments in ROWS.items():
        mixed = counts_by_stage(placement="LLLL", **arguments)
        for placement, golden in GOLDEN[row].items():
            with_mixer = [n for n, x in zip(networks.STAGES, placement, strict=True) if x == "L"]
            stages = [(mixed if n in with_mixer else convolutions)[n] for n in convolutions]
            parameters, operations = (sum(column) for column in zip(*stages, strict=True))
            counts[row, placement] = parameters, round(operations / 1e9, 2)
            expected[row, placement] = golden["params"], golden["gflops"]
    assert counts == expected
    assert len(counts) == 36
