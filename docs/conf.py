"""The site: README, the guides, the reference of commands and of the library, with search.

``sphinx-build -W -c docs . build/site`` builds it. The pages are those of the repository, so that their links and
pictures work in both.
"""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version as version_of
from inspect import getsource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "streamsim"
author = "the streamsim maintainers"
version = release = version_of("streamsim")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/*.md",
    "docs/reference/*.rst",
    "tests/INVARIANTS.md",
    ".github/CONTRIBUTING.md",
]
myst_heading_anchors = 4  # links to headings, as the repository's pages have them
html_theme = "furo"
html_title = "streamsim"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
smartquotes = False  # options begin with two hyphens
highlight_language = "text"
suppress_warnings = ["autodoc"] if sys.version_info < (3, 12) else []  # Python 3.11 cannot look up array[int]

PAGES = """

```{toctree}
:hidden:

docs/README
docs/reference/commands
docs/reference/library
CHANGELOG
.github/CONTRIBUTING
tests/INVARIANTS
```
"""
GUIDES = """

```{toctree}
:hidden:
:glob:

*
```
"""


def setup(app: Sphinx) -> None:
    """Give the two indexes their table of contents, which the repository's pages do without."""
    _import_types()
    app.connect("source-read", _with_contents)
    app.connect("build-finished", _with_front_door)


def _with_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    source[0] += {"README": PAGES, "docs/README": GUIDES}.get(page, "")


def _with_front_door(app: Sphinx, _error: Exception | None) -> None:
    """Let the folder open at README's page."""
    (app.outdir / "index.html").write_text('<meta http-equiv="refresh" content="0; url=README.html">\n')


def _import_types() -> None:
    """Import what modules import for type checkers only: the signatures of values name it."""
    streamsim = import_module("streamsim")
    for name in streamsim.__all__:
        getattr(streamsim, name)
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("streamsim.")]
    for module in modules * 2:  # some of these names are themselves imported so
        for node in ast.parse(getsource(module)).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for imported in node.body:
                    with suppress(ImportError):
                        exec(ast.unparse(imported), vars(module))
