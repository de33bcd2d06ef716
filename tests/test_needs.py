"""What tests need and is not there: they skip, and in CI they fail."""

import re
import subprocess
import sys

import pytest
from support import needs

pytestmark = pytest.mark.one_backend


@pytest.fixture
def missing(monkeypatch):
    """A package that is not there, and has to be in .venv."""
    monkeypatch.setitem(needs.NEEDS, "no_such_package", needs.Need("make it", (".venv",)))


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize(
    ("ci", "environment", "outcome"),
    [
        ("", ".venv", pytest.skip.Exception),
        ("true", ".venv", pytest.fail.Exception),
        ("true", ".venv-torch", pytest.skip.Exception),  # that of another environment
    ],
)
def test_missing_package(monkeypatch, ci, environment, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sys, "prefix", f"/home/a/{environment}")
    needs.check("PIL")
    for call in (needs.check, needs.package):
        with pytest.raises(outcome, match="needs no_such_package: make it"):
            call("no_such_package")


def test_missing_program_fails_in_ci_in_every_environment(monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(sys, "prefix", "/home/a/.venv-pseudo")
    monkeypatch.setitem(needs.PROGRAMS, "chromium", None)
    with pytest.raises(pytest.fail.Exception, match="chromium: apt-get install chromium"):
        needs.check("chromium")


@pytest.mark.needs("make")
def test_make_docs_says_first_what_it_needs(tmp_path):
    for name, program in (("npm", "npm"), ("a browser", "chromium")):
        make = [needs.PROGRAMS["make"], "--silent", "-f", needs.ROOT / "Makefile", "docs-programs"]
        found = subprocess.run(
            make, cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True
        )
        line, _ = found.stderr.splitlines()  # and make's own
        assert line.startswith(f"make docs needs {name}: install ")
        (tmp_path / program).touch(0o755)
    subprocess.run(make, cwd=tmp_path, env={"PATH": str(tmp_path)}, check=True)


def test_no_test_skips_in_another_way():
    """Only for its backend or processor may a test skip by itself."""
    for path in (needs.ROOT / "tests").rglob("*.py"):
        if path.name in ("needs.py", "test_needs.py"):
            continue
        text = path.read_text("utf-8")
        assert not re.findall(r"importorskip|pytest\.skip\(|unittest", text), path
        for condition in re.findall(r"skipif\(([^)]*)", text):
            assert re.match(r"BACKEND|keras\.backend\.backend|platform\.machine", condition), path
