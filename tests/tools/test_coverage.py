"""The paper's statements: what shows each of them exists, and the docs have them as printed."""

import json
import re
import shlex
from pathlib import Path

import pytest
from support.commands import parse

from tools.coverage import STATES, main, read_coverage

ROOT = Path(__file__).parents[2]
ROWS = read_coverage()
SHOWN_BY = sorted({name for row in ROWS for name in row.shown_by})

pytestmark = pytest.mark.one_backend


def printed(capsys, *arguments: str) -> str:
    main(arguments)
    return capsys.readouterr().out


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.place}: {row.statement[:40]}")
def test_row(row):
    """A place and a statement of one line; something that shows it, or a reason."""
    assert row.shown_by or row.missing
    assert not (row.missing and row.contradicted)
    assert row.state in STATES
    for text in (row.section, row.place, row.statement, row.missing, row.contradicted):
        assert isinstance(text, str)
        assert len(text) <= 110
        assert not re.search(r"[\n|]|\.$", text)


def test_every_statement_is_there_once():
    assert len({row.statement for row in ROWS}) == len(ROWS)
    places = {place for row in ROWS for place in row.places}
    for name, count in {"Table": 20, "Figure": 8, "Eq.": 5}.items():
        assert {f"{name} {number + 1}" for number in range(count)} <= places


@pytest.mark.parametrize("name", SHOWN_BY)
def test_it_exists(name):
    """Files have the test and its case, commands their settings, pages of the docs the heading."""
    kind, _, rest = name.partition(" ")
    if kind == "python":
        _, program, *arguments = shlex.split(rest)
        parse(program, arguments)
    elif match := re.fullmatch(r"(tests/.*\.py)::(test_\w+)(\[(\w+)-?.*\])?", name):
        text = (ROOT / match[1]).read_text(encoding="utf-8")
        assert f"def {match[2]}(" in text
        assert match[4] is None or re.search(rf"\b{match[4]}\b", text)
    else:
        path, _, anchor = name.partition("#")
        headings = re.findall(r"(?m)^#+ (.*)", (ROOT / path).read_text(encoding="utf-8").lower())
        # As GitHub makes links of headings.
        assert anchor in {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in headings}


def test_counts_are_at_the_end(capsys):
    counts = {state: sum(row.state == state for row in ROWS) for state in STATES}
    total = "{works} work, {partly} partly, {contradicted} contradicted, {not} not".format(**counts)
    assert printed(capsys).splitlines()[-1] == total
    *_, last = printed(capsys, "--format", "markdown").splitlines()
    assert last == f"{len(ROWS)} statements: {total}."
    assert min(counts.values()) > 0


def test_places_and_states(capsys):
    arguments = ("Table [89]", "Table 1[67]", "--state", "partly")
    *lines, _, total = printed(capsys, *arguments).splitlines()
    places = [line.split("  ")[1].strip() for line in lines[1:] if line.startswith("partly")]
    assert {*places} == {"B.4; Table 8", "Table 9", "Table 16", "Table 17"}
    assert total == f"0 work, {len(places)} partly, 0 contradicted, 0 not"
    assert max(map(len, lines)) < 140


def test_json_has_the_state(capsys):
    rows = json.loads(printed(capsys, "--format", "json"))
    assert [row["state"] for row in rows] == [row.state for row in ROWS]
    assert {*rows[0]} == {*vars(ROWS[0]), "state"}
