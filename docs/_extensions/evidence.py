"""Tables and figures of the evidence pages, made at build from the files that hold the numbers."""

import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import timm
import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS
from lambda_keras.models.specs import NETWORKS
from tools import plots
from tools import table as command
from tools.coverage import Statement, read_coverage
from zoo.measurements import read_report
from zoo.model_card import table as markdown
from zoo.results import RESULTS

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "docs" / "benchmarks"
RECORDED = BENCHMARKS / "recorded.yaml"
# What an implementation can do, and the heading of this column.
CAN = {
    "any_pairs": "absolute embeddings, relations, masks",
    "own_pairs": "of each example",
    "causal": "causal",
    "intra_depth": "intra-depth",
    "axes": "axes, at most",
    "unknown_grid": "unknown size",
}
IMAGES = 1_281_167  # for training, of ImageNet
TEST = re.compile(r"tests/(?P<file>.*)\.py::(?P<name>\w+)(?P<case>\[.*\])?")


def with_links(table: str) -> str:
    """Links the names of networks that begin a cell of a Markdown table."""
    names = "|".join(sorted(NETWORKS, key=len, reverse=True))
    return re.sub(rf"(?<=\| )(timm\.)?({names})\b([^| ]*)(?= \|)", r"[\1\2\3](#\2)", table)


class Evidence(SphinxDirective):
    """Base of the directives: names of files or rows, and tables in Markdown."""

    required_arguments = 1
    final_argument_whitespace = True

    def names(self) -> list[str]:
        """Arguments, apart by spaces."""
        return self.arguments[0].split()

    def source(self, key: str, title: str, commands: str, note: str = "") -> list[nodes.Node]:
        """Where numbers are from, folded up; once for each `key` of a page."""
        shown = self.env.temp_data.setdefault("evidence", set())
        if key in shown:
            return []
        shown.add(key)
        block = nodes.literal_block(commands, commands, language="sh")
        return [
            nodes.raw("", f'<details class="source"><summary>{title}</summary>', format="html"),
            *(self.parse_text_to_nodes(note) if note else []),
            *([block] if commands else []),
            nodes.raw("", "</details>", format="html"),
        ]


class Benchmark(Evidence):
    """`{benchmark} FILE ...`: rows of docs/benchmarks/FILE.json, and the commands that wrote them.

    Options are the same as of `python -m tools.table`.
    """

    option_spec = dict.fromkeys(("columns", "across", "values", "where"), directives.unchanged)

    def run(self) -> list[nodes.Node]:
        output = io.StringIO()
        paths = [BENCHMARKS / f"{name}.json" for name in self.names()]
        options = [word for key, value in self.options.items() for word in (f"--{key}", value)]
        with redirect_stdout(output):
            command.main([*map(str, paths), *options])
        found = self.parse_text_to_nodes(with_links(output.getvalue()))
        for path in paths:
            self.env.note_dependency(str(path))
            found += self.of_report(path)
        return found

    def of_report(self, path: Path) -> list[nodes.Node]:
        """Command, date, hardware and versions of a report."""
        report: dict[str, Any] = read_report(path)
        day = datetime.fromisoformat(report["date"]).date()
        up = os.path.relpath(path, (ROOT / self.env.docname).parent)
        where = [report["hardware"].get("cpu", ""), *(f"{n} {v}" for n, v in _versions(report))]
        note = f"[{path.name}]({up}), {_day(day)}. {', '.join(filter(None, where))}."
        return self.source(path.name, f"{path.stem}, {_day(day)}", report["command"], note)


def _versions(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    named = {"jax", "keras", "tensorflow", "timm", "torch", "libtpu", "python"}
    return (one for one in report["versions"].items() if one[0].lower() in named and one[1])


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


class Plot(Evidence):
    """`{plot} FILE`: the figure of docs/benchmarks/FILE.json, or FILE_figure of several."""

    option_spec: ClassVar = {"alt": directives.unchanged, "figure": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        (name,) = self.names()
        report = read_report(BENCHMARKS / f"{name}.json")
        path = Path(self.env.doctreedir) / "plots" / f"{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        plots.draw(report, path)
        self.env.note_dependency(str(BENCHMARKS / f"{name}.json"))
        if figure := self.options.get("figure"):
            path = path.with_stem(f"{name}_{figure}")
        place = os.path.relpath(path, (ROOT / self.env.docname).parent)
        image = nodes.image("", uri=place, alt=self.options["alt"])
        return [nodes.container("", image, classes=["plot"])]


class Recorded(Evidence):
    """`{recorded} NAME`: a table of docs/benchmarks/recorded.yaml, with commands and date."""

    def run(self) -> list[nodes.Node]:
        (name,) = self.names()
        one = yaml.safe_load(RECORDED.read_text(encoding="utf-8"))[name]
        self.env.note_dependency(str(RECORDED))
        commands = "\n".join(one.get("commands", ()))
        title = f"{name}, {_day(one['date'])}"
        rows = [map(str, row) for row in one["rows"]]
        found = self.parse_text_to_nodes(with_links(markdown(one["columns"], rows)))
        return [*found, *self.source(name, title, commands, one.get("note", ""))]


class Timm(Evidence):
    """`{timm} NAME ...`: what timm published of these networks, with a column for each."""

    def run(self) -> list[nodes.Node]:
        if unknown := {*self.names()} - {one.network for one in timm.RESULTS}:
            raise self.error(f"no results of timm: {', '.join(sorted(unknown))}")
        self.env.note_dependency(str(timm.FILE))
        return self.parse_text_to_nodes(with_links(timm.compare(self.names())))


class Implementations(Evidence):
    """`{implementations}`: implementations of position lambdas, each with a line of the content."""

    required_arguments = 0
    has_content = True

    def run(self) -> list[nodes.Node]:
        about = dict(line.split(": ", 1) for line in self.content if line)
        if about.keys() != IMPLEMENTATIONS.keys():
            raise self.error(f"expected lines for {', '.join(IMPLEMENTATIONS)}")
        says = {True: "yes", False: "no", math.inf: "any"}
        rows = [
            (
                f"`{name}`",
                about[name],
                *(str(says.get(getattr(can, key), getattr(can, key))) for key in CAN),
            )
            for name, can in IMPLEMENTATIONS.items()
        ]
        return self.parse_text_to_nodes(
            markdown(("implementation", "computation", *CAN.values()), rows)
        )


class Recipes(Evidence):
    """`{recipes} PATTERN`: configurations with hours, from the seconds per step of Table 19."""

    def run(self) -> list[nodes.Node]:
        lines = []
        named = [(f"{row.network}_i{row.image_size}_350ep", row) for row in RESULTS if row.seconds]
        # Of some sizes accuracies are published with pseudo-labels alone.
        seconds = {name: row.seconds for name, row in named}
        top1 = {(name, "pseudo-labels" in row.data): f"{row.top1} %" for name, row in named}
        for path in (ROOT / "tpu_configs").glob(f"{self.arguments[0]}.yaml"):
            name = path.stem.removesuffix("_pseudo_labels")
            if name in seconds:
                settings = yaml.safe_load(path.read_text(encoding="utf-8"))
                cores, training = settings["tpu_cores"], settings["training"]
                # The paper's step is of 1024 images, on 8 cores; early stopping holds out 2 %.
                images = IMAGES * (1 - 20 / 1024 * ("early_stopping_epochs" in training))
                steps = training["epochs"] * images / 1024
                steps *= training.get("gradient_accumulation_steps", 1)
                hours = steps * seconds[name] * 8 / cores / 3600
                accuracy = top1.get((name, name != path.stem), "not published")
                lines.append((hours * cores, path.stem, cores, hours, accuracy))
        head = ("`--config`", "TPU v3 cores", "hours", "core-hours", "published top-1")
        rows = [
            (f"`{name}`", str(cores), f"{hours:.3g}", f"{core_hours:.0f}", accuracy)
            for core_hours, name, cores, hours, accuracy in sorted(lines)
        ]
        return self.parse_text_to_nodes(markdown(head, rows))


class Coverage(Evidence):
    """`{coverage}`: every statement of tools/coverage.yaml, with what shows it."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(ROOT / "tools" / "coverage.yaml"))
        found = []
        for title, group in groupby(read_coverage(), lambda row: row.section):
            section = nodes.section("", nodes.title("", title), ids=[nodes.make_id(f"of {title}")])
            section += table(
                ("place", "statement", "shown by"),
                ([self.text(row.place), self.statement(row), self.shown(row)] for row in group),
            )
            found.append(section)
        return found

    def text(self, text: str) -> list[nodes.Node]:
        """Markdown of one paragraph."""
        return self.parse_text_to_nodes(text)

    def statement(self, row: Statement) -> list[nodes.Node]:
        """The statement, and below it how much of it is shown."""
        states = {"partly": "In part", "not": "Not shown", "contradicted": "Contradicted"}
        found = nodes.paragraph("", row.statement)
        if row.state not in states:
            return [found]
        reason = f"{states[row.state]}: {row.contradicted or row.missing}."
        return [found, nodes.paragraph("", "", nodes.emphasis("", reason))]

    def shown(self, row: Statement) -> list[nodes.Node]:
        """Tests, pages and commands, as links where they are files."""
        found = nodes.bullet_list(classes=["shown"])
        for name in row.shown_by:
            found += nodes.list_item("", nodes.paragraph("", "", *self.link(name)))
        return [found] if row.shown_by else []

    def link(self, name: str) -> Sequence[nodes.Node]:
        """A test with its source, a page of the docs, or a command."""
        if match := TEST.fullmatch(name):
            page = self.env.app.builder.get_relative_uri(
                self.env.docname, f"_tests/{match['file']}"
            )
            text = nodes.literal("", match["name"].removeprefix("test_") + (match["case"] or ""))
            return [nodes.reference("", "", text, refuri=f"{page}#{match['name']}", internal=True)]
        if name.startswith("docs/"):
            up = os.path.relpath(ROOT / name, (ROOT / self.env.docname).parent)
            (paragraph,) = self.parse_text_to_nodes(f"[]({up})")
            return paragraph.children
        return [nodes.literal("", name)]


def table(head: Sequence[str], rows: Iterable[Sequence[Sequence[nodes.Node]]]) -> nodes.table:
    """A table with nodes in its cells."""

    def line(cells: Iterable[Sequence[nodes.Node]]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", *cell) for cell in cells))

    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", line([nodes.paragraph("", text)] for text in head))
    group += nodes.tbody("", *map(line, rows))
    return nodes.table("", group, classes=["coverage"])


def pages_of_tests(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yields a page for each test file that the coverage names, with an anchor for each test."""
    del app
    named = {
        match["file"] for row in read_coverage() for match in map(TEST.match, row.shown_by) if match
    }
    for name in sorted(named):
        text = (ROOT / "tests" / f"{name}.py").read_text(encoding="utf-8")
        body = highlight(text, PythonLexer(), HtmlFormatter())
        body = re.sub(r'<span class="nf">(?=(test_\w+)<)', r'<span class="nf" id="\1">', body)
        title = f"tests/{name}.py"
        yield f"_tests/{name}", {"title": title, "body": f"<h1>{title}</h1>{body}"}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directives, and the pages of tests."""
    for one in (Benchmark, Plot, Recorded, Timm, Implementations, Recipes, Coverage):
        app.add_directive(one.__name__.lower(), one)
    app.connect("html-collect-pages", pages_of_tests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
