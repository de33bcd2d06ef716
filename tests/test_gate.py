"""Continuous integration runs every test: its parts, the Makefile, markers and environments."""

import re
import subprocess
import tomllib
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.mark.expression import Expression
from support import turns
from support.needs import NEEDS

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
MARKERS = {line.partition(":")[0] for line in OPTIONS["ini_options"]["markers"]}
DEFAULT = OPTIONS["ini_options"]["addopts"]


def targets() -> dict[str, tuple[list[str], str]]:
    """Prerequisites and recipe of every target of the Makefile, without line breaks."""
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    text = re.sub(r"  +#.*", "", text)
    variables = dict(re.findall(r"(?m)^(\w+) = (.*)$", text))
    for _ in range(3):
        text = re.sub(r"\$\((\w+)\)", lambda name: variables.get(name[1], name[0]), text)
    return {
        name: (needed.split(), recipe)
        for name, needed, recipe in re.findall(r"(?m)^([\w./-]+):([^=\n]*)\n((?:\t.*\n)*)", text)
    }


def commands(name: str) -> list[tuple[str, str, list[str]]]:
    """Environment, expression of markers and paths of each pytest of a target."""
    lines = re.findall(r"(\.venv[\w-]*)/bin/python -m pytest (.*)", targets()[name][1])
    default = DEFAULT[DEFAULT.index("-m") + 1]
    return [
        (
            environment,
            found[1] if (found := re.search('-m "?((?<=")[^"]+|\\w+)', options)) else default,
            re.findall(r"tests/\S+", options),
        )
        for environment, options in lines
    ]


def parts_of_ci() -> list[str]:
    (parts,) = re.findall(r"(?m)^for part in (.*); do$", (ROOT / ".ci/run").read_text("utf-8"))
    return parts.split()


def test_every_target_of_tests_is_a_part():
    needed = {name: set(others) for name, (others, _) in targets().items()}
    parts = parts_of_ci()
    assert sorted(parts) == sorted(["test", *targets()["test-all"][0]])
    with_tests = {name for name in targets() if commands(name)} | {"test-rooms"}
    assert with_tests == set(parts)
    assert "lint" in needed["test"]
    (matrix,) = re.findall(r"target: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())
    assert sorted(matrix.split(", ")) == sorted(parts)


def test_every_marker_is_selected():
    """Any test, whatever its markers, runs on TensorFlow in one part or another, and once."""
    whole = [
        Expression.compile(expression)
        for part in parts_of_ci()
        for environment, expression, paths in commands(part)
        if environment == ".venv" and not paths
    ]
    subsets = chain.from_iterable(combinations(MARKERS, n) for n in range(len(MARKERS) + 1))
    for markers in subsets:
        has = lambda name, markers=markers, **_: name in markers  # noqa: E731
        assert [one.evaluate(has) for one in whole].count(True) == 1, markers
    named = " ".join(words for part in parts_of_ci() for _, words, _ in commands(part))
    assert set(named.split()) - {"not", "or", "and"} <= MARKERS


def test_commits_take_turns_with_all_slow_tests():
    (rule,) = re.findall(r"(?m)^export TURN=.*$", (ROOT / ".ci/run").read_text("utf-8"))
    shell = f"for last in {{0..9}}{{a..f}}; do commit=5a$last; {rule}; echo $TURN; done"
    found = subprocess.check_output(["bash", "-c", shell], text=True).split()
    assert {found.count(turn) for turn in found} == {20}
    parsed = {turns.parse(turn) for turn in found}
    assert parsed == {(1, 3), (2, 3), (3, 3)}
    shared = {"slow": True, "xdist_group": pytest.mark.xdist_group("shared").mark}
    marks = [{}, {"slow": True}, shared, shared, *[{"slow": True}] * 3]
    items = [
        SimpleNamespace(nodeid=f"test {number}", get_closest_marker=names.get)
        for number, names in enumerate(marks)
    ]
    parts = [[items.index(item) for item in turns.others(items, turn)] for turn in parsed]
    assert sorted(parts) == [[1, 2, 3, 5, 6], [1, 4, 5], [2, 3, 4, 6]]


def test_what_other_environments_have_is_tested_there():
    """A file whose tests need a package that `.venv` lacks is named where it is."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        calls = re.findall(r"(?:check|package|needs)\(([^)]*)\)", path.read_text("utf-8"))
        names = {name.partition(".")[0] for call in calls for name in re.findall(r'"(.*?)"', call)}
        for name in names & NEEDS.keys():
            environments = NEEDS[name].environments
            if environments and ".venv" not in environments and path.stem != "test_needs":
                file = str(path.relative_to(ROOT))
                named = [(one, paths) for part in parts_of_ci() for one, _, paths in commands(part)]
                own = [(one, [path.partition("::")[0] for path in paths]) for one, paths in named]
                where = {one for one, paths in own if file.startswith((*paths, "-"))}
                assert where & set(environments), (file, name)


def test_paths_of_the_parts_exist():
    for part in parts_of_ci():
        for _, _, paths in commands(part):
            for place in paths:
                file, _, function = place.partition("::")
                found = [*ROOT.glob(file)]
                assert found, place
                assert f"def {function}" in found[0].read_text("utf-8") if function else True, place
