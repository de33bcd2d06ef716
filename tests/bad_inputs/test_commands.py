"""Bad input of commands that only look things up or time them, of devices, and of tpu_vm.sh."""

import shlex
import subprocess
from pathlib import Path

import pytest
from support.commands import fail, present

from zoo.cli.main import Verb

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
VM = ["--name", "t", "--zone", "z"]
JAX_POD = [*VM, "--type", "v3-32", "--backend", "jax", "--dry-run"]
BUCKET = "several hosts need --output_dir gs://BUCKET/FOLDER"
RUN_BUCKET = "run: expected --output_dir gs://BUCKET/FOLDER"
LABEL = "--teacher runs/none --input 'none/*' --output labels"

# Command lines that are refused, and a part of the message.
COMMANDS = [
    ("list ''", "patterns: String should have at least 1 character. Received: ''"),
    ("list '['", "Received: '[', which match none"),
    ("list --format xml", "'xml'. Allowed: table, json, markdown"),
    ("list --format", "--format: expected one argument"),
    ("list --pretrained maybe", "pretrained: Input should be a valid bool"),
    ("list --timm true --results true", "both"),
    ("list resnet50 --timm true", "match none of lambda_"),
    ("list --config a.yaml", "Received: 'a.yaml', not found"),
    ("flops", "the following arguments are required: MODEL"),
    ("flops ''", "model: String should have at least 1 character. Received: ''"),
    ("flops resnet5", "'resnet5' (did you mean 'resnet50'?)"),
    ("flops resnet50 resnet101", "no such setting. Received: 'resnet101'"),
    ("flops resnet50 --image_size 4", "Received: '4'"),
    ("flops resnet50 --image_size 1e3", "Received: '1e3'"),
    ("flops lambda_resnet14 --overrides scpe=7", "Received: 'scpe' (did you mean 'scope'?)"),
    ("flops lambda_resnet14 --overrides scope=8", "Received: scope=8"),
    ("flops lambda_resnet14 --overrides placement=CCL", "Received: placement='CCL'"),
    ("flops lambda_resnet14 --overrides input_shape=32", "Received: input_shape=32"),
    ("flops lambda_resnet14 --overrides classes=-1", "Received: classes=-1"),
    ("flops lambda_resnet14 --overrides classes=many", "Received: classes='many'"),
    ("flops lambda_resnet14 --overrides dropout_rate=2", "Received: dropout_rate=2"),
    ("flops lambda_resnet14 --overrides scope", "overrides: expected NAME=VALUE"),
    ("flops lambda_resnet14 --overrides '[7,7]'", "overrides: expected NAME=VALUE"),
    ("flops lambda_resnet14 --overrides 'input_shape=[8,8]'", "Received: input_shape=[8, 8]"),
    ("benchmark layer --scopes -1", "expected positive odd numbers. Received: -1"),
    ("benchmark layer --min_ms 0", "Received: '0'"),
    ("benchmark steps --lengths 9,9", "each once. Received: (9, 9)"),
    ("benchmark steps --depth 10", "depth: Input should be a multiple of 4. Received: '10'"),
    ("benchmark steps --scope 4", "expected positive odd numbers. Received: 4"),
    (
        "pseudo_label label LABEL",
        "teacher: expected a run folder, a folder of zoo.publish (with lambda_keras.json)",
    ),
    (
        "pseudo_label label LABEL --teacher hf://x",
        "teacher: expected hf://OWNER/NAME or hf://OWNER/NAME@REV",
    ),
    (
        "pseudo_label label LABEL --teacher s3://x/y",
        "teacher: expected a path, or one in a bucket, gs://",
    ),
    ("pseudo_label label LABEL --input ''", "input: String should have at least 1 character"),
    (
        "pseudo_label label LABEL --runner beam",
        "'beam'. Allowed: local, direct, dataflow, flink, spark",
    ),
    (
        "pseudo_label label LABEL --runner direct",
        "apache_beam is not installed: pip install 'SOURCE[pseudo]'",
    ),
    ("pseudo_label label LABEL --beam region=x", "beam: expected none with --runner local"),
    ("pseudo_label label LABEL --beam region", "beam: expected NAME=VALUE"),
    ("pseudo_label label LABEL --temperature inf", "temperature: Input should be a finite number"),
    ("pseudo_label label LABEL --damaged keep", "'keep'. Allowed: refuse, skip"),
    ("pseudo_label label LABEL --teachr runs/x", "(did you mean '--teacher'?)"),
    ("train --strategy gpu", "Received: 'gpu' (did you mean 'tpu'?)"),
    ("train --strategy tpu", "no TPU found; name one with --tpu NAME or TPU_NAME"),
    ("train --strategy mirrored", "expected two or more devices. Received: /device:CPU:0"),
    ("train --strategy multi_worker", "expected TF_CONFIG in the environment"),
    ("train --strategy mirrored --tpu t", "strategy=mirrored. Received: 't'"),
    ("train --tpu", "--tpu: expected one argument"),
    ("train --tpu=", "tpu: String should have at least 1 character. Received: ''"),
]
TPU_VM = [
    ([], "expected a command: run, create, status"),
    (["create", "--zone", "z"], "--name: expected the name"),
    (["create", "--name", "t"], "--zone: expected a zone"),
    (["create", "--name"], "--name: expected a value"),
    (["create", "--name", "--zone", "z"], "--name: expected a value"),
    (["create", *VM, "--name", ""], "--name: expected a value"),
    (["stop", *VM, "--name", "t;ls"], "a-z, 0-9 and -. Received: t;ls"),
    (["stop", *VM, "--name", "t\nls"], "a-z, 0-9 and -. Received: t?ls"),
    (["stop", *VM, "--name", "-t"], "a-z, 0-9 and -. Received: -t"),
    (["stop", *VM, "--zone", "$(ls)"], "europe-west4-a. Received: $(ls)"),
    (["create", *VM, "--backend", "torch"], "tensorflow or jax. Received: torch"),
    (["create", *VM, "--type", "v3"], "such as v3-8. Received: v3"),
    (["create", *VM, "--type", "v3-0"], "such as v3-8. Received: v3-0"),
    (["create", *VM, "--type", "v99-8"], "such as v3-8. Received: v99-8"),
    (["run", *VM, "--type", "v4-7"], "such as v3-8. Received: v4-7"),
    (["create", *VM, "--type", "v3-08"], "such as v3-8. Received: v3-08"),
    (["create", "delete", *VM], "expected one command. Received: create and del"),
    (["resize", *VM], "expected a command or an option. Received: resize"),
    (["create", *VM, "--preemptible"], "Received: --preemptible"),
    (["delete", *VM, "--", "x"], "expected no arguments. Received: x"),
    (["train", *VM, "--dry-run"], "expected the arguments of zoo.train after --"),
    (["train", *JAX_POD, "--", "--output_dir", "runs/x"], BUCKET),
    *(
        (["run", *VM, "--dry-run", "--", "--output_dir", place], RUN_BUCKET)
        for place in ("gs://", "gs:///x", "gs://b", "gs://b/", "gs://B/x", "runs/x")
    ),
    (["train", *JAX_POD, "--", "--output_dir=gs:///x"], BUCKET),
    (["train", *JAX_POD, "--", "--config", "a.yaml"], BUCKET),
    (["create", *VM], "gcloud is not installed: https://"),
]


@pytest.fixture
def nothing_written(here, monkeypatch):
    """The current folder, which has to stay empty."""
    for name in ("TPU_NAME", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield here
    assert not list(here.iterdir())


@pytest.mark.parametrize(("line", "part"), present(COMMANDS))
def test_command(nothing_written, capsys, line, part):
    verb, *arguments = shlex.split(line.replace("LABEL", LABEL))
    assert part in fail(Verb(verb), capsys, *arguments)


@pytest.mark.parametrize(("arguments", "part"), TPU_VM)
def test_tpu_vm(nothing_written, arguments, part):
    process = subprocess.run(
        ["/bin/bash", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        env={"PATH": str(nothing_written)},  # where there is no gcloud
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1
    assert part in process.stderr
