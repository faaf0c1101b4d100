"""Pages in a browser: how large they are, how soon they are drawn, and how long a redraw takes.

30,000 spans of equal lengths and of as many lengths, and a map of a grid. Needs Chromium and Playwright.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import WORKLOAD, irregular

from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.page import Page, Shown, best_page
from streamsim.program import depth_first
from streamsim.search import Grid, best

REDRAWS = """() => {
  const view = streamsim.views[0] ?? streamsim.map.view;
  view.took = [];
  for (let k = 0; k < 60; k++) { view.zoom(k < 30 ? 0.75 : 1.33); view.draw(); }
  return view.took;
}"""


def main() -> None:
    """Print a line for each page."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        print("no browser is installed")
        return
    from playwright.sync_api import sync_playwright

    print(f"{'page':<34}{'made':>9}{'size':>10}{'load':>10}{'redraw':>10}{'worst':>10}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for name, make in PAGES.items():
            begin = time.perf_counter()
            html = make()
            made_s = time.perf_counter() - begin
            load_ms, took_ms = _looked_at(browser, html)
            sizes = f"{1e3 * made_s:>6.0f} ms{len(html) / 1e3:>7.0f} KB"
            print(f"{name:<34}{sizes}{load_ms:>7.0f} ms{median(took_ms):>7.1f} ms{max(took_ms):>7.1f} ms", flush=True)
        browser.close()


def _looked_at(browser: Any, html: str) -> tuple[float, list[float]]:
    """Milliseconds from the request until the page is drawn, and of each of 60 redraws while zooming."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        begin = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn=yes]", state="attached")
        load_ms = 1e3 * (time.perf_counter() - begin)
        took: list[float] = page.evaluate(REDRAWS)
        page.close()
        return load_ms, took


def _alike() -> str:
    return Page("alike", lines=(Shown("alike", ALIKE),)).html()


def _unlike() -> str:
    return Page("unlike", lines=(Shown("unlike", UNLIKE),)).html()


def _map() -> str:
    device, grid = load_device("h200"), Grid(chunks=tuple(range(1, 65)), streams=tuple(range(1, 9)))
    return best_page(best(WORKLOAD, device, grid)).html()


ALIKE, UNLIKE = simulate(depth_first(WORKLOAD, 10_000, 8), load_device("h200")), irregular(30_000)
PAGES = {"30,000 spans of three lengths": _alike, "30,000 spans of as many lengths": _unlike, "map, 64 x 8": _map}

if __name__ == "__main__":
    main()
