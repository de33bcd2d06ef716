"""What editors show for the code of README.md and docs: pyright as users run it, in strict mode."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lambda_keras

pytestmark = [pytest.mark.one_backend, pytest.mark.slow, pytest.mark.needs("pyright")]

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Errors about these are of this project. Not its own: unknown types of Keras, TensorFlow and
# scikit-learn, which have no stubs, missing annotations in what the pages define, and expressions
# that a page shows the value of.
KINDS = "AbstractUsage ArgumentType AttributeAccessIssue CallIssue Deprecated IndexIssue "
KINDS += "MissingImports OptionalMemberAccess PrivateImportUsage PrivateUsage UndefinedVariable"
RULES = {f"report{kind}" for kind in KINDS.split()}
BACKENDS = r'Import "(jax|torch)[\w.]*" could not be resolved'  # not in every environment
YOURS = r'"(classes|images|labels|pixels)" is not defined'  # data of the reader
KERAS = r'parameter "jit_compile" of type "str"'  # whose annotation is inferred from "auto"
OWN = r"from (lambda_keras|zoo)[. ]"


def public_names() -> dict[str, list[str]]:
    modules = {
        name: list(import_module(name).__all__)
        for name in ("lambda_keras", *(f"lambda_keras.{part}" for part in lambda_keras.__all__))
    }
    tree = ast.parse((ROOT / "zoo/api.py").read_text(encoding="utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return modules | {"zoo.api": [name for name in functions if name[0] != "_"]}


def diagnostics(folder: Path, **settings) -> list[dict]:
    """What pyright says of the files of a folder."""
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(pyright, cwd=folder, capture_output=True, text=True, env=environment)
    return json.loads(result.stdout)["generalDiagnostics"]


@pytest.mark.parametrize(("calls", "errors"), [("right", []), ("wrong", range(3, 11))])
def test_types_of_calls(tmp_path, calls, errors):
    """Of constructors: right calls are accepted, and each of the wrong ones is refused."""
    shutil.copy(Path(__file__).with_name(f"calls_{calls}.txt"), tmp_path / "calls.py")
    found = diagnostics(tmp_path, extraPaths=[str(ROOT)])
    assert [one["range"]["start"]["line"] for one in found] == list(errors)


def test_pages_and_public_names_pass_pyright(tmp_path):
    """Packages as they are installed: their names are checked as those of a library."""
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        for number, block in enumerate(blocks):
            (tmp_path / f"{page.stem}_{number}.py").write_text(block, encoding="utf-8")
    assert len([*tmp_path.iterdir()]) > 10
    names = public_names().items()
    imports = [f"from {module} import {name}" for module, of_module in names for name in of_module]
    assert len(imports) > 50
    (tmp_path / "public_names.py").write_text("\n".join(imports), encoding="utf-8")
    found = []
    for error in diagnostics(tmp_path, typeCheckingMode="strict"):
        file, row = Path(error["file"]), error["range"]["start"]["line"]
        line = file.read_text(encoding="utf-8").splitlines()[row]
        rule, message = error.get("rule"), error["message"]
        of_pages = rule in RULES and not re.search("|".join((BACKENDS, YOURS, KERAS)), message)
        unknown = rule == "reportUnknownVariableType" and re.match(OWN, line)
        if of_pages or unknown:
            found.append(f"{file.name}:{row + 1}: {message}")
    assert not found, "\n".join(found)
