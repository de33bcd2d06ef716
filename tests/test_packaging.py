"""What `pip install .` installs."""

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lambda_keras

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lambda_keras", "zoo")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy because setuptools writes into the tree that it builds."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target, source],
        check=True,
    )
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel):
    expected = {
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_wheel_has_version_and_licence(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == lambda_keras.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]


def test_installing_needs_no_backend_but_extras_offer_one(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    names = ["h5py", "huggingface_hub", "keras", "numpy"]
    names += ["pydantic", "pydantic-settings", "pyyaml", "safetensors"]
    assert sorted(line.split(">=")[0] for line in required) == names
    extras = {"tensorflow", "jax", "torch", "train", "gpu", "tpu", "jax-gpu", "jax-tpu"}
    assert extras <= set(metadata.get_all("Provides-Extra"))
