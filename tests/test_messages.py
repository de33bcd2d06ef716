"""Every error message of the packages is a row of messages.txt, which `tools.messages` writes."""

import pytest

from tools.messages import PACKAGES, ROOT, ROWS, messages


@pytest.mark.one_backend
def test_every_message_has_its_row():
    rows, found = ROWS.read_text("utf-8").splitlines(), messages()
    assert rows == sorted(set(rows))
    # A room that was taken out has no messages.
    rooms = {*PACKAGES, *(path.parent.name for path in (ROOT / "zoo").glob("*/__init__.py"))}
    known = {row for row in rows if row.partition(":")[0] in rooms}
    new, gone = sorted(found - known), sorted(known - found)
    assert (new, gone) == ([], []), "is it meant? python -m tools.messages"
