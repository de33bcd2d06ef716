"""The quickstart runs from top to bottom, learns, and only uses what the packages define."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def code_of(notebook) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.very_slow
def test_runs_and_learns(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    accuracy = float(re.search(r"test accuracy ([\d.]+)", text).group(1))
    assert accuracy > 0.9
    assert not list(tmp_path.iterdir()), "the quickstart leaves files behind"


def test_defines_nothing(notebook):
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    assert not [
        ast.unparse(node)
        for node in ast.walk(ast.parse(code_of(notebook)))
        if isinstance(node, definitions)
    ]


def test_imports_public_names_only(notebook):
    modules = [
        node.module
        for node in ast.walk(ast.parse(code_of(notebook)))
        if isinstance(node, ast.ImportFrom)
    ]
    allowed = re.compile(r"lambda_keras(\.(applications|layers))?|zoo(\.\w+)+")
    assert modules
    assert all(allowed.fullmatch(module) for module in modules)
