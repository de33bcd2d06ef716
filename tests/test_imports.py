"""The import law: layers -> models -> applications -> zoo and its rooms, Keras alone below zoo."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lambda_keras", "zoo")
# Each may import itself and those before it; lambda_keras alone stands for its __init__.
ORDER = [f"lambda_keras.{name}" for name in ("layers", "models", "weights", "applications")]
ORDER += ["lambda_keras", "zoo"]
# The rooms of zoo by the rows of CONTRIBUTING.md: each may import itself and those of the rows
# before, none of its own row.
LAW = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| rooms | contents |")[2]
FLOORS = [re.findall(r"`(\w+)`", row) for row in re.findall(r"(?m)^\| (`[^|]*) \|", LAW)]
# Slow to import or optional: zoo imports them inside the functions that need them.
HEAVY = {"PIL", "matplotlib", "official", "scipy", "sklearn", "tensorflow_datasets", "torch"}
# Plots fail before a run trains; detectors are the Model Garden's.
PLOTS = ("zoo.plots", "zoo.detection.plots", "zoo.benchmark.plots")
NEEDED = {name: {"matplotlib"} for name in PLOTS}
NEEDED |= {f"zoo.detection.{name}": {"official"} for name in ("detector", "experiment", "train")}

pytestmark = pytest.mark.one_backend


def imports_of(module: str, path: Path) -> tuple[set[str], set[str]]:
    """Absolute names of all imports of a file, and of those outside of functions and types."""
    every, at_start = set(), set()
    pending = [(ast.parse(path.read_text(encoding="utf-8")), True)]
    while pending:
        node, starts = pending.pop()
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: expected absolute imports"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        every |= {*names}
        at_start |= {*names} if starts else set()
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        )
        pending += [(child, starts and not lazy) for child in ast.iter_child_nodes(node)]
    return every, at_start


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
IMPORTS = {module: imports_of(module, path) for module, path in SOURCES.items()}


def within(name: str, packages) -> str | None:
    return next((one for one in packages if f"{name}.".startswith(f"{one}.")), None)


def test_imports_run_one_way():
    for module, (every, _) in IMPORTS.items():
        own = ORDER.index(within(module, ORDER))
        later = {name for name in every if within(name, ORDER) in ORDER[own + 1 :]}
        assert not later, f"{module} may not import {later}"
        assert not {name.split(".")[0] for name in every} & {"tests", "notebooks", "tools"}


def test_the_law_holds_in_zoo():
    """No room imports one of its own row or a later one, no module a `__main__`; no circles."""
    floor = {f"zoo.{name}": number for number, names in enumerate(FLOORS) for name in names}
    graph, broken = {}, []
    for module in SOURCES.keys() - {"zoo"}:
        if not module.startswith("zoo."):
            continue
        # `from a import b` gives a.b, which is either a module or a name in the module a.
        every = IMPORTS[module][0]
        names = {name if name in SOURCES else name.rpartition(".")[0] for name in every}
        graph[module] = {name for name in names if name.startswith("zoo.")} - {module}
        own = within(module, floor)
        assert own, f"{module} is in no room"
        for name in graph[module]:
            other = within(name, floor)
            if name.endswith(".__main__") or (own != other and floor[other] >= floor[own]):
                broken.append(f"{module} imports {name}")
    assert broken == []
    assert "zoo.plots.style" in graph["zoo.plots.classification"]
    TopologicalSorter(graph).prepare()  # which raises CycleError


def test_lambda_keras_imports_keras_and_numpy_only():
    for module, (every, _) in IMPORTS.items():
        if not module.startswith("lambda_keras"):
            continue
        allowed = {"keras", "lambda_keras", "numpy", *sys.stdlib_module_names}
        if module.startswith("lambda_keras.weights"):  # formats of files, and published ones
            allowed |= {"h5py", "huggingface_hub", "safetensors"}
        if module.endswith(".preprocessing"):  # as the images of the published weights were resized
            allowed.add("PIL")
        assert {name.split(".")[0] for name in every} <= allowed, module


def test_zoo_imports_heavy_packages_where_it_needs_them():
    for module, (_, at_start) in IMPORTS.items():
        if module.startswith("zoo"):
            allowed = NEEDED.get(within(module, NEEDED) or "", set())
            assert not {name.split(".")[0] for name in at_start} & HEAVY - allowed, module


def test_the_packages_of_pip_install_are_enough_for_lambda_keras():
    """Importing it loads Keras, itself and the standard library, and needs no other package."""
    script = (
        "import sys, keras; before = set(sys.modules); import lambda_keras.applications;"
        "import lambda_keras.weights; print(*sorted(set(sys.modules) - before))"
    )
    missing = "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'yaml', 'PIL')));"
    command = [sys.executable, "-c", missing + script]
    loaded = subprocess.check_output(command, cwd=ROOT, text=True).split()
    assert "lambda_keras.layers" in loaded
    known = {"lambda_keras", *sys.stdlib_module_names}
    assert not {name.split(".")[0] for name in loaded} - known


@pytest.mark.parametrize("first", ["lambda_keras.models.specs", "keras"])
def test_layers_are_registered_whichever_comes_first(first):
    """The networks' names are read without Keras, and layers known when a model is loaded."""
    script = (
        f"import sys, {first}; print('keras' in sys.modules); import lambda_keras.models.specs;"
        "from importlib import reload; reload(lambda_keras);"
        "from importlib.util import find_spec; assert find_spec('keras'); import keras;"
        " print(keras.saving.get_registered_object('lambda_keras>LambdaLayer'));"
        "names = {*lambda_keras.__all__} & {*dir(lambda_keras)};"
        "print(*(getattr(lambda_keras, name).__name__ for name in sorted(names)))"
    )
    printed = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    lines = [str(first == "keras"), "<class 'lambda_keras.layers.lambda_layer.LambdaLayer'>"]
    parts = (f"lambda_keras.{part}" for part in ("applications", "layers", "weights"))
    assert printed.splitlines() == [*lines, " ".join(parts)]


def test_files_are_data_not_code():
    """Readers that can run what a file says are told not to."""
    told = {"np.load": "allow_pickle=False", "torch.load": "weights_only=True"}
    calls = [
        ast.unparse(node)
        for path in SOURCES.values()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]
    readers = [call for call in calls if call.partition("(")[0] in told]
    assert readers
    assert [call for call in readers if told[call.partition("(")[0]] not in call] == []
    assert not [call for call in calls if re.search(r"safe_mode=False|\bpickle\.", call)]


def test_modules_and_names_in_backticks_exist():
    """`zoo.room.name` in the prose of the code: the last part is a module, or a name of one."""
    names = r"`((?:zoo|lambda_keras|tools)(?:\.\w+)+)(?<!\.json)`"
    paths = [path for package in (*PACKAGES, "tools") for path in (ROOT / package).rglob("*.py")]
    named = [(path.name, name) for path in paths for name in re.findall(names, path.read_text())]
    assert named
    missing = []
    for file, name in named:
        *parents, last = name.split(".")
        place = ROOT.joinpath(*parents)
        files = (place.with_suffix(".py"), place / "__init__.py")
        texts = [one.read_text() for one in files if one.is_file()]
        is_module = any(one.exists() for one in (place / last, place / f"{last}.py"))
        if not is_module and not any(re.search(rf"\b{last}\b", text) for text in texts):
            missing.append((file, name))
    assert missing == []
