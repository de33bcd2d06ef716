"""Cards of the networks, made at build from the registry and the tables of `zoo.list`."""

import inspect
import io
import re
from contextlib import redirect_stdout

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from lambda_keras import applications
from zoo import list as command
from zoo.model_card import table
from zoo.registry import TABLE, list_models

logger = logging.getLogger(__name__)


class Networks(SphinxDirective):
    """`{networks} PATTERN ...`: a table of the models that match, and a card for each."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        patterns = self.arguments[0].split()
        names = [name for pattern in patterns for name in list_models(pattern)]
        rows = re.sub(r"^\| (\w+) \|(?= \d)", r"| [\1](#\1) |", _listed(*patterns), flags=re.M)
        text = "\n\n".join([rows, *map(_card, names)])
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _listed(*arguments: str) -> str:
    """Returns the Markdown table that `python -m zoo.list` prints."""
    output = io.StringIO()
    with redirect_stdout(output):
        command.main([*arguments, "--format", "markdown"])
    return output.getvalue()


def _cells(text: str) -> list[list[str]]:
    """Returns head and rows of a Markdown table, without the name of the model."""
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines()
    )
    return [head, *rows]


def _card(name: str) -> str:
    row = TABLE[name]
    constructor = getattr(applications, row.constructor)
    summary, *_ = inspect.getdoc(constructor).split("\n\n")
    arguments = ", ".join(f"{key}={value!r}" for key, value in row.arguments.items())
    parts = [
        f"({name})=\n## {name}",
        summary if not row.arguments else "",
        f"{{py:func}}`~lambda_keras.applications.{row.constructor}` `({arguments})`",
        table(("", ""), zip(*_cells(_listed(name)), strict=True)),
    ]
    head, *results = _cells(_listed(name, "--results", "true"))
    if results:
        parts += ["Published results, with times on 8 TPUv3 cores:", table(head, results)]
    if row.weights:
        weights = [
            (f"`{key}`", f"[{one.page.rpartition('/')[2]}]({one.page})", f"{one.top1:g}",
             str(one.image_size), one.license)
            for key, one in row.weights.items()
        ]  # fmt: skip
        parts += [
            "Published weights:",
            table(("weights", "from", "top-1", "size", "license"), weights),
        ]
    return "\n\n".join(filter(None, parts))


def check_cards(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of networks without a card."""
    del app
    for name in TABLE.keys() - env.domains.standard_domain.anonlabels.keys():
        logger.warning("%s has no card in docs/families", name, type="networks")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive and the check."""
    app.add_directive("networks", Networks)
    app.connect("env-updated", check_cards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
