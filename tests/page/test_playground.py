"""The playground: it is put together of pinned files or not at all, and shows what the command line predicts."""

import io
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import simpy
from pages import TINY_PYODIDE, data_of, tiny_pyodide

from streamsim import playground
from streamsim.advice import explain
from streamsim.cli import main
from streamsim.cli.playground import fetch
from streamsim.errors import InputError
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds

Look = Callable[..., Any]

STARTS_MS = 120_000  # of Python in a browser, on a busy machine
MAKESPANS = "streamsim.view.charts.map(chart => chart.line.about.makespan)"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny_pyodide(tmp_path, monkeypatch)
    return tmp_path


def test_a_page_holds_the_files_and_the_model_and_loads_nothing(tiny: Path) -> None:
    page, again = tiny / "page.html", tiny / "again.html"
    for path in (page, again):
        assert main(["playground", "-o", str(path), "--pyodide", str(tiny)]) == 0
    html = page.read_text()
    assert html == again.read_text()
    data = data_of(html)
    held = {name: zlib.decompress(b64decode(text)) for name, text in data["files"].items()}
    for name in ("pyodide.asm.wasm", "python_stdlib.zip"):
        assert held[name] == TINY_PYODIDE[name]
    assert json.loads(held["lock.json"]) == {"info": {"python": "3.14"}, "packages": {}}
    site = zipfile.ZipFile(io.BytesIO(held["site.zip"]))
    assert {"msgspec/__init__.py", "simpy/__init__.py", "streamsim/device/profiles/h200.toml"} <= set(site.namelist())
    worker = zlib.decompress(b64decode(data["worker"])).decode()
    assert not re.search(r"import\.meta|export default", worker)  # it is no module
    assert not re.search(r"\s(src|href|onclick|style)=", html.partition('<script type="application/json"')[0])


def test_the_packed_model_needs_nothing_but_msgspec_and_simpy(tiny: Path) -> None:
    packed = zipfile.ZipFile(io.BytesIO(playground.read_browser_python(tiny).files["site.zip"]))
    packed.extractall(tiny, [name for name in packed.namelist() if not name.startswith(("msgspec", "simpy"))])
    for package in (msgspec, simpy):
        shutil.copytree(Path(package.__file__ or "").parent, tiny / package.__name__)
    code = "import absent; from streamsim.playground import answer; print(answer(*__import__('sys').argv[1:]))"
    for asked in ("shown", "reason"):
        question = (asked, json.dumps(playground.LESSONS[0].choice))
        run = subprocess.run(
            [sys.executable, "-S", "-c", code, *question],
            env={**os.environ, "PYTHONPATH": str(tiny)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == playground.answer(*question)


NPM = {"no npm": "", "npm fails": "#!/bin/sh\necho 'npm ERR! code ENOTFOUND' >&2\nexit 1\n"}


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for npm is a shell script")
@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("no npm", "npm, which fetches Pyodide, is not installed; or give --pyodide FOLDER"),
        ("npm fails", "npm failed: npm ERR! code ENOTFOUND; or give --pyodide FOLDER"),
        ("another file", f"{playground.ARCHIVE}: is another file than the one that streamsim knows"),
        ("no file", f"{playground.ARCHIVE}: is not there"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line_and_nothing_is_written(
    case: str, said: str, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, archive, npm = tiny / "page.html", tiny / playground.ARCHIVE, tiny / "npm"
    archive.write_bytes(b"other") if case == "another file" else archive.unlink()
    if NPM.get(case):
        npm.write_text(NPM[case])
        npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tiny))
    monkeypatch.delenv("STREAMSIM_PYODIDE", raising=False)
    folder = [] if case in NPM else ["--pyodide", str(tiny)]
    assert main(["playground", "-o", str(page), *folder]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert not page.exists()


def test_the_command_of_a_choice_predicts_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(49)
    drawn = [{one.name: chance.choice(one.values) for one in playground.CONTROLS} for _ in range(12)]
    for choice in [*(lesson.choice for lesson in playground.LESSONS), *drawn]:
        said = json.loads(playground.answer("shown", json.dumps(choice)))
        assert main([*shlex.split(said["command"])[1:], "--json"]) == 0
        predicted = json.loads(capsys.readouterr().out)
        lines = {line["name"]: line["makespan"] for line in said["lines"]}
        assert lines.pop("predicted") == round(predicted["makespan_s"] * TICKS_PER_S)
        is_unchunked = choice["--order"] == "serial" and choice["--chunks"] == "1"  # then it is shown once
        assert lines == ({} if is_unchunked else {"unchunked": round(predicted["serial_s"] * TICKS_PER_S)})


def test_lessons_show_what_they_say() -> None:
    choices = {lesson.name: lesson.choice for lesson in playground.LESSONS}
    found = {name: playground.prediction_of(playground.played(choice)[0]).speedup for name, choice in choices.items()}
    assert found["One copy engine"] == 1  # one by one
    assert 1.8 < found["Sixteen chunks"] < 2.2
    assert found["A kernel that is too short"] < 1
    assert found["Pageable memory"] < 1
    chosen, _ = playground.played({**choices["One copy engine"], "--order": "breadth-first"})  # as it says
    assert playground.prediction_of(chosen).speedup > 1.3


def test_what_is_wrong_with_a_choice_is_an_answer() -> None:
    for name, value in (("--device", "nowhere"), ("--h2d", "much"), ("link.bandwidth", "fast")):
        said = json.loads(playground.answer("shown", json.dumps({**playground.LESSONS[0].choice, name: value})))
        assert list(said) == ["error"]
        assert value in said["error"]


# In a browser


@pytest.mark.ci
def test_a_page_whose_python_does_not_start_says_so(look: Look, tiny: Path) -> None:
    page = look(playground.playground_html(playground.read_browser_python(tiny)))
    page.wait_for_selector(".state:has-text('Python cannot start in this browser: Error: </script>')")
    assert page.evaluate(MAKESPANS)[0] == round(
        playground.prediction_of(playground.played(playground.LESSONS[0].choice)[0]).makespan_s * TICKS_PER_S
    )


@pytest.mark.ci
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768), (390, 844)])
def test_speed_up_and_time_line_are_in_view_beside_the_controls(
    look: Look, tiny: Path, width: int, height: int
) -> None:
    page = look(playground.playground_html(playground.read_browser_python(tiny)))
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(60)  # the next frame
    controls = page.locator(".controls").bounding_box()
    for part in ("[data-part=headline]", ".line >> nth=0"):
        box = page.locator(part).bounding_box()
        beside, above = box["x"] >= controls["x"] + controls["width"], box["y"] + box["height"] <= controls["y"]
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height
        assert beside or above
    assert page.inner_text(".line h3 >> nth=0").startswith("predicted")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("streamsim.view.charts.map(chart => chart.line.rows.length)[1]") == 1  # unchunked: thin


@pytest.mark.ci
def test_the_address_and_the_buttons_have_the_pipeline(look: Look, tiny: Path) -> None:
    html = playground.playground_html(playground.read_browser_python(tiny))
    page = look(html)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("[data-lesson='3']")
    page.click("[data-copy=link]")
    link = page.evaluate("navigator.clipboard.readText()")
    choice = "streamsim.playground.choice()"
    assert link == page.url
    assert look(html, link[link.index("#") :]).evaluate(choice) == page.evaluate(choice) == playground.LESSONS[3].choice
    page.click("[data-copy=command]")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("[data-part=command]")
    hostile = look(html, "#--h2d=%3Cimg%20src%3Dx%3E&--device=nowhere&x=1")
    assert hostile.evaluate(choice) == {**playground.LESSONS[0].choice, "--h2d": "<img src=x>"}
    assert hostile.locator("img").count() == 0


@pytest.fixture(scope="session")
def pyodide_folder() -> Path:
    """STREAMSIM_PYODIDE, or a folder of the user's cache into which the files are fetched once."""
    if given := os.environ.get("STREAMSIM_PYODIDE"):
        return Path(given)
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamsim" / f"pyodide-{playground.PYODIDE}"
    )
    if not all((cache / name).exists() for name in playground.PINNED):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                fetch(Path(folder))
                for name in playground.PINNED:
                    (Path(folder) / name).replace(cache / name)
        except (InputError, OSError) as error:
            pytest.skip(str(error))
    return cache


@pytest.mark.ci
def test_dragging_shows_what_the_model_predicts_here(look: Look, pyodide_folder: Path) -> None:
    html = playground.playground_html(playground.read_browser_python(pyodide_folder))
    page = look(html)
    page.set_default_timeout(STARTS_MS)
    page.wait_for_selector(".state:has-text('Every number')")
    for lesson, dragged in ((1, {"--chunks": 7}), (3, {"--h2d": -2, "link.bandwidth": 3})):
        page.click(f"[data-lesson='{lesson}']")
        choice = dict(playground.LESSONS[lesson].choice)
        compare(page, choice)
        for name, by in dragged.items():
            control = next(control for control in playground.CONTROLS if control.name == name)
            choice[name] = control.values[(control.place_of(choice[name]) or 0) + by]
            slider = page.locator(f"[type=range][name='{name}']")
            slider.focus()
            for _ in range(abs(by)):
                page.keyboard.press("ArrowRight" if by > 0 else "ArrowLeft")
        compare(page, choice)
    page.select_option("[data-control='--memory']", "pinned")
    choice |= {"--memory": "pinned", "--kernel": "0.123ms"}
    page.fill("[data-control='--kernel']", "0.123ms")
    page.keyboard.press("Tab")
    compare(page, choice)
    found = explain(*playground.played(choice)[0][:3])
    page.wait_for_selector("[data-part=advice][aria-busy=false]")
    assert page.inner_text("[data-part=advice]") == f"first: {found.advice}"
    again = look(html, page.evaluate("location.hash"))  # a link shows the same pipeline
    again.set_default_timeout(STARTS_MS)
    compare(again, choice)
    page.fill("[data-control='--chunks']", "many")
    page.keyboard.press("Tab")
    page.wait_for_selector(".state:has-text('--chunks')")


def compare(page: Any, choice: dict[str, str]) -> None:
    """Wait for the command of ``choice``, then hold what the page shows against the model of this Python."""
    work, command = playground.played(choice)
    page.wait_for_selector(f'[data-part=command]:text-is("{command}")')
    here = playground.prediction_of(work)
    assert page.evaluate(MAKESPANS) == [round(here.makespan_s * TICKS_PER_S), round(here.serial_s * TICKS_PER_S)]
    assert page.inner_text("[data-part=headline] dt >> nth=0") == format_seconds(here.makespan_s)
    assert page.evaluate("[...streamsim.view.charts[0].line.end]") == list(here.timeline.end)
