"""The Python of the README runs, on a small network and few images."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
# What a test has no time and no network for.
SHORTER = {
    r"LambdaResNet\d\w*": "LambdaResNet14",
    r'weights="imagenet"': "weights=None",
    r"epochs=\d+": "epochs=1",
    r'"model\.keras"': "folder / 'model.keras'",
}


@pytest.mark.one_backend
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block, tmp_path):
    for pattern, replacement in SHORTER.items():
        block = re.sub(pattern, replacement, block)
    images = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3)).astype("uint8")
    names = {"images": images, "labels": np.arange(4), "classes": 4, "folder": tmp_path}
    names["x"] = keras.Input((14, 14, 32))
    exec(compile(block, "README.md", "exec"), names)
    # Pixels in [0, 255] that were not normalised give losses of 75 and features of 64.
    if "model" in names:
        (loss,) = names["model"].history.history["loss"]
        assert 0 < loss < 5
    for features in names.get("features", {}).values():
        assert 0.1 < np.abs(features).mean() < 5


def test_there_are_blocks():
    assert len(BLOCKS) >= 3
