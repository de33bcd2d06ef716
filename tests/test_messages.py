"""Error messages and settings are rows of text files, which tools write."""

import pytest

from tools import messages, settings

pytestmark = pytest.mark.one_backend
ROOMS = {path.parent.name for path in (messages.ROOT / "zoo").glob("*/__init__.py")}
CASES = {
    "messages": (messages.ROWS, messages.messages, {*messages.PACKAGES, *ROOMS}),
    "settings": (settings.ROWS, settings.settings, set()),
}


@pytest.mark.parametrize("kind", CASES)
def test_every_one_has_its_row(kind):
    """A room that was taken out has none."""
    file, write, places = CASES[kind]
    rows, found = file.read_text("utf-8").splitlines(), write()
    assert rows == sorted(set(rows))
    places = places or {row.partition(":")[0] for row in found}
    known = {row for row in rows if row.partition(":")[0] in places}
    new, gone = sorted(found - known), sorted(known - found)
    assert (new, gone) == ([], []), f"is it meant? python -m tools.{kind}"
