"""Bad files of settings and run folders, which training and its neighbours refuse in one line."""

import json

import keras
import pytest
from support.commands import refuse, write
from support.lfs import LFS_POINTER, PULL

from zoo import run_folder
from zoo.config import TrainConfig

FILES = {
    "number as a key": ("1: 2", "expected `key: value` lines"),
    "number as a key of a section": ("data: {1: 2}", "data.1: Keys should be strings. Received: 1"),
    "nothing": ("", "expected `key: value` lines"),
    "two documents": ("a: 1\n--- \nb: 2", "another document"),
    "list": ("- 1", "expected `key: value` lines"),
    "pointer of Git LFS": (LFS_POINTER, PULL),
    "half a list": ("a: [", "not YAML"),
    "bytes": (b"\xff\xfe\x00", "not YAML"),
    "null character": (b"a: \x00", "special characters"),
    "code": ("data: !!python/object/apply:os.system [ls]", "python/object/apply:os.system"),
    "bomb of aliases": (
        "a: &a [x]\n" + "\n".join(f"{n}: &a{n} [{'*a, ' * 9}]" for n in range(9)),
        "without aliases. Received: *a in line 2",
    ),
    "3000 levels of lists": ("a: " + "[" * 3000, "nested levels"),
    "megabytes": ("a: 1\n" * 1_000_000, "at most 16384 characters"),
    "misspelt setting": ("data: {bath_size: 9}", "(did you mean 'batch_size'?). Allowed: source, "),
    "misspelt section": ("dta: {}", "did you mean 'data'"),
    "dotted setting": ("model.name: resnet50", "Received: 'model.name'"),
    "setting of the library": ("_env_file: /etc/passwd", "Received: '_env_file'"),
    "another file": ("config: b.yaml", "names no other one. Received: 'c.yaml' with config='b.y"),
    "number for a section": ("data: 5", "Received: 5"),
    "number for the output": ("output_dir: 5", "output_dir: expected a path. Received: 5"),
    "null character in the output": ('output_dir: "a\\0b"', "Received: 'a\\x00b'"),
}


# Contents of the folder `run`, which training is to resume.
RUNS = {
    "other files": ({"notes.txt": ""}, "run holds other files"),
    "finished": ({"config.yaml": "{}", "metrics.json": "{}"}, "run holds a finished run"),
    "of other settings": ({"config.yaml": "data: {batch_size: 8}"}, "(data.batch_size)"),
    "settings in a folder": ({"config.yaml/a": ""}, "run holds other files"),
    "checkpoints in a file": ({"config.yaml": "{}", "checkpoints": ""}, "'run/checkpoints'"),
}

INTACT = {"class_names": ["a", "b"], "test": {"accuracy": 0.5}}
INTACT |= {"test_images": 2, "training_images": 8}
METRICS = {
    "empty": ("", "EOF"),
    "cut": (json.dumps(INTACT)[:40], "EOF"),
    "nothing in it": ("{}", "class_names: Field required"),
    "text for a number": (json.dumps(INTACT | {"test_images": "2"}), "test_images"),
    "no test images": (json.dumps(INTACT | {"test_images": 0}), "metrics.json (test_images: Input"),
    "more than all right": (json.dumps(INTACT | {"test": {"accuracy": 1.5}}), "or equal to 1"),
    "not a number": (json.dumps(INTACT | {"test": {"accuracy": float("nan")}}), "finite number"),
    "classes missing": (json.dumps(INTACT), "expected 3 class_names"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> bytes:
    """A saved network of three classes."""
    path = tmp_path_factory.mktemp("model") / run_folder.MODEL
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]).save(path)
    return path.read_bytes()


@pytest.fixture
def refused(here, capsys):
    """Writes files, then runs a command that has to refuse them and to write nothing."""

    def check(line: str, part: str, **files: str | bytes) -> None:
        write(files)
        assert part in refuse(line, capsys)

    return check


@pytest.mark.parametrize(("text", "part"), FILES.values(), ids=FILES)
def test_file_of_settings(refused, text, part):
    refused("train --config c.yaml", part, **{"c.yaml": text})


@pytest.mark.parametrize(("files", "part"), RUNS.values(), ids=RUNS)
def test_run_that_cannot_go_on(refused, files, part):
    refused("train --output_dir run", part, **{f"run/{name}": files[name] for name in files})


@pytest.mark.parametrize(("text", "part"), METRICS.values(), ids=METRICS)
def test_finished_run_with_damaged_metrics(refused, model, text, part):
    files = {run_folder.CONFIG: TrainConfig().to_yaml(), run_folder.METRICS: text}
    files[run_folder.MODEL] = model
    refused("evaluate --run run", part, **{f"run/{name}": files[name] for name in files})
