"""Every kind of page in a browser, light and dark, wide and narrow: axe-core finds nothing wrong with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import CONFIGS, CUT, MAPS, tiny_pyodide

from streamsim.cli import main
from streamsim.playground import playground_html, read_browser_python
from streamsim_validate.cli import main as validate

pytestmark = pytest.mark.ci

RECORD = str(next((Path(__file__).parents[2] / "validate" / "campaigns" / "records").glob("standard-*.json.gz")))
PAGES = [
    *(*CONFIGS, MAPS["best"], ("predict", *CUT, "--device", "rtx4090"), ("explain", "trace.json")),
    *(("whatif", "trace.json", "--streams", "2", "--independent"), ("compare", RECORD)),
]


def assert_accessible(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for theme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        found = axe.run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("command", PAGES, ids=lambda command: f"{command[0]} {Path(command[-1]).name}")
def test_nothing_is_wrong_with_a_page(
    command: tuple[str, ...], look: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "trace.json" in command:
        assert main(["predict", *CUT, "--device", "h200", "--recording", "trace.json"]) == 0
    called = validate if command[0] == "compare" else main
    assert called([*command, "--page", "page.html"]) == 0
    page = look(Path("page.html").read_text(encoding="utf-8"))
    for opened in page.locator("summary:visible").all():
        opened.click()
    if page.evaluate("!!streamsim.view"):
        page.evaluate("streamsim.view.find('kernel')")  # which opens what is told of an op
    assert_accessible(page)


def test_nothing_is_wrong_with_the_playground(
    look: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_pyodide(tmp_path, monkeypatch)
    assert_accessible(look(playground_html(read_browser_python(tmp_path))))
