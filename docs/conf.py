"""The site: README, the guides, the lesson, the playground, the reference of commands and of the library, with search.

``sphinx-build -W -c docs . build/site`` builds it. The pages are those of the repository, so that their links and
pictures work in both. The lesson is run while the site is built, and shows what its cells show in a notebook. The
playground is written beside its page if Pyodide can be had.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from streamsim.cli import main

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
    "docs/*.ipynb",
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
FRAMES = """
```{raw} html
<style>
iframe { color-scheme: light dark; }
body[data-theme="light"] iframe { color-scheme: light; }
body[data-theme="dark"] iframe { color-scheme: dark; }
</style>
```
"""  # a frame has the theme that a reader chose for the site
GUIDES = """

```{toctree}
:hidden:
:glob:

*
```
"""


PLAYGROUND = "streamsim.html"
LINK_TO_IT = f"""
```{{raw}} html
<p><a href="{PLAYGROUND}"><strong>Open the playground</strong></a> (9 MB)</p>
```
"""


def setup(app: Sphinx) -> None:
    """Register the lesson's kind of file, and what the site shows beside the repository's pages."""
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", _as_shown)
    app.connect("build-finished", _with_front_door)


def _as_shown(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the indexes their tables of contents, the lesson its output, and the playground's page the playground."""
    if page == "docs/lesson":
        source[0] = _lesson(source[0])
    if page == "docs/playground" and _has_playground(app):
        title, rest = source[0].split("\n", 1)
        source[0] = f"{title}\n{LINK_TO_IT}{rest}"
    source[0] += {"README": PAGES, "docs/README": GUIDES}.get(page, "")


def _has_playground(app: Sphinx) -> bool:
    """Write the playground beside its page. Return False if it cannot be written; then a line on stderr says why."""
    folder = app.outdir / "docs"
    folder.mkdir(parents=True, exist_ok=True)
    return main(["playground", "-o", str(folder / PLAYGROUND)]) == 0


def _lesson(notebook: str) -> str:
    """Return a notebook as Markdown, with what each of its cells prints and shows."""
    parts, names = [], {"__name__": "__main__"}
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        printed, shown = _run(source, names)
        parts.append(f"```python\n{source}\n```")
        if printed:
            parts.append(f"```text\n{printed}```")
        if hasattr(shown, "_repr_html_"):
            parts.append(f"``````{{raw}} html\n<div class='shown'>{shown._repr_html_()}</div>\n``````")
    return "\n\n".join([*parts, FRAMES])


def _run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell with ``names`` as its globals. Return what it prints, and the value of the expression that ends it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "lesson", "exec"), names)
        shown = (
            eval(compile(ast.Expression(last.value), "lesson", "eval"), names) if isinstance(last, ast.Expr) else None
        )
    return out.getvalue(), shown


def _with_front_door(app: Sphinx, _error: Exception | None) -> None:
    """Let the folder open at README's page."""
    (app.outdir / "index.html").write_text('<meta http-equiv="refresh" content="0; url=README.html">\n')
