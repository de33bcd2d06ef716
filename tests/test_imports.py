"""The import law: layers -> models -> applications -> zoo and its rooms, Keras alone below zoo."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lambda_keras", "zoo")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# Each room may import itself and the rooms before it; lambda_keras alone stands for its __init__.
ROOMS = (
    "lambda_keras.layers",
    "lambda_keras.models",
    "lambda_keras.weights",
    "lambda_keras.applications",
    "lambda_keras",
    "zoo",
)
# The rooms of zoo: each may import itself and those of the rows before, none of its own row.
FLOORS = (
    ("errors",),
    ("files", "backend", "registry", "model_card"),
    ("fields",),
    ("cli", "results"),
    ("config",),
    ("run_folder", "devices"),
    ("data",),
    ("inference",),
    ("plots",),
    ("detection",),
    (
        "list",
        "flops",
        "convert",
        "train",
        "evaluate",
        "export",
        "demo",
        "predict",
        "client",
        "publish",
        "maps",
        "pseudo_label",
    ),
    ("api", "serve"),
    ("benchmark",),
)
# Slow to import or optional: zoo imports them inside the functions that need them.
DETECTORS = {"detector.py", "experiment.py"}
TRAINER = "zoo/train/detection.py"
HEAVY = {"PIL", "matplotlib", "official", "scipy", "sklearn", "tensorflow_datasets", "torch"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(node: ast.AST, module: str, is_package: bool) -> list[str]:
    """Absolute names of what one import statement imports; `from a import b` gives a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        parents = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parents, *([base] if base else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_of(path: Path, *, inside_functions: bool = True) -> list[str]:
    pending, found = [ast.parse(path.read_text(encoding="utf-8"))], []
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inside_functions:
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        found += imported_modules(node, module_name(path), path.name == "__init__.py")
        pending += ast.iter_child_nodes(node)
    return found


def zoo_imports(module: str, tree: ast.AST, is_package: bool, modules: set[str]) -> set[str]:
    """Modules of zoo that a module imports anywhere, in functions and for types, too."""
    names = {name for node in ast.walk(tree) for name in imported_modules(node, module, is_package)}
    # `from a import b` gives a.b, which is either a module or a name in the module a.
    found = {name if name in modules else name.rpartition(".")[0] for name in names}
    return {name for name in found if name.startswith("zoo.")} - {module}


def violations(imports: Mapping[str, set[str]]) -> list[str]:
    """Breaches of the law among modules of zoo and what each of them imports."""
    floor = {f"zoo.{name}": number for number, names in enumerate(FLOORS) for name in names}

    def room_of(module: str) -> str:
        return ".".join(module.split(".")[:2])

    found = [f"{module} is in no room" for module in imports if room_of(module) not in floor]
    for module, names in imports.items():
        for name in names:
            own, other = room_of(module), room_of(name)
            if name.endswith(".__main__"):
                found.append(f"{module} imports {name}, a command")
            elif own != other and own in floor and floor.get(other, -1) >= floor[own]:
                found.append(f"{module} imports {name}, which is not below it")
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found.append(f"circle: {' <- '.join(error.args[1])}")
    return found


def room(module: str) -> int | None:
    matches = [rank for rank, name in enumerate(ROOMS) if f"{module}.".startswith(f"{name}.")]
    return matches[0] if matches else None


def describe(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.one_backend
def test_sources_are_found():
    assert {module_name(path).split(".")[0] for path in SOURCES} == set(PACKAGES)


@pytest.mark.one_backend
@pytest.mark.parametrize("path", SOURCES, ids=describe)
def test_imports_run_one_way(path):
    own = room(module_name(path))
    later = [name for name in imports_of(path) if (room(name) or 0) > own]
    assert not later, f"{ROOMS[own]} may not import {later}"


@pytest.mark.one_backend
def test_the_law_holds_in_zoo():
    trees = {
        module_name(path): (ast.parse(path.read_text(encoding="utf-8")), path.stem == "__init__")
        for path in SOURCES
        if path.is_relative_to(ROOT / "zoo") and path != ROOT / "zoo" / "__init__.py"
    }
    imports = {
        module: zoo_imports(module, tree, is_package, set(trees))
        for module, (tree, is_package) in trees.items()
    }
    assert not violations(imports)
    assert any("zoo.plots" in name for name in imports["zoo.train.classification"])


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("imports", "message"),
    [
        (
            {"zoo.data.load": {"zoo.train.classification"}},
            "zoo.data.load imports zoo.train.classification, which",
        ),
        ({"zoo.demo.page": {"zoo.export.verify"}}, "imports zoo.export.verify, which is not below"),
        (
            {"zoo.train.classification": {"zoo.train.__main__"}},
            "imports zoo.train.__main__, a command",
        ),
        ({"zoo.data.a": {"zoo.data.b"}, "zoo.data.b": {"zoo.data.a"}}, "circle: zoo.data."),
        ({"zoo.helpers": set()}, "zoo.helpers is in no room"),
    ],
    ids=["upwards", "sibling", "command", "circle", "new file"],
)
def test_a_breach_of_the_law_is_named(imports, message):
    (found,) = violations(imports)
    assert message in found


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "statement",
    [
        "from zoo.train import classification",
        "import zoo.train.classification",
        "def f():\n    from zoo.train.classification import train",
        "if TYPE_CHECKING:\n    from zoo.train.classification import train",
    ],
)
def test_every_import_of_zoo_is_read(statement):
    modules = {"zoo.train", "zoo.train.classification", "zoo.data.load"}
    found = zoo_imports("zoo.data.load", ast.parse(statement), False, modules)
    assert "zoo.train.classification" in found


@pytest.mark.one_backend
@pytest.mark.parametrize("path", SOURCES, ids=describe)
def test_packages_import_nothing_from_tests_or_notebooks(path):
    tops = {name.split(".")[0] for name in imports_of(path)}
    assert not tops & {"tests", "notebooks"}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.is_relative_to(ROOT / "lambda_keras")], ids=describe
)
def test_lambda_keras_imports_keras_and_numpy_only(path):
    allowed = {"keras", "lambda_keras", "numpy"}
    if "weights" in path.parts:
        # The formats of weights files, and where published ones are.
        allowed |= {"h5py", "huggingface_hub", "safetensors"}
    if path.name == "preprocessing.py":
        allowed.add("PIL")  # which resizes images as those of the published weights were
    tops = {name.split(".")[0] for name in imports_of(path)}
    assert tops - set(sys.stdlib_module_names) <= allowed


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.is_relative_to(ROOT / "zoo")], ids=describe
)
def test_zoo_imports_heavy_packages_where_it_needs_them(path):
    tops = {name.split(".")[0] for name in imports_of(path, inside_functions=False)}
    # A run must miss matplotlib before it trains, not when it draws its curves.
    allowed = {"matplotlib"} if "plots" in str(path) else set()
    # Detectors are the Model Garden's; their settings and commands do without.
    if (path.parent.name == "detection" and path.name in DETECTORS) or path == ROOT / TRAINER:
        allowed = {"official"}
    assert not tops & HEAVY - allowed


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("statement", "module", "is_package", "expected"),
    [
        ("import keras.ops", "lambda_keras.layers.x", False, ["keras.ops"]),
        ("from zoo import data", "lambda_keras.layers.x", False, ["zoo.data"]),
        ("from . import y", "lambda_keras.layers.x", False, ["lambda_keras.layers.y"]),
        ("from .y import z", "lambda_keras.layers", True, ["lambda_keras.layers.y.z"]),
        ("from ..models import z", "lambda_keras.layers.x", False, ["lambda_keras.models.z"]),
        ("from ..models import z", "lambda_keras.layers", True, ["lambda_keras.models.z"]),
    ],
)
def test_import_statements_are_resolved(statement, module, is_package, expected):
    assert imported_modules(ast.parse(statement).body[0], module, is_package) == expected


def test_importing_lambda_keras_loads_only_keras_and_itself():
    script = (
        "import sys, keras; before = set(sys.modules); import lambda_keras.applications;"
        "print(*sorted(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = result.stdout.split()
    assert "lambda_keras.layers" in loaded
    others = (
        {name.split(".")[0] for name in loaded} - {"lambda_keras"} - set(sys.stdlib_module_names)
    )
    assert not others
