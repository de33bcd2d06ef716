"""Private attributes of Keras that are used or overridden: each has a reason, and still exists."""

import ast
import re
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("lambda_keras", "zoo", "tools")
FILES = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
SOURCE = Path(keras.__file__).parent / "src"
TABLES = yaml.safe_load(Path(__file__).with_name("keras_private.yaml").read_text("utf-8"))
REASONS, PARAMETERS = (
    {(file, name): value for file, rows in TABLES[table].items() for name, value in rows.items()}
    for table in ("reasons", "parameters")
)
BY_NAME = ("getattr", "setattr", "hasattr", "delattr")
ATTRIBUTES = {(file, name) for file, names in TABLES["attributes"].items() for name in names}


def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in FILES}


def of_file(file: str) -> list[ast.AST]:
    """Nodes of a source file of Keras."""
    return [*ast.walk(ast.parse((SOURCE / file).read_text("utf-8")))]


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def of_keras() -> set[str]:
    """Private names of attributes and methods in the source of the installed Keras."""
    others = {*SOURCE.rglob("*_test.py"), *SOURCE.glob("legacy/**/*.py")}
    files = {*SOURCE.rglob("*.py")} - others
    texts = "\n".join(path.read_text("utf-8") for path in files)
    of_python = {*dir(namedtuple("Row", ()))}  # which named tuples of ours have, too
    return set(re.findall(r"(?:\.|def )(_[a-zA-Z]\w*)", texts)) - of_python


def derived(modules: list[ast.Module]) -> set[str]:
    """Names of classes here that inherit from Keras, and of those that are mixed into them."""
    classes = [
        node for tree in modules for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    found = {"keras"}
    while True:
        bases = [(one.name, ast.unparse(base)) for one in classes for base in one.bases]
        more = {name for name, base in bases if {base.split(".")[0], base.split(".")[-1]} & found}
        if more <= found:
            return found | {base for name, base in bases if name in found}
        found |= more


def uses(tree: ast.Module, subclasses: set[str], names: set[str]) -> Iterator[str]:
    """Private names of Keras that a module uses, overrides or imports."""
    own: dict[ast.AST, ast.ClassDef] = {
        node: one
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        for node in ast.walk(one)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            modules = [getattr(node, "module", None), *(alias.name for alias in node.names)]
            yield from (one for one in modules if str(one).startswith("keras.src"))
        in_subclass = node in own and own[node].name in subclasses
        name, is_self = "", True
        if isinstance(node, ast.Attribute):
            name, is_self = node.attr, ast.unparse(node.value) in ("self", "cls")
        elif isinstance(node, ast.FunctionDef) and in_subclass:
            name = node.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            name, is_self = getattr(node.args[1], "value", ""), False
        if private(str(name)) and name in names and (in_subclass or not is_self):
            yield name


@pytest.mark.one_backend
def test_every_private_name_of_keras_has_a_reason():
    modules, names = trees(), of_keras()
    subclasses = derived([*modules.values()])
    used = {file: uses(tree, subclasses, names) for file, tree in modules.items()}
    found = {(file, name) for file, found in used.items() for name in found}
    assert found == REASONS.keys()


@pytest.mark.one_backend
def test_methods_of_keras_have_their_parameters():
    received = {}
    for file, name in PARAMETERS:
        methods = [one for one in of_file(file) if isinstance(one, ast.FunctionDef)]
        found = ([one.arg for one in method.args.args] for method in methods if method.name == name)
        received[file, name] = next((rest for first, *rest in found if first == "self"), None)
    assert received == PARAMETERS


@pytest.mark.one_backend
def test_attributes_of_keras_are_set_where_the_table_says():
    set_there = {
        (file, node.attr)
        for file in TABLES["attributes"]
        for node in of_file(file)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    assert set_there >= ATTRIBUTES


@pytest.mark.one_backend
def test_every_private_name_has_its_file_of_keras():
    placed = {name for _, name in PARAMETERS.keys() | ATTRIBUTES}
    assert {name for _, name in REASONS} == {name for name in placed if private(name)}
