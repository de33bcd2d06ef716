"""What `fit` costs beside the steps."""

import json

import pytest

from zoo.benchmark import __main__ as command


def test_table_and_report(tiny_networks, tmp_path, capsys):
    output = tmp_path / "fit.json"
    command.main(
        "fit --image_size 8 --batch_size 2 --steps 3 --steps_per_execution [2] --repeats 1 "
        f"--output {output}".split()
    )
    rows = json.loads(output.read_text())["rows"]
    assert [row["what"] for row in rows] == ["tf.function", "fit, 2 per execution"]
    printed = capsys.readouterr().out
    assert all(row["what"] in printed for row in rows)
    assert rows[0]["overhead"] == 0
    assert all(row["seconds_per_step"] > 0 for row in rows)
    ratio = rows[1]["seconds_per_step"] / rows[0]["seconds_per_step"]
    assert rows[1]["overhead"] == pytest.approx(ratio - 1)
