"""Parts of error messages."""

import os
from pathlib import Path

import pytest

from zoo.errors import printable, some


def test_first_names_and_the_number_of_others():
    assert [some("abc"), some("abcd"), some("ab", 1, "; ")] == [
        "a, b, c",
        "a, b, c and 1 more",
        "a and 1 more",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 5 %, 日本 \\", "größe 5 %, 日本 \\"),
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("two\nlines\r\t\u2028", r"two\nlines\r\t\u2028"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        (Path(os.fsdecode(b"caf\xe9.jpg")), r"caf\udce9.jpg"),
    ],
)
def test_what_came_from_outside_commands_no_terminal(text, shown):
    assert printable(text) == shown
    assert printable(text).encode()
