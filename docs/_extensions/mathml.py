"""Equations as MathML, which browsers render without scripts or fonts from elsewhere."""

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Writes an equation in a line of text."""
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Writes an equation that stands alone, which scrolls where it is wider than the page."""
    equation = latex2mathml.tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="equation">{equation}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
