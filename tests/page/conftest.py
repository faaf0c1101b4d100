"""A real browser for the tests of pages: the Chromium of the machine, driven by Playwright."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1280, 900


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Skips the test where there is no browser, or nothing to drive it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def look(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a page, from its HTML, with a hash; afterwards there was no error, and no request but for its own parts."""
    wrong: list[str] = []
    seen: list[Any] = []

    def opened(html: str, place: str = "") -> Any:
        file = tmp_path / f"looked-at-{len(seen)}.html"
        file.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(10_000)

        def note_message(message: Any) -> None:
            if message.type == "error":
                wrong.append(message.text)

        def note_request(request: Any) -> None:
            if request.url.partition("#")[0] not in (file.as_uri(), "about:srcdoc") and not request.url.startswith(
                "blob:"
            ):
                wrong.append(request.url)

        page.on("console", note_message)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", note_request)
        page.goto(file.as_uri() + place)
        page.wait_for_selector("html[data-drawn=yes]", state="attached")
        seen.append(page)
        return page

    yield opened
    for page in seen:
        page.close()
    assert wrong == []
