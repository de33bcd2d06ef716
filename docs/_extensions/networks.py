"""Cards of the networks, made at build from the registry and the tables of `zoo.list`."""

import inspect
import io
from contextlib import redirect_stdout
from pathlib import Path

import timm
from docutils import nodes
from evidence import with_links
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from lambda_keras import applications
from lambda_keras.models.specs import NETWORKS
from zoo.list.__main__ import main
from zoo.model_card import table
from zoo.registry import list_models

logger = logging.getLogger(__name__)


class Listed(SphinxDirective):
    """`{listed} PATTERN ... --OPTION true`: what `python -m zoo.list` prints, with links."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        arguments = self.arguments[0].split()
        return self.parse_text_to_nodes(with_links(_listed(*arguments)))


class Networks(SphinxDirective):
    """`{networks} PATTERN ...`: a table of the models that match, and a section for each."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        patterns = self.arguments[0].split()
        rows = with_links(_listed(*patterns))
        names = [name for pattern in patterns for name in list_models(pattern)]
        return [*self.parse_text_to_nodes(rows), *map(self._section, names)]

    def _section(self, name: str) -> nodes.section:
        section = nodes.section("", nodes.title("", name), names=[name])
        section += self.parse_text_to_nodes(_card(name))
        self.state.document.note_explicit_target(section)
        return section


def _listed(*arguments: str) -> str:
    """Returns the Markdown table that `python -m zoo.list` prints."""
    output = io.StringIO()
    with redirect_stdout(output):
        main([*arguments, "--format", "markdown"])
    return output.getvalue()


def _columns(text: str) -> list[tuple[str, ...]]:
    """Returns the columns of a Markdown table with something in them, without the model's name."""
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in text.splitlines())
    return [one for one in zip(head, *rows, strict=True) if set(one[1:]) - {"-", ""}][1:]


def _card(name: str) -> str:
    row = NETWORKS[name]
    summary, *_ = inspect.getdoc(getattr(applications, row.constructor)).split("\n\n")
    arguments = ", ".join(f"{key}={value!r}" for key, value in row.arguments.items())
    arguments = arguments.replace("'", '"')
    target = f"lambda_keras.applications.{row.constructor}"
    call = f"{{py:func}}`{row.constructor}({arguments}) <{target}>`"
    parts = [summary, table(("constructor", call), _columns(_listed(name)))]
    if results := _columns(_listed(name, "--results", "true")):
        head, *rows = zip(*results, strict=True)
        parts += ["Published results, with times on 8 TPUv3 cores:", table(head, rows)]
    if row.weights:
        rows = [
            (
                key,
                f"`{one.page}`" if one.is_packaged else f"[{Path(one.page).name}]({one.page})",
                f"{one.top1:g} ({one.data})",
                f"{one.image_size}",
            )
            for key, one in row.weights.items()
        ]
        parts += ["Published weights:", table(("weights", "from", "top-1", "size"), rows)]
    return "\n\n".join(filter(None, (*parts, timm.section(name))))


def check_cards(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of networks without a card."""
    del app
    for name in NETWORKS.keys() - env.domains.standard_domain.labels.keys():
        logger.warning("%s has no card in docs/families", name, type="networks")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive and the check."""
    app.add_directive("listed", Listed)
    app.add_directive("networks", Networks)
    app.connect("env-updated", check_cards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
