"""The guides do what they say: every block of them runs, their links lead somewhere, the reference has every name."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from documents import ROOT, Reader
from effort import THOROUGH
from pages import tiny_pyodide

import streamsim
from streamsim.analysis import CAUSES
from streamsim.cli import COMMANDS

PUBLIC = [name for name in streamsim.__all__ if name != "__version__"]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
INDEX = "README.md"
ENTRIES = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]  # where people come in
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.ci
@pytest.mark.usefixtures("fitting_once", "comparing_once")
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != INDEX], ids=lambda page: page.stem)
def test_every_block_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "validate").symlink_to(ROOT / "validate")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    if page.stem == "playground":  # files of the names that it brings, so that nothing is fetched
        (tmp_path / "pyodide").mkdir()
        tiny_pyodide(tmp_path / "pyodide", monkeypatch)
        monkeypatch.setenv("STREAMSIM_PYODIDE", "pyodide")
    Reader().read(text_of(page))


@pytest.mark.parametrize("page", PAGES + ENTRIES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_every_link_leads_somewhere(page: Path) -> None:
    for _, target in LINK.findall(text_of(page)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Of a page's headings: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_names_every_page() -> None:
    targets = {target for _, target in LINK.findall(text_of(DOCS / INDEX))}
    assert {page.name for page in PAGES} - {INDEX} <= targets


def test_every_cause_is_in_its_guide() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", text_of(DOCS / "explain.md"), re.M)
    assert {cause.title.partition(" (")[0] for cause in CAUSES.values()} <= set(rows)


# The site


class Page(HTMLParser):
    """The ids of a page's elements, what it links to, and its text with nothing but letters and digits."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.ids |= {value for name, value in attrs if name == "id" and value}
        self.links |= {value for name, value in attrs if name in ("href", "src") and value}

    def handle_data(self, data: str) -> None:
        self.text += re.sub(r"\W+", "", data)


PAGES_OF_SITE = ("README", "docs/explain", "docs/reference/library", "docs/reference/commands")


@pytest.mark.skipif(not THOROUGH, reason="20 s of Sphinx; CI's site job and a thorough run do it")
def test_the_site_has_every_public_name_with_its_docstring_and_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Reader().read(text_of(DOCS / INDEX))
    pages = {name: Page(text_of(tmp_path / "build" / "site" / f"{name}.html")) for name in PAGES_OF_SITE}
    library, commands = pages["docs/reference/library"], pages["docs/reference/commands"]
    assert {f"streamsim.{name}" for name in PUBLIC} <= library.ids
    for name in PUBLIC:
        first = getattr(streamsim, name).__doc__.splitlines()[0]
        for part in re.split(r":\w+:`[^`]+`", first):  # a link shows the whole name
            assert re.sub(r"\W+", "", part) in library.text, name
    assert {f"streamsim-{name}" for name in COMMANDS} <= commands.ids
    assert text_of(tmp_path / "build" / "site" / "docs" / "lesson.html").count("<iframe") > 8
    assert_links_lead_somewhere(tmp_path / "build" / "site")


def assert_links_lead_somewhere(site: Path) -> None:
    pages = {path.resolve(): Page(text_of(path)) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in map(urlsplit, page.links):
            if not link.scheme and not link.netloc:
                target = (path.parent / unquote(link.path)).resolve() if link.path else path
                assert target.exists(), f"{path.name}: {link.geturl()}"
                assert not link.fragment or target not in pages or unquote(link.fragment) in pages[target].ids


# The pictures
