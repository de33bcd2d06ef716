"""README and docs: Python runs, commands run or are parsed, links lead somewhere."""

import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from support.commands import parse

from lambda_keras.models.specs import NETWORKS
from zoo.cli import commands
from zoo.cli.main import Verb
from zoo.registry import list_models

pytestmark = pytest.mark.one_backend
ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FILES}
BLOCKS = [
    pytest.param(name, block, id=f"{name}-{number}")
    for name, page in PAGES.items()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    # tests/test_own_code.py runs those with a backend, tests/test_readme.py those of the README.
    if "KERAS_BACKEND" not in block and name != "README.md"
    if "train.csv" not in block  # which tests/zoo/data/sources/test_image_folder.py runs
]
# Commands that take too long for a test, or need a network.
SHORTER = {
    r"LambdaResNet\d\w*": "LambdaResNet14",
    r'weights="imagenet"': "weights=None",
    r"epochs=\d+": "epochs=1",
    r'"model\.keras"': "folder / 'model.keras'",
    r'"runs/mine/model\.weights\.h5"': "None",
    r'"exported"': "folder / 'exported'",
    r'"photo\.jpg"': "photo",
    r"tpu = tf.*": "",  # the default strategy in place of a TPU's
    r"tf\.distribute\.TPUStrategy\(tpu\)": "tf.distribute.get_strategy()",
    r"160, 160": "32, 32",
    r'train\("lambda_resnet14_digits"': """train(model={"image_size": 16},
        optimizer={"warmup_epochs": 0}, training={"epochs": 1}""",
    r'"runs/digits"': "folder / 'run'",
    r'"published/mine"': "published",
    r'"http://127\.0\.0\.1:8501': 'f"{server}',
}
# Commands whose settings depend on the task.
BY_TASK = {f"zoo.{verb}" for verb, command in commands.COMMANDS.items() if len(command.places) > 1}
VARIABLES = r"(?:[A-Z_]+=\S+ )*"  # of the environment, before a command
# How each command is tested; the first pattern that fits counts.
RUN, PARSED, EXTRAS, TARGET, NOT_HERE = "run", "parsed", "extras exist", "target exists", "not here"
HOW = {
    r"python -m zoo\.\w+ --help": RUN,
    r"python -m zoo\.detection\.": PARSED,  # tests/zoo/detection trains and runs them
    r"python -m zoo\.evaluate .*--averaged false": PARSED,  # tests/zoo/evaluate has such a run
    r"python -m zoo\.(evaluate|predict) --run runs/lambda_resnet101_coco": PARSED,
    r"python -m zoo\.evaluate --run": RUN,
    r"python -m zoo\.predict --run": RUN,
    r"python -m zoo\.train": PARSED,  # trains for hours; tests/tpu_configs train a step of each
    r"python -m zoo\.export": PARSED,  # tests/zoo/export writes and asks every format
    r"python -m zoo\.(evaluate|predict) --model": PARSED,  # needs a network for the weights
    r"python -m zoo\.maps": PARSED,  # needs two runs; tests/zoo/test_maps.py has them
    r"python -m zoo\.flops": PARSED,  # tests/zoo/test_flops.py counts these networks
    r"python -m zoo\.pseudo_label": PARSED,  # tests/zoo/pseudo_label labels images
    r"python -m zoo\.publish": PARSED,  # tests/zoo/publish writes and uploads
    r"python -m zoo\.serve": PARSED,  # serves until it is stopped; tests/zoo/serve sends requests
    r"echo .* curl": NOT_HERE,  # tests/zoo/serve/test_main.py runs the line that is printed
    r"python -m zoo\.demo": PARSED,  # serves until it is stopped
    r"python -m tools\.measure_pseudo_labels": NOT_HERE,  # minutes, and Apache Beam
    r"python -m (zoo\.benchmark|tools\.)": PARSED,  # measure or draw for minutes
    r"tpu_configs/tpu_vm\.sh --help": RUN,
    r"tpu_configs/tpu_vm\.sh run": NOT_HERE,  # tests/tpu_configs/test_tpu_vm.py has a gcloud
    r"pip install torch": NOT_HERE,
    r"pip install": EXTRAS,  # needs a network
    r"pip uninstall": NOT_HERE,
    r"git clone|cd ": NOT_HERE,
    r"make": TARGET,  # CI runs them
    r"docker": NOT_HERE,  # needs docker and TensorFlow Serving
}


def how(line: str) -> str:
    """How the tests run a command."""
    return next(kind for pattern, kind in HOW.items() if re.match(VARIABLES + pattern, line))


COMMANDS = [
    pytest.param(line, id=f"{name}: {line[:70]}", marks=[pytest.mark.slow] * (how(line) == RUN))
    for name, page in PAGES.items()
    for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of a server with the network of the docs, by its name."""
    from support.serving import Colours, serving

    from zoo.serve.app import Model

    with serving(Model("lambda_resnet14", "1", [Colours()])) as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_python_runs(name, block, tmp_path, request):
    request.addfinalizer(lambda: keras.config.set_dtype_policy("float32"))
    for pattern, replacement in SHORTER.items():
        block = re.sub(pattern, replacement, block)
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype("uint8")
    names: dict = {"folder": tmp_path, "images": images, "labels": np.arange(4), "classes": 4}
    names["x"] = keras.Input((14, 14, 32))
    names |= {"pixels": images[0], "photo": tmp_path / "photo.jpg"}
    Image.fromarray(images[0]).save(names["photo"])
    if "published" in block:
        names["published"] = request.getfixturevalue("published")
    if "{server}" in block:
        names["server"] = request.getfixturevalue("server")
    exec(compile(block, "docs", "exec"), names)
    # Pixels in [0, 255] that were not normalised give losses of 75 and features of 64.
    if "model" in names:
        (loss,) = names["model"].history.history["loss"]
        assert 0 < loss < 5
    for features in names.get("maps", {}).values():
        assert 0.1 < np.abs(features).mean() < 5


# Both devices get the same images, so that their batch statistics are those of one device.
ON_TWO_DEVICES = """
import keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype("uint8")
images, labels, classes = np.tile(images, (2, 1, 1, 1)), np.tile(np.arange(4), 2), 4
one, two = tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
results, norm = [], np.linalg.norm
for policy in ("mixed_bfloat16", "float32"):
    changes = []
    for strategy in (one, two):
        keras.utils.set_random_seed(0)
BLOCK
        assert model.dtype_policy.name == policy
        trained = zip(before, model.trainable_variables)
        changes.append(np.concatenate([(b.numpy() - a).ravel() for a, b in trained]))
    results += [norm(changes[0]), norm(changes[1] - changes[0]) / norm(changes[0])]
print()  # after the bar
print(*results)
"""


@pytest.mark.slow
def test_fit_of_the_tpu_page_on_two_devices():
    """It changes the weights as on one device, to the rounding of the dtype."""
    (block,) = (str(case.values[1]) for case in BLOCKS if case.values[0] == "tpus.md")
    on_cpus = {
        **SHORTER,
        r"tf\.distribute\.TPUStrategy\(tpu\)": "strategy",
        r"model\.fit": "before = [one.numpy() for one in model.trainable_variables]\n    model.fit",
        r"batch_size=64": "batch_size=8, shuffle=False",
        r'"mixed_bfloat16"': "policy",
    }
    for pattern, replacement in on_cpus.items():
        block = re.sub(pattern, replacement, block)
    code = ON_TWO_DEVICES.replace("BLOCK", textwrap.indent(block, 8 * " "))
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    numbers = map(float, result.stdout.splitlines()[-1].split())
    change, difference, change32, difference32 = numbers
    assert min(change, change32) > 0
    assert difference < 0.05
    assert difference32 < 1e-4


@pytest.mark.parametrize("line", COMMANDS)
def test_command(line, request):
    {
        RUN: _run,
        PARSED: _parse,
        EXTRAS: _find_extras,
        TARGET: _find_target,
        NOT_HERE: lambda line, _: None,
    }[how(line)](line, request)


def test_links_lead_somewhere():
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for link in re.findall(r"\]\(([^)#]+)\)", page):
            assert link.startswith("https://") or (folder / link).exists(), f"{name}: {link}"


def test_guides_are_as_short_as_contributing_says():
    guides = (page for name, page in PAGES.items() if name != "README.md")
    prose = " ".join(re.sub(r"```.*?```", "", page, flags=re.DOTALL) for page in guides)
    assert len(prose.split()) <= 12_000


def test_every_network_has_a_card_on_one_page():
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs" / "families").iterdir())
    patterns = " ".join(re.findall(r"^```{networks} (.*)$", pages, flags=re.MULTILINE)).split()
    names = [name for pattern in patterns for name in list_models(pattern)]
    assert sorted(names) == sorted(NETWORKS)


def test_configurations_have_the_names_by_which_a_wheel_has_them():
    assert [name for name, page in PAGES.items() if "--config tpu_configs/" in page] == []


def _arguments(line: str) -> list[str]:
    return shlex.split(re.sub("^" + VARIABLES, "", line), comments=True)


def _run(line, request):
    """Runs a command with a run and images of the tests in place of the user's."""
    words = _arguments(line)
    if any(word.startswith("runs/") for word in words):
        run, photos = (request.getfixturevalue(name) for name in ("run", "photos"))
        folder = request.getfixturevalue("tmp_path")
        names = dict.fromkeys(("photo.jpg", "images/circle/0.png"), photos / "red" / "0.jpg")
        names |= {"images/square": photos / "red", "scan.png": photos / "red" / "1.png"}
        names |= {"more/": photos, "predictions.png": folder / "predictions.png"}
        names |= {"runs/mine/evaluation": folder / "evaluation"}
        words = [str(names.get(word, word)) for word in words]
        words = [str(run) if re.fullmatch(r"runs/\w+", word) else word for word in words]
        # In this process, which has imported TensorFlow.
        printed = request.getfixturevalue("capsys")
        Verb(words[2].removeprefix("zoo."))(words[3:])
        assert printed.readouterr().out
        return
    words = [sys.executable if word == "python" else word for word in words]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def _parse(line, request):
    """Reads the settings of a command, which refuse what they do not know."""
    _, _, name, *arguments = _arguments(line)
    task = "detection" if re.search("coco|shapes", line) else "classification"
    run = request.getfixturevalue("run")
    arguments = [str(run) if re.fullmatch(r"runs/\w+", word) else word for word in arguments]
    if name != "zoo.publish" and (places := {"published/mine", "published/shapes"} & {*arguments}):
        place = arguments.index(places.pop())
        arguments[place] = str(request.getfixturevalue("published"))
    if "--output_dir" in arguments:  # a new one, where the run stood in
        arguments[arguments.index("--output_dir") + 1] = "runs/new"
    parse(name, arguments, task if name in BY_TASK else None)


def _find_extras(line, _):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = re.findall(r"'\.\[([\w,-]+)\]'", line.partition("#")[0])
    assert set(asked.split(",")) <= project["optional-dependencies"].keys()


def _find_target(line, _):
    _, target, *_ = _arguments(line)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
