"""The Python of the README runs, on a small network and few images."""

import re
from pathlib import Path

import keras
import networks
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
    images = networks.images(4, 16, 16, 3)
    names = {"images": images, "labels": np.arange(4), "classes": 4, "folder": tmp_path}
    names["x"] = keras.Input((14, 14, 32))
    exec(compile(block, "README.md", "exec"), names)


def test_there_are_blocks():
    assert len(BLOCKS) >= 3
