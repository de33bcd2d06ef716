"""Examples in docstrings run as users copy them: with what they import and nothing else."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for package in ("lambda_keras", "zoo")
    for file in sorted((ROOT / package).rglob("*.py"))
    if "    >>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.one_backend
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(import_module(name), globs={})
    assert result.attempted
    assert not result.failed
