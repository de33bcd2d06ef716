"""Programs and packages that some tests need: without them tests skip, or fail where CI is set."""

import os
import shutil
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_CI = bool(os.environ.get("CI"))
SITE = ROOT / "build" / "docs"
# GitHub's machines have the latter.
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Need(NamedTuple):
    """How to get what a test needs, and the environments of the Makefile that must have it."""

    how: str
    environments: tuple[str, ...] = ()  # none: all


_TRAIN = Need("pip install '.[train]'", (".venv", ".venv-jax"))
_DETECTION = Need("pip install '.[detection]'", (".venv",))
_BENCHMARK = Need("make test-benchmark", (".venv-benchmark",))
_TORCH = Need("make test-torch", (".venv-torch",))
NEEDS = {
    "chromium": Need("apt-get install chromium"),
    "make": Need("apt-get install make"),
    **dict.fromkeys(("flock", "/proc"), Need("it is a part of Linux")),
    ".venv-tpu/bin/python": Need("make .venv-tpu/installed", (".venv-benchmark",)),
    "build/docs/_static/draw.js": Need("make docs", (".venv-docs",)),
    "oneDNN": Need("on other CPUs, or without it, TensorFlow counts no memory", (".venv",)),
    "PIL": Need("pip install '.[train]'"),
    "tensorflow": _TRAIN,
    "official": _DETECTION,
    "pycocotools": _DETECTION,
    "tf_keras": _DETECTION,
    "onnxruntime": Need("pip install '.[export]'", (".venv",)),
    "pyright": Need("make .venv/installed", (".venv",)),
    "apache_beam": Need("make test-pseudo", (".venv-pseudo",)),
    "torch": Need("make test-torch", (".venv-torch", ".venv-benchmark")),
    **dict.fromkeys(("timm", "torchvision", "jax"), _BENCHMARK),
    **dict.fromkeys(("jax_plugins.xla_cuda12", "libtpu"), _BENCHMARK),
    **dict.fromkeys(("lambda_networks", "bottleneck_transformer_pytorch"), _TORCH),
    **dict.fromkeys(("halonet_pytorch", "performer_pytorch", "axial_attention"), _TORCH),
    "linear_attention_transformer": _TORCH,
    # Those of test_needs.py, which are nowhere.
    "no_such_package": Need("make it", (".venv",)),
    "no_such_program": Need("write it"),
}
PROGRAMS = {"chromium": CHROMIUM}
PROGRAMS |= {name: shutil.which(name) for name in ("make", "flock", "no_such_program")}


def check(*names: str, environment: str = Path(sys.prefix).name, in_ci: bool = IN_CI) -> None:
    """Skips a test or a module without one of these, or fails where CI should have it.

    Tests with `@pytest.mark.needs(NAME, ...)` are checked before their fixtures.
    """
    for name in names:
        if not _is_there(name):
            how, environments = NEEDS[name]
            reason = f"needs {name}: {how}"
            if in_ci and environment in (environments or (environment,)):
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason, allow_module_level=True)


def package(name: str, **options: Any) -> ModuleType:
    """Imports a module of a package that a test needs."""
    check(name.partition(".")[0], **options)
    with warnings.catch_warnings():  # of others, about others
        warnings.simplefilter("ignore")
        return import_module(name)


def _is_there(name: str) -> bool:
    if name in PROGRAMS:
        return PROGRAMS[name] is not None
    if "/" in name:
        return (ROOT / name).exists()
    if name == "oneDNN":
        from support.backends import counts_memory  # and Keras

        return counts_memory()
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
