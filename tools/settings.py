"""Writes every setting of the commands to tests/settings.txt: `python -m tools.settings`.

A row has a setting's JSON schema: type, limits and default. The diff of the file shows what changes
for users.
"""

import json
from collections.abc import Iterator
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from zoo.cli.commands import COMMANDS
from zoo.cli.tasks import load

ROWS = Path(__file__).parents[1] / "tests" / "settings.txt"
PROSE = {"title", "description"}


def settings() -> set[str]:
    """Returns the rows: the class that declares a setting, its name, and its schema."""
    commands = [part for row in COMMANDS.values() for part in (row, *row.parts.values())]
    places = {place.settings for command in commands for place in command.places.values()}
    rows = set()
    for declared in {kind for place in places for kind in _classes(load(place))}:
        fields = declared.model_json_schema().get("properties", {})
        for name in get_annotations(declared).keys() & fields.keys():
            schema = {key: value for key, value in fields[name].items() if key not in PROSE}
            place = f"{declared.__module__}:{declared.__name__}.{name}"
            rows.add(f"{place} {json.dumps(schema, sort_keys=True)}")
    return rows


def _classes(annotation: Any) -> Iterator[type[BaseModel]]:
    """Classes of settings within an annotation, with their bases and parts."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for base in annotation.__mro__:
            if issubclass(base, BaseModel) and base.__module__.startswith("zoo"):
                yield base
        for field in annotation.model_fields.values():
            yield from _classes(field.annotation)
    for part in get_args(annotation):
        yield from _classes(part)


if __name__ == "__main__":
    ROWS.write_text("".join(f"{row}\n" for row in sorted(settings())), encoding="utf-8")
