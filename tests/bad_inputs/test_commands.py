"""Bad input of commands that only look things up or time them, of devices, and of tpu_vm.sh."""

import subprocess
from pathlib import Path

import pytest
from support.commands import fail

from zoo.cli.main import Verb

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
MODELS = "Allowed: lambda_resnet14, lambda_resnet50, "
VM = ["--name", "t", "--zone", "z"]
JAX_POD = [*VM, "--type", "v3-32", "--backend", "jax", "--dry-run"]
BUCKET = "several hosts need --output_dir gs://BUCKET/FOLDER"
RUN_BUCKET = "run: expected --output_dir gs://BUCKET/FOLDER"
LABEL = ["--teacher", "runs/none", "--input", "none/*", "--output", "labels"]

COMMANDS = [
    ("list of no model", "list", ["lambda_resnet51"], "Received: 'lambda_resnet51', which match"),
    ("list of nothing", "list", [""], "Received: '', which match none"),
    ("list of half a class", "list", ["["], "Received: '[', which match none"),
    ("list as xml", "list", ["--format", "xml"], "'xml'. Allowed: table, json, markdown"),
    ("list without format", "list", ["--format"], "--format: expected one argument"),
    ("list perhaps", "list", ["--pretrained", "maybe"], "pretrained: Input should be a valid bool"),
    ("list misspelled", "list", ["--patern", "x"], "did you mean '--patterns'?"),
    ("list of states alone", "list", ["--state", "not"], "expected --state with --coverage true"),
    ("list of no place", "list", ["Table 99", "--coverage", "true"], "match no statement"),
    (
        "list of two kinds",
        "list",
        ["--coverage", "true", "--results", "true"],
        "expected --coverage without --results",
    ),
    ("list of timm's and the paper's", "list", ["--timm", "true", "--results", "true"], "both"),
    (
        "list of none of timm's",
        "list",
        ["resnet50", "--timm", "true"],
        "match none of lambda_",
    ),
    ("list by a file", "list", ["--config", "a.yaml"], "Received: 'a.yaml', not found"),
    ("flops of nothing", "flops", [], "the following arguments are required: MODEL"),
    ("flops of no name", "flops", [""], f"Received: ''. {MODELS}"),
    ("flops of no model", "flops", ["resnet5"], "'resnet5' (did you mean 'resnet50'?)"),
    ("flops of two", "flops", ["resnet50", "resnet101"], "no such setting. Received: 'resnet101'"),
    *(
        (f"flops at {size}", "flops", ["resnet50", "--image_size", size], f"Received: '{size}'")
        for size in ("4", "-32", "32.5", "big", "1e3")
    ),
    *(
        (f"flops of {argument}", "flops", ["lambda_resnet14", "--overrides", argument], part)
        for argument, part in (
            ("scpe=7", "Received: 'scpe' (did you mean 'scope'?)"),
            ("scope=8", "Received: scope=8"),
            ("placement=CCL", "Received: placement='CCL'"),
            ("input_shape=32", "Received: input_shape=32"),
            ("classes=-1", "Received: classes=-1"),
            ("classes=many", "Received: classes='many'"),
            ("dropout_rate=2", "Received: dropout_rate=2"),
            ("scope", "overrides: expected NAME=VALUE"),
            ("[7,7]", "overrides: expected NAME=VALUE"),
            ("input_shape=[8,8]", "Received: input_shape=[8, 8]"),
        )
    ),
    ("no benchmark", "benchmark.__main__", ["lyer"], "'lyer' (did you mean 'layer'?)"),
    ("benchmark of nothing", "benchmark.__main__", [""], "no such command. Received: ''"),
    *(
        (f"{words[0]} {words[1]}{words[2]!r}", "benchmark.__main__", words, part)
        for words, part in (
            (["layer", "--sizes", "0x8x2"], "such as 56x64. Received: '0x8x2'"),
            (["layer", "--sizes", "axb"], "such as 56x64. Received: 'axb'"),
            (["layer", "--implementations", "auto,magic"], "Received: 'magic'. Allowed: auto, "),
            (["layer", "--scopes", "4"], "expected positive odd numbers. Received: 4"),
            (["layer", "--scopes", "-1"], "expected positive odd numbers. Received: -1"),
            (["layer", "--repeats", "0"], "repeats: Input should be greater"),
            (["layer", "--min_ms", "0"], "Received: '0'"),
            (["layer", "--min_ms", "nan"], "Received: 'nan'"),
            (["layer", "--min_ms", "inf"], "Received: 'inf'"),
            (["layer", "--backend", "theano"], "Received: 'theano'"),
            (["layer", "--output", "a.txt"], "file named .json. Received: 'a.txt'"),
            (["attention", "--mixers", "magic"], "Received: mixer='magic'"),
            (["attention", "--sizes", "56x24"], "divisible by 16. Received: '56x24'"),
            (["attention", "--sizes", "axb"], "such as 56x64. Received: 'axb'"),
            (["attention", "--dense_limit_gb", "-1"], "dense_limit_gb: Input should be greater"),
            (["attention", "--batch", "0"], "batch: Input should be greater"),
            (["steps", "--lengths", "0"], "lengths.0: Input should be greater"),
            (["steps", "--lengths", "9,9"], "each once. Received: (9, 9)"),
            (["steps", "--depth", "10"], "a multiple of 4, the heads. Received: 10"),
            (["steps", "--scope", "4"], "expected positive odd numbers. Received: 4"),
            (["models", "--models", "resnet5"], "'resnet5' (did you mean 'resnet50'?)"),
            (["models", "--models", "resnet50@4"], "from 8 to 2048. Received: 'resnet50@4'"),
            (["models", "--models", ""], "expected NAME[@SIZE[xBATCH]]"),
            (["models", "--modes", "backward"], "'backward'. Allowed: forward, training"),
            (
                ["serving", "--models", "keras.ResNet50@64"],
                "networks of the zoo. Received: 'keras.",
            ),
            (["serving", "--threads", "0"], "threads: Input should be greater"),
            (["serving", "--min_ms", "inf"], "Received: 'inf'"),
        )
    ),
    ("pseudo-labels of no verb", "pseudo_label.__main__", ["lable"], "(did you mean 'label'?)"),
    *(
        (f"label {' '.join(words)}", "pseudo_label.__main__", ["label", *LABEL, *words], part)
        for words, part in (
            (
                [],
                "teacher: expected a run folder, a folder of zoo.publish (with lambda_keras.json)",
            ),
            (["--teacher", "hf://x"], "teacher: expected hf://OWNER/NAME or hf://OWNER/NAME@REV"),
            (["--teacher", "s3://x/y"], "teacher: expected a path, or one in a bucket, gs://"),
            (["--input", ""], "input: String should have at least 1 character"),
            (["--runner", "beam"], "'beam'. Allowed: local, direct, dataflow, flink, spark"),
            (["--runner", "direct"], "apache_beam is not installed: pip install 'SOURCE[pseudo]'"),
            (["--beam", "region=x"], "beam: expected none with --runner local"),
            (["--beam", "region"], "beam: expected NAME=VALUE"),
            (["--batch_size", "0"], "batch_size: Input should be greater"),
            (["--range_size", "-1"], "range_size: Input should be greater"),
            (["--top_k", "0"], "top_k: Input should be greater"),
            (["--temperature", "0"], "temperature: Input should be greater"),
            (["--temperature", "inf"], "temperature: Input should be a finite number"),
            (["--damaged", "keep"], "'keep'. Allowed: refuse, skip"),
            (["--teachr", "runs/x"], "(did you mean '--teacher'?)"),
        )
    ),
    *(
        (f"train {' '.join(words)}", "train.__main__", words, part)
        for words, part in (
            (["--strategy", "gpu"], "Received: 'gpu' (did you mean 'tpu'?)"),
            (["--strategy"], "--strategy: expected one argument"),
            (["--strategy", "tpu"], "no TPU found; name one with --tpu NAME or TPU_NAME"),
            (["--strategy", "mirrored"], "expected two or more devices. Received: /device:CPU:0"),
            (["--strategy", "multi_worker"], "expected TF_CONFIG in the environment"),
            (["--strategy", "mirrored", "--tpu", "t"], "strategy=mirrored. Received: 't'"),
            (["--tpu"], "--tpu: expected one argument"),
            (["--tpu="], "tpu: String should have at least 1 character. Received: ''"),
        )
    ),
]
TPU_VM = [
    ("no command", [], "expected a command: run, create, status"),
    ("no name", ["create", "--zone", "z"], "--name: expected the name"),
    ("no zone", ["create", "--name", "t"], "--zone: expected a zone"),
    ("name without value", ["create", "--name"], "--name: expected a value"),
    ("option for a name", ["create", "--name", "--zone", "z"], "--name: expected a value"),
    ("empty name", ["create", *VM, "--name", ""], "--name: expected a value"),
    ("name for a shell", ["stop", *VM, "--name", "t;ls"], "a-z, 0-9 and -. Received: t;ls"),
    ("name of two lines", ["stop", *VM, "--name", "t\nls"], "a-z, 0-9 and -. Received: t?ls"),
    ("name like an option", ["stop", *VM, "--name", "-t"], "a-z, 0-9 and -. Received: -t"),
    ("zone for a shell", ["stop", *VM, "--zone", "$(ls)"], "europe-west4-a. Received: $(ls)"),
    ("torch", ["create", *VM, "--backend", "torch"], "tensorflow or jax. Received: torch"),
    ("type without cores", ["create", *VM, "--type", "v3"], "such as v3-8. Received: v3"),
    ("type of no cores", ["create", *VM, "--type", "v3-0"], "such as v3-8. Received: v3-0"),
    ("type of the future", ["create", *VM, "--type", "v99-8"], "such as v3-8. Received: v99-8"),
    ("type of seven cores", ["run", *VM, "--type", "v4-7"], "such as v3-8. Received: v4-7"),
    ("octal type", ["create", *VM, "--type", "v3-08"], "such as v3-8. Received: v3-08"),
    ("two commands", ["create", "delete", *VM], "expected one command. Received: create and del"),
    ("no such command", ["resize", *VM], "expected a command or an option. Received: resize"),
    ("no such option", ["create", *VM, "--preemptible"], "Received: --preemptible"),
    ("delete with arguments", ["delete", *VM, "--", "x"], "expected no arguments. Received: x"),
    ("train without", ["train", *VM, "--dry-run"], "expected the arguments of zoo.train after --"),
    ("own folder of a host", ["train", *JAX_POD, "--", "--output_dir", "runs/x"], BUCKET),
    *(
        (f"run to {place}", ["run", *VM, "--dry-run", "--", "--output_dir", place], RUN_BUCKET)
        for place in ("gs://", "gs:///x", "gs://b", "gs://b/", "gs://B/x", "runs/x")
    ),
    ("bucket without a name", ["train", *JAX_POD, "--", "--output_dir=gs:///x"], BUCKET),
    ("no folder of a host", ["train", *JAX_POD, "--", "--config", "a.yaml"], BUCKET),
    ("no gcloud", ["create", *VM], "gcloud is not installed: https://"),
]


@pytest.fixture
def nothing_written(tmp_path, monkeypatch):
    """The current folder, which has to stay empty."""
    for name in ("TPU_NAME", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "arguments", "part"),
    [row[1:] for row in COMMANDS],
    ids=[row[0] for row in COMMANDS],
)
def test_command(nothing_written, monkeypatch, capsys, command, arguments, part):
    verb = Verb(command.removesuffix(".__main__"))
    line = fail(verb, monkeypatch, capsys, *arguments)
    assert part in line


@pytest.mark.parametrize(
    ("arguments", "part"), [row[1:] for row in TPU_VM], ids=[row[0] for row in TPU_VM]
)
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
