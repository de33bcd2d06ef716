"""Teachers and students of several seeds: commands, resumption, verdicts."""

import itertools
import json
from pathlib import Path

import pytest
from support.commands import write

from tools import noisy_student as module
from tools.noisy_student import main, verdicts


@pytest.fixture
def commands(monkeypatch):
    """The commands that were run, which write accuracies that grow with each student."""
    found = []

    def command(verb, *arguments):
        found.append(" ".join(map(str, (verb, *arguments))))
        named = dict(itertools.pairwise(map(str, arguments)))
        if verb == "train":
            write({f"{named['--output_dir']}/metrics.json": {"training_seconds": 90}})
        elif verb == "evaluate":
            run = Path(named["--run"])
            top1 = 0.7 if run.name in ("teacher", "student_2") else 0.6
            report = {"top1": top1 + int(run.parent.name[-1]) / 1000}
            report["calibration"] = {"temperature": 0.5 + top1}
            write({f"{named['--output']}/evaluation.json": report})
        elif verb == "pseudo_label select":
            write({f"{named['--output']}/select.json": {}})

    monkeypatch.setattr(module, "run_verb", command)
    return found


def test_commands_and_results(commands, tmp_path, capsys):
    output = tmp_path / "results.json"
    arguments = ["--folder", str(tmp_path / "runs"), "--output", str(output)]
    main([*arguments, "--labeled", "100", "--images", "500", "--epochs", "3"])
    of_seed = [one.replace(f"{tmp_path}/runs/seed1", "RUNS") for one in commands if "seed1" in one]
    train = "train --config lambda_resnet14_fashion_mnist --training.seed 1 --output_dir RUNS/{} "
    train += "--data.train_split train[100:180] --data.test_split train[180:200] "
    train += "--training.epochs 3 --training.steps_per_execution 1 --model.overrides filters=8{}"
    noise = ",dropout_rate=0.2,stochastic_depth_rate=0.1"
    evaluate = "evaluate --run RUNS/{0} --data.test_split {1} {2}--output RUNS/{0}/{3}"
    label = "pseudo_label label --teacher RUNS/{} --input tfds:fashion_mnist:train[-500:] "
    label += "--temperature {} --output RUNS/{}"
    select = "pseudo_label select --input RUNS/labels{0} --output RUNS/selected{0} --per_class 50 "
    select += "--hamming 0 --exclude tfds:fashion_mnist:train[100:200],tfds:fashion_mnist:test"

    def network(name, more):
        yield train.format(name, more)
        yield evaluate.format(name, "train[180:200]", "--calibrate true ", "calibration")
        yield evaluate.format(name, "test", "", "test")

    assert of_seed == [
        *network("teacher", ""),
        *network("noise_alone", noise),
        label.format("teacher", "1.200", "labels1"),
        select.format(1),
        *network("student_1", f"{noise} --data.pseudo.dir RUNS/selected1"),
        label.format("student_1", "1.100", "labels2"),
        select.format(2),
        *network("student_2", f"{noise} --data.pseudo.dir RUNS/selected2"),
    ]
    rows = json.loads(output.read_text("utf-8"))["rows"]
    runs = [one for one in rows if one["kind"] == "run"]
    assert {one["minutes"] for one in runs} == {1.5}
    assert [one["accuracy"] for one in runs[4:8]] == pytest.approx([70.1, 60.1, 60.1, 70.1])
    assert [(one["claim"], one["verdict"]) for one in rows if one["kind"] == "claim"] == [
        ("student 1 > teacher", "contradicted"),
        ("student 1 > noise alone", "no difference found"),
        ("student 2 > teacher", "no difference found"),
        ("student 2 > noise alone", "supported"),
        ("student 2 > student 1", "supported"),
    ]
    assert "| student 2 > student 1 | 3 |" in capsys.readouterr().out


def test_finished_parts_are_not_repeated(commands, tmp_path):
    arguments = ["--folder", str(tmp_path), "--output", str(tmp_path / "r.json"), "--seeds", "4"]
    main(arguments)
    commands.clear()
    run = tmp_path / "seed4" / "student_1"
    run.rename(tmp_path / "gone")
    main(arguments)
    assert [one.split()[0] for one in commands] == ["train", "evaluate", "evaluate"]
    assert f"--output_dir {run} " in commands[0]


def test_two_seeds_decide_nothing():
    names = ("teacher", "noise alone", "student 1")
    runs = [{"network": n, "seed": s, "accuracy": 70.0 + s} for n in names for s in (0, 1)]
    assert verdicts(runs) == []
