"""What tests need and is not there: they skip, and in CI they fail."""

import re
import subprocess

import pytest
from support import needs

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize(
    ("in_ci", "environment", "outcomes"),
    [
        (False, ".venv", [pytest.skip.Exception] * 2),
        (True, ".venv", [pytest.fail.Exception] * 2),
        # The package is of another environment, the program of every one.
        (True, ".venv-torch", [pytest.skip.Exception, pytest.fail.Exception]),
    ],
)
def test_what_is_missing(in_ci, environment, outcomes):
    here = {"environment": environment, "in_ci": in_ci}
    needs.check("PIL", **here)
    package, program = outcomes
    for call in (needs.check, needs.package):
        with pytest.raises(package, match="needs no_such_package: make it"):
            call("no_such_package", **here)
        with pytest.raises(program, match="needs no_such_program: write it"):
            call("no_such_program", **here)


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
