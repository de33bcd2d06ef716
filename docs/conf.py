"""Settings of the documentation site, which `make docs` builds from README, docs and notebooks.

The sources are relative to the root of the repository, so that links between its Markdown files are
the same here and there.
"""

import os
import sys
import time
from html import escape
from importlib.resources import files
from pathlib import Path

from docutils import nodes

STARTED = time.monotonic()
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_extensions"), str(DOCS.parent)]  # the latter has tools/

import lambda_keras  # noqa: E402

project = "lambda_keras"
version = release = lambda_keras.__version__

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "notebooks/*"]
exclude_patterns = [".*", "build", "dist", "lambda_keras", "*/runs", "runs", "tests", "zoo"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "evidence",
    "networks",
    "reference",
]

# Markdown and notebooks
myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_heading_anchors = 4  # GitHub's anchors, which links between pages use
nb_execution_mode = "off"  # Committed outputs are shown.
nb_merge_streams = True
nb_render_markdown_format = "myst"  # Tables are no part of CommonMark.

# Docstrings
default_role = "python_name"
nitpicky = True  # References to names that are not there are errors, but for two kinds:
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # code in docstrings, most of which is no name of the reference
    # Types of others in signatures, and the rows of the table of networks.
    ("py:class", r"(?!lambda_keras(?!\.models\.specs)|zoo\.api).*"),
]
autodoc_member_order = "bysource"  # the order of `__all__`
autodoc_inherit_docstrings = False  # Keras' methods are in Keras' reference.
autodoc_mock_imports = ["official", "pycocotools", "tf_keras"]  # of the extra `detection`
napoleon_numpy_docstring = False
napoleon_use_param = False  # It splits "num_heads, key_dim, ...".
napoleon_custom_sections = [("Call arguments", "params_style"), ("Reference", "References")]
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 60  # One parameter a line above it.

# Pages
html_theme = "furo"
html_title = "lambda_keras"
# MathJax in one file, which draws its glyphs and loads nothing from elsewhere.
mathjax_path = "tex-svg.js"
html_static_path = ["_static", f"{files('sphinx-mathjax-offline')}/static/mathjax/{mathjax_path}"]
# ONNX Runtime's smallest build, which the demo of the first page runs; see the Makefile.
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
html_static_path += [f"{sys.prefix}/onnxruntime-web/{name}" for name in RUNTIME]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"type": "module"})]
html_favicon = "_static/favicon.svg"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
html_copy_source = False
html_show_copyright = False


def describe(app, pagename, templatename, context, doctree):
    """Describes a page by its first paragraph, for search engines."""
    if doctree and (first := next(doctree.findall(nodes.paragraph), None)):
        text = escape(" ".join(first.astext().split())[:200])
        context["metatags"] += f'<meta name="description" content="{text}">\n'


def setup(app):
    """Describes pages, and prints the seconds of a build."""
    app.connect("html-page-context", describe)
    app.connect(
        "build-finished",
        lambda app, _: print(f"{app.builder.name}: {time.monotonic() - STARTED:.0f} seconds"),
    )
