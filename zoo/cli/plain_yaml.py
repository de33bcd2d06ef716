"""YAML from a file or a command line, measured before anything is built from it."""

from collections.abc import Mapping
from typing import Any

import yaml

MAX_CHARACTERS = 2**14  # the longest configuration of the zoo has 1,200
MAX_DEPTH = 10  # lists and sections within one another; settings need three


def load(text: str) -> Any:
    """Parses a YAML document into plain Python types.

    Aliases are refused: a few lines of them can stand for gigabytes.

    Raises:
        ValueError: One line, if it is not YAML, or too long, too deep, or has aliases.
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
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(
                    f"expected YAML without aliases. Received: *{event.anchor} in line {line}"
                )
            if depth > MAX_DEPTH:
                raise ValueError(
                    f"expected at most {MAX_DEPTH} levels of YAML. Received: more, in line {line}"
                )
        return yaml.safe_load(text)
    except Exception as error:  # what builds values from tags raises many kinds
        raise ValueError(" ".join(str(error).split())) from None


def typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments from a command line, which has only strings, with YAML's types.

    Example:

    >>> from zoo.cli.plain_yaml import typed
    >>> typed({"scope": "7", "placement": "CCLL"})
    {'scope': 7, 'placement': 'CCLL'}

    Raises:
        ValueError: If a value is not YAML.
    """
    values = dict(overrides)
    for key, value in overrides.items():
        if isinstance(value, str):
            try:
                values[key] = load(value)
            except ValueError as error:
                received = f"Received: {value[:50]!r} ({error})"
                raise ValueError(f"expected a value of YAML for {key}. {received}") from None
    return values
