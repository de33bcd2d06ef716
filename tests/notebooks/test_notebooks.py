"""Every notebook runs from top to bottom, learns, and only uses what the packages define."""

import ast
import base64
import os
import re
import struct
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient
from support.backends import counts_memory

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
INSTALL = """\
import logging
import os
from importlib.util import find_spec

# TensorFlow's logs are long.
logging.disable(logging.WARNING)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Sharp figures.
%config InlineBackend.figure_format = "retina"

if not find_spec("lambda_keras"):
    %pip install --quiet "..[EXTRAS]\""""
# Lines of TensorFlow's C++ that it writes before it reads the level.
UNAVOIDABLE = re.compile(r"WARNING: All log messages before absl|[IWE]\d{4} |$")


class Case(NamedTuple):
    """Smaller settings of a notebook, and what it prints with them."""

    parameters: str  # in place of the cell with this tag
    printed: str  # pattern, whose groups are numbers
    least: float = 0.0  # of these numbers


SCOPE_41 = r"LambdaLayer, scope 41: .* accuracy ([\d.]+)"
CASES = {
    "quickstart": Case("epochs = 2", r"test accuracy ([\d.]+)", 0.5),
    "fine_tune": Case("epochs = 3", r"fine-tuned: test accuracy ([\d.]+)", 0.3),
    "accelerators": Case(
        "epochs = 2", r"one_device: test accuracy ([\d.]+)\nmirrored: test accuracy ([\d.]+)", 0.2
    ),
    "export_and_serve": Case("images = 4", r"(\d+) of \d+ test images right", 2),
    "lambda_maps": Case("number = 4", r"png: (?:Ankle boot|Shirt), probability ([\d.]+)", 0.1),
    "sequences_and_video": Case("sequence_epochs = 4\nvideo_epochs = 1", SCOPE_41, 0.2),
    "generate_digits": Case("steps = 60", r"held-out digits: ([\d.]+)", 1.5),
    "detection": Case("images = 12\nsteps = 20", r"box: AP [\d.]+, .*\nmask: AP [\d.]+"),
    "segmentation": Case("epochs = 1", r"intersection over union ([\d.]+)", 0.05),
    "paper_tables": Case(
        'placements = ["CCCC", "LLLL"]\nsizes = "14x256"\nmemory = "true"',
        r"LLLL +15\.00 +15\.0 +(12\.02)",
        12,
    ),
}


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_of(notebook) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(notebook) -> tuple[list[nbformat.NotebookNode], str, str]:
    """Outputs, with a figure and without an error; all of their text; what is logged."""
    outputs = [output for cell in code_of(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    texts = [output.get("text") or output.data.get("text/plain", "") for output in outputs]
    logged = [output.text for output in outputs if output.get("name") == "stderr"]
    return outputs, "\n".join(texts), "".join(logged)


def test_every_notebook_is_listed_and_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == CASES.keys()
    listed = re.findall(r"\]\((\w+)\.ipynb\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == sorted(CASES)


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.parametrize("name", CASES)
def test_runs_and_learns(name, tmp_path):
    """In a folder like that of the checkout, and as a reader runs it: without settings of logs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "tensorflow"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    notebook, case = read(name), CASES[name]
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert re.findall(r"(?m)^\w+ =", cell.source) == re.findall(r"(?m)^\w+ =", case.parameters)
    counted = str(counts_memory()).lower()
    cell.source = case.parameters.replace('memory = "true"', f'memory = "{counted}"')
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)

    _, text, logged = outputs_of(notebook)
    assert not [line for line in logged.splitlines() if not UNAVOIDABLE.match(line)]
    found = re.search(case.printed, text)
    assert found
    assert all(float(number) > case.least for number in found.groups())
    assert {path.name for path in folder.iterdir()} <= {"runs"}


@pytest.mark.parametrize("name", CASES)
def test_committed_outputs(name):
    """As executed with the settings in the notebook: complete, small, without logs and paths."""
    notebook = read(name)
    outputs, text, logged = outputs_of(notebook)
    assert not logged
    counts = [cell.execution_count for cell in code_of(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 300_000
    assert not re.findall(r"/(?:home|root|tmp|usr|work)/\S*|[Ww]arning", text)
    assert re.search(CASES[name].printed, text)
    assert "| --- |" not in text  # tables of Markdown are shown as such
    for output in outputs:
        if png := output.get("data", {}).get("image/png"):
            width, _ = struct.unpack(">2I", base64.b64decode(png)[16:24])
            assert abs(width - 2 * output.metadata["image/png"]["width"]) < 2


@pytest.mark.parametrize("name", CASES)
def test_installs_from_the_checkout_defines_nothing_and_imports_public_names(name):
    cells = [cell.source for cell in code_of(read(name))]
    assert re.fullmatch(re.escape(INSTALL).replace("EXTRAS", r"[\w,]+"), cells[0])
    without_ipython = re.sub(r"(?m)^( *)%+(?:.*\\\n)*.*$", r"\1pass", "\n\n".join(cells))
    nodes = [*ast.walk(ast.parse(without_ipython))]
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    assert not [ast.unparse(node) for node in nodes if isinstance(node, definitions)]
    modules = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    own = {module for module in modules if module.split(".")[0] in ("zoo", "lambda_keras")}
    assert set() < own <= {"zoo.api", "lambda_keras.applications", "lambda_keras.layers"}


@pytest.mark.parametrize("name", CASES)
def test_links_lead_to_notebooks(name):
    text = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "markdown")
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("https://") or (FOLDER / link.partition("#")[0]).exists(), link
    assert not re.findall(r"(?<!\.\./)docs/[\w/]+\.md", text)  # which would be no link
