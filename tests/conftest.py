"""Common ground of tests: quiet logs, one thread per worker, fixed seeds, no network, ids."""

import os
from pathlib import Path

from zoo.backend import use_onednn

# Read when a backend loads, so set before Keras is imported. Several pytest workers share the
# cores; one thread each is faster than all of them competing.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
use_onednn()
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # its plugin for CUDA then loads without CUDA
for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(variable, "1")
# A third less time to compile without LLVM's optimizations; JAX compiles every operation.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
if os.environ.get("KERAS_BACKEND") == "jax":
    os.environ["XLA_FLAGS"] += (
        " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
# Compiled code, shared by all processes.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import contextlib
import ipaddress
import socket
from collections.abc import Mapping
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from support import leftovers, needs, turns

leftovers.watch()

# Fixtures that take long: the tests of each run in one process.
SHARED = ("run", "first", "server", "imagenet", "folders", "exported", "installed")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "of the slow tests the Nth of M parts"
    parser.addoption("--turn", metavar="N/M", type=turns.parse, help=text)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Starts with the slow tests, so that no worker is alone with them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        used = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        if used and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(f"{used[0]} of {item.path.parent.name}"))
    if turn := config.getoption("--turn"):
        left = turns.others(items, turn)
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir | None:
    """Collects every folder once.

    Fixtures of a conftest.py belong to the first node of its folder, and pytest 9.1 makes another
    one for some orders of files on a command line.
    """
    return None if (path / "__init__.py").exists() else _folder(path, parent)


@cache
def _folder(path: Path, parent: pytest.Collector) -> pytest.Dir:
    return pytest.Dir.from_parent(parent, path=path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips or fails a test without the programs and packages that it is marked to need."""
    needs.check(*(name for mark in item.iter_markers("needs") for name in mark.args))


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Names parametrized cases by their values, where pytest would number them."""
    if isinstance(val, int | float | None):
        return f"{argname}={val}"
    return _case_name(val).encode("unicode_escape").decode()[:60]


def _case_name(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_case_name(item)}" for key, item in value.items()) or "default"
    if isinstance(value, list | tuple):
        whole = all(isinstance(item, int) for item in value)
        return ("x" if whole else ",").join(map(_case_name, value)) or "empty"
    if isinstance(value, np.ndarray):
        return f"array {_case_name(value.shape)}"
    if isinstance(value, str | bytes | Path | int | float | None):
        return str(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return getattr(value, "__name__", type(value).__name__)


@pytest.fixture(autouse=True)
def fresh_keras():
    """Every test starts from the same seeds, layer names and global settings, in any order."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Image files that the tests have read are not remembered in the user's cache folder."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def here(tmp_path):
    """An empty folder, which is the current one."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session", autouse=True)
def no_network():
    """A test that reaches beyond this machine fails at once, instead of hanging without network."""
    connect = socket.socket.connect

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = "127.0.0.1" if address[0] == "localhost" else address[0]
            try:
                local = ipaddress.ip_address(host).is_loopback
            except ValueError:
                local = False
            if not local:
                raise PermissionError(f"tests may not use the network. Received: {address!r}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        yield
