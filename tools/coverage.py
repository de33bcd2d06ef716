"""The paper's statements, and what shows each of them: `python -m tools.coverage`."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.list.command import as_columns
from zoo.model_card import table

OF_COVERAGE = ("place", "statement", "shown by", "not shown, or contradicted")
# States of statements, and their words in the line of totals.
STATES = {"works": "work", "partly": "partly", "contradicted": "contradicted", "not": "not"}


@dataclass(frozen=True)
class Statement:
    """A statement of the paper that software can show, and its evidence: from `coverage.yaml`."""

    section: str
    place: str
    statement: str
    shown_by: Sequence[str] = ()
    """Tests (FILE::NAME or FILE::NAME[CASE]), commands and pages of the docs."""
    missing: str = ""
    """Why, or what part, cannot be shown here, in one line."""
    contradicted: str = ""
    """Evidence of the opposite, in one line."""

    @property
    def places(self) -> list[str]:
        """Sections, tables, figures and equations with the statement."""
        return self.place.split("; ")

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.contradicted:
            return "contradicted"
        return ("partly" if self.shown_by else "not") if self.missing else "works"


def read_coverage() -> list[Statement]:
    """Reads the statements of the paper, in its order."""
    text = Path(__file__).with_name("coverage.yaml").read_text(encoding="utf-8")
    return [
        Statement(section, **row) for section, rows in yaml.safe_load(text).items() for row in rows
    ]


class Config(Settings, cli_prog_name="python -m tools.coverage"):
    """Lists the paper's statements: tests, commands and pages that show each, and what is missing.

    Example: python -m tools.coverage 'Table *' --state partly
    """

    patterns: CliPositionalArg[list[str]] = Field(default=["*"])
    """Shell patterns of places in the paper, e.g. 'Table *'."""
    state: Literal["works", "partly", "contradicted", "not"] | None = None
    """Only statements of this state."""
    format: Literal["table", "json", "markdown"] = "table"
    """Output format."""


def main(arguments: Sequence[str]) -> None:
    """Prints the statements."""
    print(text(Config.from_command_line(arguments)))


def text(config: Config) -> str:
    """Returns the statements in the format of the settings."""
    rows = [
        row
        for row in read_coverage()
        if any(fnmatchcase(place, pattern) for place in row.places for pattern in config.patterns)
        and config.state in (None, row.state)
    ]
    if not rows:
        raise ValueError(
            "expected patterns of places in the paper. Received: "
            f"{', '.join(map(repr, config.patterns))}, which match no statement"
        )
    if config.format == "json":
        return json.dumps([{**vars(row), "state": row.state} for row in rows], indent=1)
    counts = Counter(row.state for row in rows)
    total = ", ".join(f"{counts[state]} {name}" for state, name in STATES.items())
    if config.format == "markdown":
        sections = (
            f"### {section}\n\n{table(OF_COVERAGE, map(_markdown, group))}"
            for section, group in groupby(rows, lambda row: row.section)
        )
        return "\n\n".join([*sections, f"{len(rows)} statements: {total}."])
    lines = []
    for row in rows:
        lines.append((row.state, row.place, row.statement))
        lines += [("", "", f"  {name}") for name in row.shown_by]
        for name in ("missing", "contradicted"):
            lines += [("", "", f"  {name}: {getattr(row, name)}")] * bool(getattr(row, name))
    return f"{as_columns(('state', *OF_COVERAGE[:2]), lines, range(0))}\n\n{total}"


def _markdown(row: Statement) -> list[str]:
    """Returns the cells of a row of `OF_COVERAGE`, with links to pages in docs/."""
    shown = (
        f"[{name[5:].partition('#')[0]}]({name[5:]})" if name.startswith("docs/") else f"`{name}`"
        for name in row.shown_by
    )
    return [row.place, row.statement, ", ".join(shown) or "-", _but(row) or "-"]


def _but(row: Statement) -> str:
    return f"contradicted: {row.contradicted}" if row.contradicted else row.missing


if __name__ == "__main__":
    run_command(main)
