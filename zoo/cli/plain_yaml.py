"""YAML from a file or a command line, whose size is checked before anything is built."""

from collections.abc import Mapping
from typing import Any

import yaml

MAX_CHARACTERS = 2**14  # the longest configuration of the zoo has 1,200
MAX_DEPTH = 10  # nested lists and sections; settings need three


def load(text: str) -> Any:
    """Parses a YAML document into plain Python types.

    Aliases are refused: a few lines of them can expand to gigabytes.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"expected at most {MAX_CHARACTERS} characters of YAML. Received: {len(text)}"
        )
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            line = event.start_mark.line + 1
            if depth > MAX_DEPTH:
                raise ValueError(
                    f"expected at most {MAX_DEPTH} levels of YAML. Received: more, in line {line}"
                )
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(
                    f"expected YAML without aliases. Received: *{event.anchor} in line {line}"
                )
        return yaml.safe_load(text)
    except Exception as error:  # constructors of tags raise many kinds
        raise ValueError(" ".join(str(error).split())) from None


def typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Parses the strings among arguments, which are from a command line, as YAML."""
    values = dict(overrides)
    for key, value in overrides.items():
        if isinstance(value, str):
            try:
                values[key] = load(value)
            except ValueError as error:
                received = f"Received: {value[:50]!r} ({error})"
                raise ValueError(f"expected a value of YAML for {key}. {received}") from None
    return values
