"""docs/own_code.md: its blocks run as they stand, on the backend that they set."""

import re
from pathlib import Path

import keras
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "own_code.md"
BACKEND = keras.backend.backend()
BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if f'"KERAS_BACKEND"] = "{BACKEND}"' in block
]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block, here):
    names: dict = {}
    exec(compile(block, str(PAGE), "exec"), names)
    assert all(path.stat().st_size for path in here.iterdir())
    if (loss := names.get({"jax": "value", "torch": "loss"}[BACKEND])) is not None:
        assert 0 < loss.item() < 2.3  # of the third step on one batch
