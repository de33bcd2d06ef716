"""What `fit` costs beside the steps."""

import json

import pytest

from zoo.benchmark import fit


def test_table_and_report(tmp_path, capsys):
    output = tmp_path / "fit.json"
    fit.main(
        "--image_size 8 --batch_size 2 --steps 3 --steps_per_execution [2] --repeats 1 "
        f"--output {output}".split()
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-2:]] == ["tf.function", "fit, 2 per execution"]
    rows = json.loads(output.read_text())["rows"]
    assert rows[0]["overhead"] == 0
    assert all(row["seconds_per_step"] > 0 for row in rows)
    ratio = rows[1]["seconds_per_step"] / rows[0]["seconds_per_step"]
    assert rows[1]["overhead"] == pytest.approx(ratio - 1)


def test_unknown_model():
    with pytest.raises(ValueError, match="did you mean 'lambda_resnet152'"):
        fit.main(["--model", "lambda_resnet15"])
