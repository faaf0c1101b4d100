"""The guides do what they say: every block of them runs, their links lead somewhere, the reference has every name."""

import re
from pathlib import Path

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


@pytest.mark.skipif(not THOROUGH, reason="20 s of Sphinx; CI's site job and a thorough run do it")
def test_the_site_has_every_public_name_and_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning of Sphinx, such as of a link that leads nowhere, fails its command."""
    monkeypatch.chdir(tmp_path)
    Reader().read(text_of(DOCS / INDEX))
    site = tmp_path / "build" / "site" / "docs"
    library, commands = (text_of(site / "reference" / f"{name}.html") for name in ("library", "commands"))
    assert [name for name in PUBLIC if f'id="streamsim.{name}"' not in library] == []
    assert [name for name in COMMANDS if f'id="streamsim-{name}"' not in commands] == []
    assert text_of(site / "lesson.html").count("<iframe") > 8
