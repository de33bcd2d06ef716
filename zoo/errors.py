"""Parts of error messages: nearest names, printable input, packages to install."""

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def unknown(received: str, allowed: Iterable[str]) -> str:
    """Returns the end of an error message: what came, the nearest match, and what is allowed."""
    allowed = list(allowed)
    nearest = get_close_matches(received, allowed, n=1)
    hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
    return f"Received: {received!r}{hint}. Allowed: {', '.join(allowed)}"


def first_wrong(error: "ValidationError", data: str) -> str:
    """Returns the first thing that is wrong with some data: where, what, and what is there."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or data
    reason = first["msg"].removeprefix("Value error, ")
    if "Received" not in reason and first["type"] not in ("missing", "json_invalid"):
        reason += f", not {reprlib.repr(first['input'])}"
    return f"{where}: {reason}"


def some(names: Iterable[str], shown: int = 3) -> str:
    """Returns the first few of some names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def shortened(text: str, most: int = 2000) -> str:
    """Cuts out the middle of a text that is longer than a terminal shows at once."""
    if len(text) <= most:
        return text
    left_out = f" [{len(text) - most:,} characters left out] "
    return text[: most * 3 // 4] + left_out + text[-most // 4 :]


def printable(text: object) -> str:
    """Returns text from outside in one line that commands no terminal and that any file can hold.

    Control characters, changes of direction and the bytes of a name that is not UTF-8 are shown as
    Python writes them: `\\x1b`, `\\u202e`, `\\udce9`.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text)
    )


def install(extra: str) -> str:
    """Returns how to install an extra: from what this was installed from, not by its name.

    No package index has this project, and any project may take its name there.
    """
    return f"pip install 'SOURCE[{extra}]', SOURCE being the folder or the wheel of lambda_keras"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Wraps the import of a package of an extra, so that a missing one says what to install.

    Raises:
        ImportError: If an import inside the `with` block does not find its package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: {install(extra)}"
        raise ImportError(message, name=error.name) from error
