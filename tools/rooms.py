"""Takes rooms out of copies of the checkout, and checks what is left: `python -m tools.rooms`."""

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import unknown
from zoo.fields import Count

ROOT = Path(__file__).resolve().parents[1]
COMMANDS, TASKS = ("zoo/cli/commands.py", "COMMANDS"), ("zoo/cli/tasks.py", "TASKS")
PACKAGES = ("lambda_keras", "zoo", "tools", "tests")
NAMED = re.compile(r"^(zoo(?:\.\w+)+):?(\w*)$")
PAGES = ("*.md", "docs/**/*.md", "notebooks/*.md")
Table = tuple[str, str]  # file, and name of the dictionary


class Room(NamedTuple):
    """Files of a room, as patterns, with tests and pages; and its keys in tables."""

    paths: Sequence[str]
    rows: Mapping[Table, Sequence[str]]
    words: str = ""  # regular expression of words that no `--help` may have without the room


def _command(name: str, *paths: str, tables: Sequence[Table] = (COMMANDS,)) -> Room:
    """Returns the room of one command, which may also have rows in the tables of tasks."""
    folders = (f"zoo/{name}", f"tests/zoo/{name}", f"tests/zoo/test_{name}.py")
    return Room((*folders, *paths), {table: [name] for table in tables}, rf"zoo\.{name}\b")


def _extension(name: str, *paths: str, words: str) -> Room:
    """Returns the room of an extension of `zoo.evaluate`."""
    folders = (f"zoo/evaluate/{name}", f"tests/zoo/evaluate/{name}")
    return Room((*folders, *paths), {TASKS: [name]}, words)


def _of_detectors(verb: str) -> tuple[str, str]:
    return f"zoo/detection/{verb}.*", f"tests/zoo/detection/test_{verb}.py"


ROOMS = {
    "detection": Room(
        (
            "zoo/detection",
            "tests/zoo/detection",
            "tests/bad_inputs/*detection*",
            "tests/support/detectors.py",
            "tests/fixtures/detector_run",
            "t*/**/*detection_cost.py",
            "t*/**/*shapes.py",
            "tpu_configs/*_coco.yaml",
            "tpu_configs/*_shapes.yaml",
            "docs/detection.md",
            "notebooks/detection.ipynb",
            "notebooks/segmentation.ipynb",
        ),
        {
            TASKS: ["detection"],
            COMMANDS: ["detection.convert"],
            ("tests/notebooks/test_notebooks.py", "CASES"): ["detection", "segmentation"],
        },
        r"zoo\.detection|[Dd]etector|COCO",
    ),
    "serve": _command(
        "serve",
        "tests/bad_inputs/test_serve.py",
        "tests/support/serving.py",
        "tests/zoo/detection/test_verbs.py",
    ),
    "demo": _command("demo", *_of_detectors("demo"), tables=(COMMANDS, TASKS)),
    "publish": _command(
        "publish",
        *_of_detectors("publish"),
        "tests/zoo/detection/test_verbs.py",
        tables=(COMMANDS, TASKS),
    ),
    "maps": _command("maps"),
    "convert": _command("convert"),
    "flops": _command("flops"),
    "benchmark": _command(
        "benchmark",
        "tests/support/tiny_networks.py",
        *(f"t*/**/*{name}.py" for name in ("compiled", "compiler", "lowering", "kernels")),
        "tools/devices.yaml",
    ),
    "pseudo_label": _command(
        "pseudo_label", "tools/measure_pseudo_labels.py", "docs/pseudo_labels.md"
    ),
    "calibration": _extension(
        "calibration",
        "t*/**/*noisy_student.py",
        "docs/benchmarks/noisy_student.json",
        "docs/calibration.md",
        words="calibrate",
    ),
    "corruptions": _extension("corruptions", words="orruption"),
}


class RoomsConfig(Settings):
    """Takes rooms out, one after the other, each in a copy of the checkout, and checks the rest.

    Every import has to resolve, every --help has to work and not name the room, and the other
    tests have to pass. Example:

      python -m tools.rooms detection --quick true
    """

    rooms: CliPositionalArg[list[str]] = Field(default=[])
    """Rooms to take out, one after the other; none: each."""
    quick: bool = False
    """Run the tests of imports, tables, commands and pages alone."""
    workers: Count = 2
    """Rooms at a time."""


def main(arguments: Sequence[str]) -> None:
    """Takes each room out, and prints how long its checks took."""
    config = RoomsConfig.from_command_line(arguments, "python -m tools.rooms")
    for name in config.rooms:
        if name not in ROOMS:
            raise ValueError(f"rooms: no such room. {unknown(name, ROOMS)}")
    names = config.rooms or [*ROOMS]
    with ThreadPoolExecutor(config.workers) as pool:
        failed = [*filter(None, pool.map(partial(report, quick=config.quick), names))]
    if failed:
        raise ValueError(f"expected rooms that can be taken out. Received: {', '.join(failed)}")


def report(name: str, quick: bool) -> str:
    """Prints the failures without a room, and the time; returns its name if there are any."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"without-{name}-") as folder:
        wrong = check(Path(folder), name, quick)
    seconds = time.monotonic() - start
    print(f"without {name}: {wrong or 'all is well'}, {seconds:.0f} s", flush=True)
    return name if wrong else ""


def check(copy: Path, name: str, quick: bool) -> str:
    """Takes a room out of a copy of the checkout; returns the failures."""
    copy_checkout(copy)
    take_out(copy, ROOMS[name])
    forget_mentions(copy, ROOMS[name])
    drop(copy / "tools" / "rooms.py", "ROOMS", name)
    if missing := sorted(dangling(copy) - dangling(ROOT)):
        return "imports that lead nowhere: " + ", ".join(missing)
    for arguments in (["-c", f"{HELPS}({ROOMS[name].words!r})"], *_tests(quick)):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            print(done.stdout[-4000:], flush=True)
            return f"{' '.join(arguments[:2])[:40]} failed"
    return ""


def _tests(quick: bool) -> list[list[str]]:
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Tests of layers import nothing of a room.
    return [[*pytest, *(QUICK_TESTS if quick else ["tests", "--ignore=tests/layers"])]]


# An editable installation would find in the checkout what the copy lacks.
WITHOUT_CHECKOUT = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in str(finder)]
"""
HELPS = "from tools.rooms import check_helps; check_helps"
QUICK_TESTS = (
    *(f"tests/test_{name}.py" for name in ("gate", "imports", "keras_private", "messages")),
    *("tests/test_readme.py", "tests/test_release.py"),
    *("tests/notebooks", "tests/tools/test_coverage.py", "tests/zoo/test_docs.py"),
    *(f"tests/zoo/cli/test_{name}.py" for name in ("main", "tasks", "every_task")),
)


def check_helps(words: str) -> None:
    """Checks every `--help` of this checkout: it is there, and has none of the words."""
    from zoo.cli import commands, main

    helps: dict[str, tuple[Callable[[list[str]], None], list[str]]]
    helps = {"lambda-keras": (lambda _: main.main(), [])}
    for verb, row in commands.COMMANDS.items():
        run = main.Verb(verb)
        tasks = row.places if len(row.places) > 1 else ()
        helps |= {f"{verb} {part}": (run, [part]) for part in row.parts} | {verb: (run, [])}
        helps |= {f"{verb}, {task}": (run, ["--task", task]) for task in tasks}
    sys.argv = ["lambda-keras", "--help"]
    for name, (run, rest) in helps.items():
        with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
            run([*rest, "--help"])
        text = printed.getvalue()
        match = re.search(words, text)
        if match or not text.startswith("usage: "):
            around = text[max(0, match.start() - 60) : match.end() + 20] if match else text[:80]
            raise ValueError(f"{name} --help: {around!r}")


def copy_checkout(folder: Path) -> None:
    """Copies tracked and unignored files into an empty folder, as a git repository."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)

    (folder / "sitecustomize.py").write_text(WITHOUT_CHECKOUT, "utf-8")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Copy"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def take_out(folder: Path, room: Room) -> None:
    """Removes the files of a room, and its rows of tables."""
    for pattern in room.paths:
        for path in [*folder.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for (file, table), keys in room.rows.items():
        for key in keys:
            drop(folder / file, table, key)


def forget_mentions(folder: Path, room: Room) -> None:
    """Removes mentions of a removed room from pages, services, targets and golden files."""
    programs = [f"zoo.{key}" for key in room.rows.get(COMMANDS, ())]
    programs += [
        f"tools.{path.stem}"
        for path in (ROOT / "tools").glob("*.py")
        if not (folder / "tools" / path.name).exists()
    ]
    command = re.compile(rf"python -m ({'|'.join(map(re.escape, programs)) or '(?!)'})\b")
    for page in (page for place in PAGES for page in folder.glob(place)):
        forget(page, folder, command)
    forget_statements(folder, command)
    forget_reasons(folder)
    forget_services(folder / "compose.yaml", room.rows.get(COMMANDS, ()))
    makefile = folder / "Makefile"
    paths = re.findall(r" (tests/[\w/.]+)(?![\w/.*])", makefile.read_text("utf-8"))
    for path in {path for path in paths if not (folder / path).exists()}:
        makefile.write_text(makefile.read_text("utf-8").replace(f" {path}", ""), "utf-8")
    subprocess.run([sys.executable, "-m", "tools.messages"], cwd=folder, check=True)


def forget(page: Path, folder: Path, command: re.Pattern[str]) -> None:
    """Removes the lines of a page that link to missing files or run missing commands."""
    place = page.parent.relative_to(folder)

    def is_gone(link: str) -> bool:
        return (ROOT / place / link).exists() and not (folder / place / link).exists()

    lines = []
    # A command may span several lines.
    for line in re.findall(r"(?:.*\\\n)*.*\n?", page.read_text("utf-8")):
        links = re.findall(r"\]\(([^)#]+)", line)
        if re.fullmatch(r"[\w./]+\n", line):  # of a table of contents, without its suffix
            links += [line.strip() + suffix for suffix in (".md", ".ipynb")]
        if not (any(map(is_gone, links)) or command.search(line)):
            lines.append(line)
    page.write_text("".join(lines), "utf-8")


def forget_statements(folder: Path, command: re.Pattern[str]) -> None:
    """Removes missing files and commands from the evidence for the paper's statements."""
    path = folder / "tools" / "coverage.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    for row in (row for rows in content.values() for row in rows):
        row["shown_by"] = [
            name
            for name in row.get("shown_by", ())
            if not command.search(name)
            and (name.startswith("python ") or (folder / re.split("::|#", name)[0]).exists())
        ]
        if not row["shown_by"] and "contradicted" not in row:
            row["missing"] = "taken out"
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")


def forget_reasons(folder: Path) -> None:
    """Removes the reasons for private names of Keras in missing files."""
    path = folder / "tests" / "keras_private.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    rows = content["reasons"].items()
    content["reasons"] = {file: names for file, names in rows if (folder / file).exists()}
    path.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")


def forget_services(path: Path, verbs: Sequence[str]) -> None:
    """Removes the services that run missing commands."""
    content = yaml.safe_load(path.read_text("utf-8"))
    content["services"] = {
        name: service
        for name, service in content["services"].items()
        if service.get("command", "").partition(" ")[0] not in verbs
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")


def drop(path: Path, table: str, key: str) -> None:
    """Removes the lines of an entry of a dictionary from a module."""
    text = path.read_text("utf-8")
    spans = entries(text, table, key)
    if not spans:
        raise ValueError(f"expected the key {key!r} in {table} of {path.name}. Received: none")
    lines = text.splitlines(keepends=True)
    for first, last in sorted(spans, reverse=True):
        del lines[first - 1 : last]
    path.write_text("".join(lines), "utf-8")


def entries(text: str, table: str, key: str) -> list[tuple[int, int]]:
    """Returns the first and last line of the entries of a key in a dictionary, and within it."""
    return [
        (name.lineno, value.end_lineno or value.lineno)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == table
        for inner in ast.walk(node)
        if isinstance(inner, ast.Dict)
        for name, value in zip(inner.keys, inner.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key
    ]


def dangling(folder: Path) -> set[str]:
    """Returns the imports that do not resolve, at any level of the code.

    Names of modules in the tables of commands and tasks are imports, too.
    """
    unresolved = set()
    for path in (file for name in PACKAGES for file in (folder / name).rglob("*.py")):
        names: list[tuple[str, str]] = []
        tree = ast.parse(path.read_text("utf-8"))
        # A test may import another room where it needs it.
        for node in tree.body if path.is_relative_to(folder / "tests") else ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = re.sub("^support", "tests.support", str(node.module))
                names += [(module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Constant) and path.parent == folder / "zoo" / "cli":
                names += NAMED.findall(str(node.value))
        unresolved |= {
            f"{module}:{name} in {path.relative_to(folder)}"
            for module, name in names
            if module.split(".")[0] in PACKAGES and not _exists(folder, module, name)
        }
    return unresolved


def _exists(folder: Path, module: str, name: str) -> bool:
    """Returns whether there is a module, and a name in it or below it."""
    place = folder.joinpath(*module.split("."))
    if (name and (place / name).is_dir()) or (place / f"{name}.py").is_file():
        return True
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file.is_file() and name in file.read_text("utf-8")


if __name__ == "__main__":
    run_command(main)
