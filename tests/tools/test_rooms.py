"""`python -m tools.rooms`: what belongs to a room, and what is missed without it."""

import re

import pytest

from tools import rooms


@pytest.mark.parametrize("name", rooms.ROOMS)
def test_every_row_is_there_and_the_room_has_files(name):
    room = rooms.ROOMS[name]
    assert any([*rooms.ROOT.glob(pattern)] for pattern in room.paths)
    for (file, table), keys in room.rows.items():
        for key in keys:
            assert rooms.entries((rooms.ROOT / file).read_text("utf-8"), table, key)


def test_a_room_is_taken_out(tmp_path):
    folder = tmp_path / "zoo"
    for name in ("cli/__init__", "cli/commands", "one", "other/__init__"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").touch()
    table = 'ROWS = {\n  "one": "zoo.one:run",\n  "more": {\n    "other": "zoo.other",\n  },\n}\n'
    (folder / "cli" / "commands.py").write_text(table)
    (folder / "one.py").write_text("def run():\n    from zoo import other\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("from zoo.one import run, gone\n")
    missing = "zoo.one:gone in tests/test_one.py"
    assert rooms.dangling(tmp_path) == {missing}
    rooms.take_out(tmp_path, rooms.Room(("zoo/other",), {}))
    used = "zoo:other in zoo/one.py"
    assert rooms.dangling(tmp_path) == {missing, used, "zoo.other: in zoo/cli/commands.py"}
    path = ("zoo/cli/commands.py", "ROWS")
    rooms.take_out(tmp_path, rooms.Room((), {path: ["other"]}))
    assert rooms.dangling(tmp_path) == {missing, used}
    assert eval((folder / "cli" / "commands.py").read_text().removeprefix("ROWS = ")) == {
        "one": "zoo.one:run",
        "more": {},
    }
    with pytest.raises(ValueError, match=r"expected the key 'other' in ROWS of commands\.py"):
        rooms.take_out(tmp_path, rooms.Room((), {path: ["other"]}))


def test_pages_lose_lines_with_links_and_commands_of_the_room(tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    kept = "# Page\n\nSee [training](training.md).\npython -m zoo.demos\ntraining\n"
    gone = "[Guide](guide.md#flops) and more\nguide\nKEY=1 python -m zoo.demo \\\n  --run digits\n"
    page.write_text(gone + kept)
    (tmp_path / "docs" / "training.md").touch()
    rooms.forget(page, tmp_path, re.compile(r"python -m zoo\.demo\b"))
    assert page.read_text() == kept


def test_unknown_rooms_are_refused():
    room = next(iter(rooms.ROOMS))
    refused = rf"no such room\. Received: '{room}s' \(did you mean '{room}'"
    with pytest.raises(ValueError, match=refused):
        rooms.main([f"{room}s"])
