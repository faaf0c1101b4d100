"""One document, five renderers: no sentence and no number of the printed answer is missing anywhere else."""

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given
from msgspec.structs import replace
from pages import CONFIGS, CUT, SIZES
from strategies import runs

from streamsim.advice import explain
from streamsim.analysis import predict
from streamsim.answer import (
    Answer,
    Terminal,
    explanation_answer,
    markdown_of,
    notebook_of,
    page_of,
    prediction_answer,
    show,
)
from streamsim.cli import main, printing
from streamsim.cli import work as reader
from streamsim.device import Device
from streamsim.program import Schedule

OTHERS: tuple[tuple[str, ...], ...] = (
    ("predict", *CUT, "--formulas", "--samples", "20", "--device", "rtx4090"),
    ("predict", *CUT, "--buffers", "2", "--memory", "pageable"),
    ("predict", *SIZES, "--chunks", "1,2,4", "--device", "h200,a100"),
    ("predict", "s.json"),
    ("whatif", "s.json", "--graph", "--set-connections", "2"),
    ("check", "race.json"),
    ("explain", "trace.json"),
    ("explain", "trace.json", "--list"),
    ("best", "--layers", "layers.toml", "--memory-limit", "3GiB"),
    ("sweep", *SIZES, "--chunks", "1..50", "--format", "table"),
    ("devices",),
)
LAYERS = """
[[layers]]
name = "block"
weight_bytes = "1GiB"
repeats = 4
kernels = ["9ms"]
"""


class Words(HTMLParser):
    """The text of a page without what its viewer reads, on one line."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._tags: list[str] = []
        self._found: list[str] = []
        self.feed(html)
        self.text = " ".join(" ".join(self._found).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self._tags and self._tags[-1] not in ("script", "style"):
            self._found.append(data)


def cells(answer: Answer, everything: bool) -> set[str]:
    """The sentences and cells that a wide terminal shows of an answer, but for the time line in letters."""
    out = io.StringIO()
    show(replace(answer, sketch=None), Terminal(out, width=5000, color_system=None), everything)
    parts = (part.strip() for part in re.split(r"\n|\s{2,}", out.getvalue()))
    return {part for part in parts if part.strip("─")}


def assert_all_show(answer: Answer) -> None:
    markdown = re.sub(r"\\(.)", r"\1", " ".join(markdown_of(answer, everything=True).split()))
    page, notebook = Words(page_of(answer)).text, Words(notebook_of(answer)).text
    printed = cells(answer, everything=True)
    assert cells(answer, everything=False) <= printed
    for cell in printed:
        for name, shown in (("page", page), ("Markdown", markdown), ("notebook", notebook)):
            assert cell in shown, f"{name}: {cell}"


@examples(20)
@given(runs())
def test_every_renderer_shows_what_the_terminal_says_of_any_program(run: tuple[Schedule, Device]) -> None:
    explanation, prediction = explain(*run), predict(*run)
    assert_all_show(explanation_answer(explanation, prediction.issued_bound, ["x is y"]))
    assert_all_show(prediction_answer(prediction, formulas=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    schedule = made / "s.json"
    assert main(["code", *CUT, "--as", "schedule", "-o", str(schedule)]) == 0
    assert main(["predict", str(schedule), "--device", "h200", "--recording", str(made / "trace.json")]) == 0
    raced = json.loads(schedule.read_text())
    raced["ops"] = [{**op, "stream": 3 - op["stream"]} if op["op"] == "kernel" else op for op in raced["ops"]]
    (made / "race.json").write_text(json.dumps(raced))
    (made / "layers.toml").write_text(LAYERS)
    return made


@pytest.mark.parametrize("command", [*CONFIGS, *OTHERS], ids=lambda command: " ".join(command[:2]))
def test_every_renderer_shows_what_the_terminal_says_of_any_command(
    command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answers: list[Answer] = []
    monkeypatch.setattr(printing, "show", lambda answer, *_: answers.append(answer))
    main(list(command))
    (answer,) = answers
    assert answer.title
    assert_all_show(answer)


def test_what_is_noted_of_a_recording_is_on_its_page(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = folder / "page.html"
    monkeypatch.setattr(reader, "warnings_of", lambda *_: ["bad replay: +25% in all"])
    assert main(["explain", str(folder / "trace.json"), "--page", str(page)]) == 0
    assert "streamsim: bad replay: +25% in all" in capsys.readouterr().err
    assert "bad replay: +25% in all" in Words(page.read_text()).text
