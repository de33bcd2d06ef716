"""The API reference: names in docstrings as links, and no public symbol left out."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

import keras
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from lambda_keras import applications
from lambda_keras.applications.build import GROUPS
from lambda_keras.models.specs import ROWS

MODULES = ("lambda_keras.layers", "lambda_keras.applications", "lambda_keras.weights", "zoo.api")
logger = logging.getLogger(__name__)


class Constructors(SphinxDirective):
    """`.. constructors:: FAMILY`: the networks of a module, or without one an index of all."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        families: dict[str, list[str]] = {}
        for name in dict.fromkeys(row.constructor for row in ROWS):
            module = getattr(applications, name).__module__
            families.setdefault(module.rpartition(".")[2], []).append(f"{MODULES[1]}.{name}")
        if self.arguments:
            names = families[self.arguments[0]]
            return self.parse_text_to_nodes("\n".join(f".. autofunction:: {one}" for one in names))
        lines = [
            f"* :doc:`networks/{family}`: {', '.join(f':py:func:`~{name}`' for name in names)}"
            for family, names in families.items()
        ]
        found = self.parse_text_to_nodes("\n".join(lines))
        # Links to the time when this page had all of them lead to the names.
        for link in [one for node in found for one in node.findall(addnodes.pending_xref)]:
            if link["reftype"] == "func":
                target = nodes.target("", "", ids=[link["reftarget"]])
                link.parent.insert(link.parent.index(link), target)
        return found


def python_name(name, rawtext, text, *others):
    """`text`: code, with a link if it is the name of a symbol of the reference."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", text):
        return [nodes.literal(rawtext, text)], []
    # After a dot, the name alone is looked for, in whatever module.
    return PyXRefRole()("py:obj", rawtext, f".{text}" if text[0].isupper() else text, *others)


def public(module_name: str) -> Iterator[tuple[str, object]]:
    """Yields the public names of a module, and what they stand for."""
    module = import_module(module_name)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name
    ]
    for name in getattr(module, "__all__", own):
        yield f"{module_name}.{name}", getattr(module, name)


def described_at(kind: str, name: str) -> str | None:
    """Returns the first network that has the arguments of another one, which it describes."""
    own = name.rpartition(".")[2]
    if kind != "function" or own not in GROUPS:
        return None
    constructors = dict.fromkeys(row.constructor for row in ROWS)
    first = next(one for one in constructors if GROUPS[one] is GROUPS[own])
    return first if first != own else None


def show_arguments(app: Sphinx, kind: str, name: str, value: object, *others: object) -> object:
    """Returns the signature of a layer, which Keras hides, or a short one of a network."""
    del app, others
    if described_at(kind, name):
        return "(...)", "keras.Model"
    if kind == "class" and issubclass(value, keras.layers.Layer):
        _, *parameters = inspect.signature(value.__init__).parameters.values()
        # Their types stand in the text.
        untyped = [one.replace(annotation=one.empty) for one in parameters]
        return str(inspect.Signature(untyped)), None
    return None


def mark_sections(*event: object) -> None:
    """Marks up what Napoleon does not: examples without indentation, and outputs with a colon."""
    lines = event[-1]
    text = re.sub(r"^Example:\n", ".. rubric:: Example\n\n", "\n".join(lines), flags=re.M)
    lines[:] = re.sub(r"^Returns:\n    ", ":returns:\n    ", text, flags=re.M).split("\n")


def shorten(app: Sphinx, kind: str, name: str, value: object, options: object, lines: list) -> None:
    """Describes arguments that several networks have at the first of them only."""
    if first := described_at(kind, name):
        end = next(i for i, line in enumerate(lines) if line.startswith("Args:"))
        lines[end:] = [f"Arguments, outputs and errors: see :py:func:`{first}`.", ""]


def check_public_symbols(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of public symbols without a docstring, or without an entry in the reference."""
    del app
    documented = env.domains.python_domain.objects
    for module_name in MODULES:
        for name, value in public(module_name):
            if not value.__doc__:
                logger.warning("%s has no docstring", name, type="reference", subtype="docstring")
            if name not in documented:
                logger.warning("%s is not in the API reference", name, type="reference")


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds role, directive and check."""
    app.add_role("python_name", python_name)
    app.add_directive("constructors", Constructors)
    app.connect("autodoc-process-signature", show_arguments)
    for change in (shorten, mark_sections):
        app.connect("autodoc-process-docstring", change, priority=400)  # before Napoleon
    app.connect("env-updated", check_public_symbols)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
