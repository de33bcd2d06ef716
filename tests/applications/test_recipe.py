"""CONTRIBUTING's list for a new depth, followed in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
COPIED = ("lambda_keras", "zoo", "tests", "docs", "tpu_configs")
FILES = ("CONTRIBUTING.md", "README.md", "pyproject.toml")


@pytest.fixture
def copy(tmp_path) -> Path:
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def insert(path: Path, after: str, text: str) -> None:
    content = path.read_text("utf-8")
    assert content.count(after) == 1
    path.write_text(content.replace(after, after + text), "utf-8")


def run(copy: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy), "KERAS_BACKEND": "tensorflow"}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_recipe_of_a_depth(copy):
    recipe = (copy / "CONTRIBUTING.md").read_text("utf-8").split("## Adding a depth")[1]
    depth, row, function = re.findall(r"```\w+\n(.*?) *```", recipe.split("\n## ")[0], re.S)[:3]
    specs = copy / "lambda_keras" / "models" / "specs.py"
    insert(specs, "\nDEPTHS = {\n", depth.removeprefix("   "))
    insert(specs, "\nROWS = (\n", row.removeprefix("   "))
    networks = copy / "lambda_keras" / "applications" / "lambda_resnet.py"
    name = re.search(r"def (\w+)\(", function)[1]
    insert(networks, "\n]\n", "\n\n" + textwrap.dedent(function))
    insert(networks, "__all__ = [\n", f'    "{name}",\n')
    files = ["models/test_specs.py", "applications/test_networks.py"]
    files += ["zoo/test_registry.py", "zoo/test_list.py"]
    chosen = f"specs or list or {name} or lambda_resnet26 or registry and not counts"
    ran = run(copy, "pytest", "-q", "-k", chosen, *(f"tests/{file}" for file in files))
    assert re.search(r"\d+ passed", ran)
