"""Wrong arguments of zoo.convert."""

import pytest
from support import commands

OK = ("--model", "lambda_resnet14", "--weights", "text.pth", "--output", "out.weights.h5")
COMMANDS = [
    ((), "model"),
    ((*OK, "--model", "lambda_resnet14x"), "did you mean 'lambda_resnet14'"),
    ((*OK, "--weights", "imagenet"), "weights='imagenet' of 'lambda_resnet14'"),
    *(
        ((*OK, "--weights", name), f"that exists. Received: weights='{name}'")
        for name in ("none.pth", "folder.pth", "text.zip")
    ),
    ((*OK, "--weights", "hf://a"), "'hf://owner/repo@revision'. Received: 'hf://a'"),
    ((*OK, "--weights", "text.weights.h5"), "expected an intact HDF5 weights file"),
    ((*OK, "--weights", "text.safetensors"), "expected an intact safetensors"),
    *(
        ((*OK, "--output", name), "expected a file named .weights.h5")
        for name in ("out.h5", ".weights.h5")
    ),
    ((*OK, "--output", "text.weights.h5"), "expected an output that is not"),
]


@pytest.mark.parametrize(("arguments", "part"), COMMANDS)
def test_convert(arguments, part, here, capsys):
    for name in ("text.pth", "text.zip", "text.weights.h5", "text.safetensors"):
        (here / name).write_text("text")
    (here / "folder.pth").mkdir()
    assert part in commands.refuse(" ".join(("convert", *arguments)), capsys)
