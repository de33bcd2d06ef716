"""Slow tests that take turns: `--turn 1/3` keeps every third one, and all that are not slow."""

import argparse
import re

import pytest


def parse(text: str) -> tuple[int, int]:
    """Reads `"1/3"` as the first of three parts."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected N/M, such as 1/3. Received: {text!r}")
    return int(found[1]), int(found[2])


def others(items: list[pytest.Item], turn: tuple[int, int]) -> list[pytest.Item]:
    """Slow tests of other turns. Tests of one xdist_group share fixtures, and their turn."""
    slow = [(item, _group(item)) for item in items if item.get_closest_marker("slow")]
    number, parts = turn
    mine = list(dict.fromkeys(group for _, group in slow))[number - 1 :: parts]
    return [item for item, group in slow if group not in mine]


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.nodeid
