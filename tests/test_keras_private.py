"""Private attributes of Keras that are used or overridden: each has a reason, and still exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for name in ("lambda_keras", "zoo") for path in sorted((ROOT / name).rglob("*.py"))]
BUILD, FLOPS, FOLDING = (f"lambda_keras/applications/{n}.py" for n in ("build", "flops", "folding"))
NORM = "lambda_keras/layers/batch_normalization.py"
LOOP = "zoo/train/loop.py"  # the one place of training
# File and name: why no public one will do.
REASONS = {
    (BUILD, "_keras_history"): "whether an input tensor is an input, or the output of a layer",
    (FLOPS, "_nodes_by_depth"): "calls of layers: a shared layer counts once for each",
    (FOLDING, "_keras_history"): "the layer whose output a tensor is",
    (NORM, "_moments"): "mean and variance in one pass, or without cancellation; Keras' call stays",
    ("zoo/variables.py", "_flatten_layers"): "layers within layers",
    ("zoo/train/classification.py", "_flatten_layers"): "layers within layers",
    (LOOP, "_aggregate_additional_loss"): "as Keras' compute_loss does for losses of layers",
    (LOOP, "_compile_loss"): "the loss alone, without those of layers",
    (LOOP, "_get_state_sharding_spec"): "on JAX, a step leaves variables on their devices",
    (LOOP, "_loss_tracker"): "images that fill up the last batch do not count",
    (LOOP, "_maybe_symbolic_build"): "variables of optimizer and metrics before the first step",
    (LOOP, "_symbolic_build"): "the same, from shapes",
    (LOOP, "_all_reduce_sum_gradients"): "gradients are summed before they are clipped",
    (LOOP, "_clip_gradients"): "the norm to clip is that of the sum over all devices",
    (LOOP, "_get_variable_index"): "which slot is of a variable",
    (LOOP, "_momentums"): "slots of Keras' Lamb",
    (LOOP, "_velocities"): "slots of Keras' Lamb",
    (LOOP, "_var_key"): "rates and decays of variables, by the key that Keras gives them",
}
# File of Keras and method that zoo/train/loop.py overrides or calls: its parameters.
TRAINER, TF, JAX = "trainers/trainer.py", "backend/tensorflow/", "backend/jax/trainer.py"
OPTIMIZER, STEP = "optimizers/base_optimizer.py", "gradient variable learning_rate"
LOSS = "trainable_variables non_trainable_variables metrics_variables x y sample_weight training"
PARAMETERS = {
    (TRAINER, "_aggregate_additional_loss"): "loss",
    (TRAINER, "_symbolic_build"): "iterator data_batch",
    (TRAINER, "compute_loss"): "x y y_pred sample_weight training",
    (TRAINER, "compute_metrics"): "x y y_pred sample_weight",
    (TF + "trainer.py", "_maybe_symbolic_build"): "iterator data_batch",
    (TF + "trainer.py", "make_train_function"): "force",
    (TF + "trainer.py", "make_test_function"): "force",
    (TF + "trainer.py", "train_step"): "data",
    (JAX, "_get_state_sharding_spec"): "",
    (JAX, "compute_loss_and_updates"): f"{LOSS} optimizer_variables",
    (JAX, "make_train_function"): "force",
    (JAX, "make_test_function"): "force",
    (JAX, "train_step"): "state data",
    (OPTIMIZER, "_clip_gradients"): "grads",
    (OPTIMIZER, "_get_variable_index"): "variable",
    (OPTIMIZER, "_var_key"): "variable",
    (OPTIMIZER, "apply"): "grads trainable_variables",
    (OPTIMIZER, "stateless_apply"): "optimizer_variables grads trainable_variables",
    (OPTIMIZER, "update_step"): STEP,
    (TF + "optimizer.py", "_all_reduce_sum_gradients"): "grads_and_vars",
    ("optimizers/lamb.py", "update_step"): STEP,
}


def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in FILES
    }


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def of_keras() -> set[str]:
    """Private names of attributes and methods in the source of the installed Keras."""
    source = Path(keras.__file__).parent / "src"
    folders = ("backend", "callbacks", "layers", "models", "ops", "optimizers", "trainers", "utils")
    texts = [path.read_text("utf-8") for name in folders for path in (source / name).rglob("*.py")]
    return set(re.findall(r"(?:self\.|cls\.|tensor\.|def )(_[a-zA-Z]\w*)", "\n".join(texts)))


def derived(modules: list[ast.Module]) -> set[str]:
    """Names of classes here that inherit from Keras, and of those that are mixed into them."""
    classes = [
        node for tree in modules for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    found = {"keras"}
    while True:
        more = {
            one.name
            for one in classes
            for base in map(ast.unparse, one.bases)
            if {base.split(".")[0], base.split(".")[-1]} & found
        }
        if more <= found:
            mixins = {
                ast.unparse(base) for one in classes if one.name in found for base in one.bases
            }
            return found | mixins
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            name, is_self = getattr(node.args[1], "value", ""), False
        if private(str(name)) and name in names and (in_subclass or not is_self):
            yield name


@pytest.mark.one_backend
def test_every_private_name_of_keras_has_a_reason():
    modules, names = trees(), of_keras()
    subclasses = derived([*modules.values()])
    found = {
        (file, name) for file, tree in modules.items() for name in uses(tree, subclasses, names)
    }
    assert found == REASONS.keys()


@pytest.mark.one_backend
def test_methods_that_training_overrides_have_their_parameters():
    received = {}
    for file, name in PARAMETERS:
        tree = ast.parse((Path(keras.__file__).parent / "src" / file).read_text("utf-8"))
        methods = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
        method = next(one for one in methods if one.name == name and one.args.args[0].arg == "self")
        received[file, name] = " ".join(one.arg for one in method.args.args[1:])
    assert received == PARAMETERS
