"""`python -m tools.rooms`: what belongs to a room, and what is missed without it."""

import re
from pathlib import Path

import pytest
from support.commands import write

from tools import rooms


@pytest.mark.parametrize("name", rooms.ROOMS)
def test_every_row_is_there_and_the_room_has_files(name):
    room = rooms.ROOMS[name]
    assert any([*rooms.ROOT.glob(pattern)] for pattern in room.paths)
    for (file, table), keys in room.rows.items():
        for key in keys:
            assert rooms.entries((rooms.ROOT / file).read_text("utf-8"), table, key)


def test_a_room_is_taken_out(here):
    table = 'ROWS = {\n  "one": "zoo.one:run",\n  "more": {\n    "other": "zoo.other",\n  },\n}\n'
    imports = {
        "zoo/one.py": "def run():\n    from zoo import other\n",
        "tests/test_one.py": "from zoo.one import run, gone\n",
    }
    packages = dict.fromkeys(["zoo/cli/__init__.py", "zoo/other/__init__.py"], "")
    write({"zoo/cli/commands.py": table, **imports, **packages})
    missing = "zoo.one:gone in tests/test_one.py"
    assert rooms.dangling(here) == {missing}
    rooms.take_out(here, rooms.Room(("zoo/other",), {}))
    used = "zoo:other in zoo/one.py"
    assert rooms.dangling(here) == {missing, used, "zoo.other: in zoo/cli/commands.py"}
    path = ("zoo/cli/commands.py", "ROWS")
    rooms.take_out(here, rooms.Room((), {path: ["other"]}))
    assert rooms.dangling(here) == {missing, used}
    rows = eval(Path(path[0]).read_text().removeprefix("ROWS = "))
    assert rows == {"one": "zoo.one:run", "more": {}}
    with pytest.raises(ValueError, match=r"expected the key 'other' in ROWS of commands\.py"):
        rooms.take_out(here, rooms.Room((), {path: ["other"]}))


def test_pages_lose_lines_with_links_and_commands_of_the_room(here):
    kept = "# Page\n\nSee [training](training.md).\npython -m zoo.demos\ntraining\n"
    gone = "[Guide](guide.md#flops) and more\nguide\nKEY=1 python -m zoo.demo \\\n  --run digits\n"
    write({"docs/page.md": gone + kept, "docs/training.md": ""})
    rooms.forget(page := here / "docs" / "page.md", here, re.compile(r"python -m zoo\.demo\b"))
    assert page.read_text() == kept


def test_unknown_rooms_are_refused():
    room = next(iter(rooms.ROOMS))
    refused = rf"no such room\. Received: '{room}s' \(did you mean '{room}'"
    with pytest.raises(ValueError, match=refused):
        rooms.main([f"{room}s"])
