"""Files of the source distribution and the wheel, and commands of an installed wheel."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.wheel import NO_CACHES, ROOT, installed

import lambda_keras

__all__ = ["installed"]

pytestmark = pytest.mark.one_backend

PACKAGES = ("lambda_keras", "zoo")
CONFIGS = "tpu_configs"
# Files that describe and lock a release, in addition to the packages.
TOP = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
FOLDERS = ("docs", "requirements", CONFIGS)
BUILD = "from setuptools.build_meta import build_sdist; build_sdist({!r})"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """The source distribution, unpacked; of a copy, because setuptools writes into its tree."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    for name in (*PACKAGES, *FOLDERS):
        shutil.copytree(ROOT / name, source / name, ignore=NO_CACHES)
    for name in TOP:
        shutil.copy(ROOT / name, source)
    # setuptools takes tests/test*.py along unless it is told otherwise.
    (source / "tests").mkdir()
    shutil.copy(__file__, source / "tests")
    build = [sys.executable, "-c", BUILD.format(str(target))]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (path,) = target.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(target, filter="data")
    return target / path.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Iterator[zipfile.ZipFile]:
    """The wheel that the source distribution gives."""
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target]
    subprocess.run([*pip, *options, sdist], check=True)
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def files_of(*folders: str) -> set[str]:
    """All files of folders of the checkout."""
    return {
        str(path.relative_to(ROOT))
        for name in folders
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_source_distribution_is_complete_and_clean(sdist):
    found = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    generated = {name for name in found if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert found - generated == files_of(*PACKAGES, *FOLDERS) | set(TOP)


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel):
    expected = files_of(*PACKAGES)
    expected |= {f"zoo/{name}" for name in files_of(CONFIGS) if name.endswith(".yaml")}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= expected


@pytest.mark.slow
def test_wheel_has_version_and_licence(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == lambda_keras.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    # The project has no address; one that was made up may become somebody's.
    assert not {"Home-page", "Project-URL", "Download-URL", "Author-email"} & set(metadata)


def test_installing_needs_no_backend_but_extras_offer_one():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    names = [line.split(">=")[0] for line in content["project"]["dependencies"]]
    assert names == ["h5py", "huggingface_hub", "keras", "numpy", "safetensors"]
    extras = content["project"]["optional-dependencies"]
    backends = {"tensorflow", "jax", "torch", "gpu", "tpu", "jax-gpu", "jax-tpu"}
    commands = {"commands", "train", "export", "detection", "pseudo", "demo", "serve", "convert"}
    assert extras.keys() == backends | commands
    for name in ("train", "serve", "convert"):  # settings of their commands
        assert re.search(r"lambda_keras\[.*commands\]", extras[name][0])
    groups = content["dependency-groups"]  # not published
    assert groups.keys() == {"test", "dev", "docs", "compare", "compiled", "benchmark"}


def test_nothing_says_to_install_the_project_by_its_bare_name():
    """No package index has it, so what comes by that name is somebody else's."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / CONFIGS).iterdir()]
    sources = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    for path in (*pages, *sources, *(ROOT / "notebooks").glob("*.ipynb")):
        for line in path.read_text("utf-8").splitlines():
            _, _, rest = line.partition("pip install")
            assert not rest.strip(" '\"").startswith(("lambda_keras", "lambda-k")), (
                f"{path}: {line}"
            )


# Every name of a configuration, as `lambda-keras train --config NAME` reads it.
READ_CONFIGURATIONS = """
import sys, lambda_keras, zoo
from zoo.cli.main import Verb
from zoo.fields import configurations
assert all(module.__file__.startswith(sys.prefix) for module in (lambda_keras, zoo))
for name in configurations():
    Verb("train").parse(["--config", name, "--output_dir", "runs/mine"])
print(*configurations())
"""
# As README.md has it: a network from the wheel, its labels, and the commands as functions.
PREDICT = """
import numpy as np
from lambda_keras.applications import LambdaResNet14, decode_predictions, preprocess_input
from zoo.api import train
images = preprocess_input(np.zeros((1, 28, 28, 3)))
predictions = LambdaResNet14(weights="fashion_mnist")(images)
print(decode_predictions(np.array(predictions), top=1, weights="fashion_mnist"))
try:
    train(config="lambda_resnet14_digits", data={"source": "none"})
except ValueError as error:
    print(error)
"""


def test_installed_wheel_has_what_commands_read(installed):
    """Configurations, weights and scripts, with no source tree in reach."""
    names = {path.stem for path in (ROOT / CONFIGS).glob("*.yaml")}
    assert set(installed("python", "-c", READ_CONFIGURATIONS).split()) == names
    assert "lambda_resnet50" in installed("lambda-keras", "list")
    assert "--output_dir" in installed("python", "-m", "zoo.train", "--help")
    said = installed("python", "-c", PREDICT)
    assert "data.source: no such source" in said
    assert re.search(r"\[\[\('\w", said)


@pytest.mark.slow
def test_wheel_of_the_dockerfile_is_that_of_the_source_distribution(installed, wheel):
    code = "import importlib.metadata as m; print(*m.files('lambda_keras'), sep='\\n')"
    files = set(installed("python", "-c", code).splitlines())
    kept = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name for name in files if name.startswith(PACKAGES) and "dist-info" not in name} == kept
