"""Files of the source distribution and the wheel, and commands of an installed wheel."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import lambda_keras

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).resolve().parents[1]
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
    no_caches = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, *FOLDERS):
        shutil.copytree(ROOT / name, source / name, ignore=no_caches)
    for name in TOP:
        shutil.copy(ROOT / name, source)
    # setuptools takes tests/test*.py along unless it is told otherwise.
    (source / "tests").mkdir()
    shutil.copy(__file__, source / "tests")
    subprocess.run(
        [sys.executable, "-c", BUILD.format(str(target))],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (path,) = target.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(target, filter="data")
    return target / path.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel_path(sdist, tmp_path_factory) -> Path:
    """The wheel that the source distribution gives."""
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target, sdist],
        check=True,
    )
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(wheel_path):
    with zipfile.ZipFile(wheel_path) as archive:
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
            _, is_there, rest = line.partition("pip install")
            assert not (is_there and rest.strip(" '\"").startswith(("lambda_keras", "lambda-k"))), (
                f"{path}: {line}"
            )


@pytest.mark.very_slow
def test_installed_wheel_lists_trains_exports_and_predicts(wheel_path, tmp_path):
    """In an environment of its own, outside of the checkout.

    Dependencies are those of the lock, taken from the environment of the tests; its installation
    of this project, which is editable, is not seen there.
    """
    bin_folder = tmp_path / "env" / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    # Packages on a path named in a .pth file are imported; .pth files there are not read.
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(bin_folder / "python")]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel_path],
        check=True,
        capture_output=True,
    )
    here = tmp_path / "here"
    here.mkdir()
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "KERAS_BACKEND")}

    def run(*arguments: str | Path) -> str:
        command, *others = arguments
        result = subprocess.run(
            [bin_folder / command, *others], cwd=here, env=kept, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    where = "import zoo, lambda_keras; print(zoo.__file__, lambda_keras.__file__)"
    for path in run("python", "-c", where).split():
        assert Path(path).is_relative_to(packages)
    assert "lambda_resnet50" in run("lambda-keras", "list")

    settings = "--model.image_size 16 --data.batch_size 256 --training.steps_per_execution 1"
    settings += " --training.epochs 1 --optimizer.warmup_epochs 0 --output_dir runs/digits"
    run("lambda-keras", "train", "--config", "lambda_resnet14_digits", *settings.split())
    metrics = json.loads((here / "runs/digits/metrics.json").read_text())
    assert metrics["test_images"] == 360

    exported = run("python", "-m", "zoo.export", "--run", "runs/digits", "--output", "exports")
    assert "exported to exports/lambda_resnet14/1" in exported
    from PIL import Image
    from sklearn.datasets import load_digits

    digit = Image.fromarray((load_digits().images[0] * 15).astype("uint8"))
    digit.save(here / "digit.png")
    said = run("lambda-keras", "predict", "--run", "runs/digits", "digit.png", "--top", "10")
    assert said.count("%  ") == 10
