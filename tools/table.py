"""Markdown tables from reports: `python -m tools.table --help`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import unknown
from zoo.measurements import Column, column, columns, read_report
from zoo.model_card import table

Row = Mapping[str, Any]


class Config(Settings):
    """Prints a Markdown table of the JSON files of zoo.benchmark and tools.compiled.

    Columns are keys of rows, such as forward.ms for nested ones, or of the whole report, such as
    hardware.cpu. Example:

      python -m tools.table layer.json --columns size --across scope --values forward.ms
    """

    files: CliPositionalArg[list[Path]]
    """JSON files (--output of a command)."""
    columns: tuple[str, ...]
    """Keys, separated by commas."""
    across: str | None = None
    """Key whose values become columns next to each other."""
    values: tuple[str, ...] = ()
    """Keys to show in each of these columns."""
    where: tuple[str, ...] = ()
    """Rows to show: KEY=VALUE, separated by commas; empty: all."""


def main(arguments: Sequence[str]) -> None:
    """Reads the reports and prints the table."""
    config = Config.from_command_line(arguments, "python -m tools.table")
    rows = [row for path in config.files for row in read(path)]
    wanted = [condition.partition("=") for condition in config.where]
    used = [*config.columns, *config.values, *(key for key, *_ in wanted)]
    for key in filter(None, (*used, config.across)):
        if all(column(key).value(row) is None for row in rows):
            raise ValueError(f"expected a key of the rows. {unknown(key, rows[0])}")
    for key, _, value in wanted:
        rows = [row for row in rows if str(column(key).value(row)).lower() == value.lower()]
    print(markdown(rows, columns(*config.columns), config.across, columns(*config.values)))


def read(path: Path) -> list[Row]:
    """Reads the rows of a report, each with the report's own keys."""
    report = read_report(path)
    return [{**report, **row} for row in report["rows"]]


def markdown(
    rows: Sequence[Row], columns: Sequence[Column], across: str | None, values: Sequence[Column]
) -> str:
    """Formats rows as a table; merges rows whose cells in `columns` are equal."""
    lines: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        cells = tuple(field.cell(row) for field in columns)
        lines.setdefault(cells, {})[_name(column(across), row) if across else ""] = row
    names = dict.fromkeys(name for line in lines.values() for name in line)
    head = [field.title for field in columns]
    for name in names:
        head += [name] if len(values) == 1 else [f"{name}: {field.title}" for field in values]
    body = (
        [*cells, *(field.cell(line.get(name, {})) for name in names for field in values)]
        for cells, line in lines.items()
    )
    return table(head, body)


def _name(across: Column, row: Row) -> str:
    """Returns the heading of a column: texts as they are, numbers with the title of `across`."""
    is_text = isinstance(across.value(row), str)
    return across.cell(row) if is_text else f"{across.title} {across.cell(row)}"


if __name__ == "__main__":
    run_command(main)
