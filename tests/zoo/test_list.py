"""The table of the models."""

import json
import re
import shlex
from pathlib import Path

import pytest

from lambda_keras.models.specs import NETWORKS
from zoo.list.__main__ import main
from zoo.registry import find_model

ROOT = Path(__file__).parents[2]


def listed(capsys, *arguments: str) -> str:
    main(arguments)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("resnet50 lambda_resnet26* --pretrained true", "lambda_resnet26t lambda_resnet26rpt_256"),
        ("lambda_resnet[5-9]0", "lambda_resnet50"),  # as of shells
        ("", " ".join(NETWORKS)),
    ],
)
def test_patterns_and_pretrained(capsys, words, names):
    head, *lines = listed(capsys, *words.split()).splitlines()
    assert head.split()[:2] == ["model", "parameters"]
    assert [line.split()[0] for line in lines] == names.split()
    assert "--pre" not in words or {line.split()[-1] for line in lines} == {"imagenet"}
    assert max(map(len, lines)) < 140
    assert listed(capsys, "resnet_rs101").endswith(" imagenet-i192 imagenet-i160\n")


def test_json_has_every_field(capsys):
    (row,) = json.loads(listed(capsys, "resnet50_ccll", "--format", "json"))
    assert row["constructor"] == "ResNet50"
    assert row["arguments"] == {"placement": "CCLL"}
    assert row["parameters"] == find_model("resnet50_ccll").parameters
    assert row["weights"] == {}
    (row,) = json.loads(listed(capsys, "lambda_resnet50ts", "--format", "json"))
    assert row["weights"]["imagenet"]["repository"] == "timm/lambda_resnet50ts.a1h_in1k"


def test_readme_has_the_table_of_the_command_beside_it(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = r"<!-- python -m zoo\.list (.*?) -->\n(.*?)<!-- end -->"
    ((arguments, table),) = re.findall(pattern, text, re.DOTALL)
    assert listed(capsys, *shlex.split(arguments)) == table
