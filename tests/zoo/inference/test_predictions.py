"""Printed and written predictions; more in test_predict."""

import json
import os
from pathlib import Path

from zoo.cli.settings import Settings
from zoo.inference.predictions import ClassScore, describe, write_json


def test_percentages_and_bars_are_aligned():
    top = [ClassScore(3, "temple", 1.0), ClassScore(0, "a b", 0.0504), ClassScore(1, "c", 0.0)]
    assert describe(Path("a/b.jpg"), top) == (
        "a/b.jpg\n"
        "  100.0%  ##############################  temple\n"
        "    5.0%  ##                              a b\n"
        "    0.0%                                  c\n"
    )


def test_a_name_that_is_not_utf_8_is_written(tmp_path):
    photo, other = Path(os.fsdecode(b"caf\xe9.jpg")), Path("größe \x1b.jpg")
    answers = [(photo, [ClassScore(0, "\x1b", 1.0)]), (other, [])]
    write_json(Settings(), answers, tmp_path / "answers.json")
    content = (tmp_path / "answers.json").read_text("utf-8")
    assert "größe" in content
    first, second = json.loads(content)["photos"]
    assert (Path(first["photo"]), Path(second["photo"])) == (photo, other)
    assert first["top"][0]["name"] == "\x1b"
