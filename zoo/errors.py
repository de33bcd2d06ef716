"""Parts of error messages: nearest names, printable input, packages to install."""

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


LONGEST = 2000  # characters of an error message


def refusal(expected: str, received: object) -> ValueError:
    """Returns the error of an unexpected value; `expected` may begin with the setting."""
    return ValueError(f"{expected}. Received: {received}")


def require(condition: object, expected: str, received: object) -> None:
    """Refuses a value unless a condition holds."""
    if not condition:
        raise refusal(expected, received)


def no_address(host: str, port: int, error: Exception) -> ValueError:
    """Returns the error of an address that a server on this machine cannot listen on."""
    why = getattr(error, "strerror", None) or error
    return refusal(f"expected --host and --port of a free address here ({why})", f"{host}:{port}")


def check_known(name: str, known: Collection[str], expected: str) -> None:
    """Refuses an unknown name; the error has the nearest known one."""
    if name not in known:
        raise ValueError(f"{expected}. {unknown(name, known)}")


@contextmanager
def errors_of(
    setting: str,
    kind: type[Exception] | tuple[type[Exception], ...] = ValueError,
    text: Callable[[Exception], object] = str,
) -> Iterator[None]:
    """Turns errors of the `with` block into `ValueError`s that begin with a setting."""
    try:
        yield
    except kind as error:
        raise ValueError(f"{setting}: {text(error)}") from None


def shorten(text: str, longest: int = LONGEST) -> str:
    """Cuts a text to its first and last characters, in the ratio of 3 to 1, if it is longer."""
    if len(text) <= longest:
        return text
    left_out = f" [{len(text) - longest:,} characters left out] "
    return text[: longest * 3 // 4] + left_out + text[-longest // 4 :]


def unknown(received: object, allowed: Iterable[str]) -> str:
    """Returns the end of an error message: received value, nearest match, allowed values."""
    allowed = list(allowed)
    nearest = get_close_matches(str(received), allowed, n=1)
    hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
    return f"Received: {shorten(repr(received), 200)}{hint}. Allowed: {', '.join(allowed)}"


def first_wrong(error: "ValidationError", data: str) -> str:
    """Returns the first error of a validation in one line: place, reason, value."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or data
    reason = first["msg"].removeprefix("Value error, ")
    if "Received" not in reason and first["type"] not in ("missing", "json_invalid"):
        reason += f", not {reprlib.repr(first['input'])}"
    return f"{where}: {reason}"


def some(names: Iterable[str], shown: int = 3, separator: str = ", ") -> str:
    """Returns the first names of a list, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return separator.join(names[:shown]) + more


def printable(text: object) -> str:
    r"""Escapes untrusted text, such as names of files, for terminals and files.

    Control characters, changes of direction and bytes that are not UTF-8 become Python's escape
    sequences: `\x1b`, `\u202e`, `\udce9`.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text)
    )


def install(extra: str) -> str:
    """Returns the command that installs an extra, from a folder or wheel instead of by name.

    No package index has this project, and anybody could register its name there.
    """
    return f"pip install 'SOURCE[{extra}]', SOURCE being the folder or the wheel of lambda_keras"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Names the extra to install in the `ImportError` of the `with` block."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: {install(extra)}"
        raise ImportError(message, name=error.name) from error
