"""A page as a file: what it packs can be unpacked, its words are the command line's, and names in it are data."""

import base64
import hashlib
import json
import random
import re
import shlex
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pages import HOSTILE, PIPELINE, irregular, saved
from perfect_profiler import profiled
from strategies import h2d, kernel, make_device, plan, runs

from streamsim.analysis import predict
from streamsim.answer import (
    Answer,
    Pictures,
    answer_of,
    page_of,
    prediction_answer,
    write_page,
)
from streamsim.cli import main
from streamsim.device import Device
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.page import BECAUSE, Shown, line_data, packed
from streamsim.program import Schedule
from streamsim.recorded import AnnotationKind, Annotations, replay
from streamsim.timeline import causes_of, critical_path


def unpacked(text: str, length: int) -> list[list[int]]:
    """Columns of a page, by what the module says of their form."""
    raw = zlib.decompress(base64.b64decode(text, validate=True))
    numbers, value, bits = [], 0, 0
    for byte in raw:
        value |= (byte & 127) << bits
        bits += 7
        if byte < 128:
            numbers.append(value // 2 if value % 2 == 0 else -(value + 1) // 2)
            value = bits = 0
    return [numbers[k : k + length] for k in range(0, len(numbers), length or 1)]


@given(st.lists(st.lists(st.integers(-(2**52), 2**52), min_size=3, max_size=3), max_size=5))
def test_what_is_packed_can_be_unpacked(columns: list[list[int]]) -> None:
    assert unpacked(packed(columns), 3) == columns


@examples(40)
@given(runs())
def test_the_columns_are_the_time_line(run: tuple[Schedule, Device]) -> None:
    timeline = simulate(*run)
    about = line_data(Shown("x", timeline))
    columns = unpacked(about["columns"], len(timeline))
    late, begins, lasts, back, because = columns[12:]
    issued: list[int] = []
    returned: list[int] = []
    ready: list[int] = []
    start: list[int] = []
    end: list[int] = []
    ended: dict[int, int] = {}
    for op in range(len(timeline)):
        issued.append(columns[10][op] + (issued[-1] if issued else 0))
        returned.append(issued[op] + columns[11][op])
        ready.append(max(returned[op], ended.get(columns[5][op], 0)) + late[op])
        behind = BECAUSE[because[op]] == "engine" and back[op] > 0
        start.append((end[op - back[op]] if behind else ready[op]) + begins[op])
        end.append(start[op] + lasts[op])
        if columns[3][op] >= 0:
            ended[columns[5][op]] = end[op]
    assert columns[9] == [getattr(op, "bytes", getattr(op, "elements", 0)) for op in timeline.schedule.ops]
    assert (issued, start, end) == (list(timeline.issued), list(timeline.start), list(timeline.end))
    assert returned == list(timeline.returned)
    on_card = [op for op in range(len(timeline)) if timeline.engine[op] >= 0]
    assert [ready[op] for op in on_card] == [timeline.ready[op] for op in on_card]
    causes = causes_of(timeline, lower(*run))
    told = [(op - back[op] if back[op] else None, BECAUSE[because[op]]) for op in on_card]
    assert told == [causes[op] for op in on_card]


@examples(40)
@given(runs())
def test_the_critical_path_follows_the_causes(run: tuple[Schedule, Device]) -> None:
    timeline = simulate(*run)
    causes = causes_of(timeline, lower(*run))
    path = critical_path(timeline)
    for step, before in zip(path, [None, *path], strict=False):
        assert causes[step.op] == (None if before is None else before.op, step.because)


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_names_are_data_only_the_viewer_runs_and_nothing_is_fetched() -> None:
    schedule = plan(h2d(1, 10), kernel(1, 5, name=HOSTILE), name=HOSTILE)
    answer = prediction_answer(predict(schedule, make_device()))
    html = page_of(replace(answer, notes=(*answer.notes, HOSTILE), command=HOSTILE))
    found = Elements(html).found
    tags = [tag for tag, _ in found]
    assert (tags.count("script"), tags.count("img")) == (2, 0)  # the data and the viewer
    for tag, attributes in found:
        assert not {"src", "href", "srcset", "action", "onclick", "onload", "style"} & set(attributes), tag
    (policy,) = (at["content"] for tag, at in found if at.get("http-equiv") == "Content-Security-Policy")
    rules = dict([*part.split(), ""][:2] for part in str(policy).split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_thirty_thousand_spans_of_as_many_lengths_take_less_than_300_kb(tmp_path: Path) -> None:
    timeline = irregular(30_000)
    write_page(Answer("many", pictures=lambda: Pictures(lines=(Shown("many", timeline),))), tmp_path / "many.html")
    assert len(timeline) >= 30_000
    assert (tmp_path / "many.html").stat().st_size < 300_000


# The commands


@pytest.mark.parametrize("name", ["best", "sweep", "arrays"])
def test_the_command_and_the_time_line_of_a_cell_take_its_time(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = saved(name, tmp_path)
    found, lines = data["map"], data["map"]["lines"]
    rows = unpacked(found["data"], found["rows"])
    capsys.readouterr()
    for row in random.Random(7).sample(range(found["rows"]), 6):
        options = [column["options"][places[row]] for column, places in zip(found["columns"], rows, strict=False)]
        command = shlex.split(" ".join([found["command"], *options]))
        assert main([*command[1:], "--json"]) == 0
        assert round(json.loads(capsys.readouterr().out)["makespan_s"] * 1e9) == rows[-1][row]
    for row, line in lines.items():
        assert data["lines"][line]["makespan"] == rows[-1][int(row)]
    assert name == "arrays" or min(rows[-1]) in [rows[-1][int(row)] for row in lines]


def test_a_recorded_line_has_the_steps_and_ranges_of_each_thread_by_depth() -> None:
    recording = profiled(predict(PIPELINE, "h200").timeline)
    found = replay(recording, "h200")
    at = found.program.first_ns
    rows = {"step": (AnnotationKind.STEP, 0, 0, 10**12), "forward": (AnnotationKind.RANGE, 0, 10, 40)}
    rows |= {"aten::add": (AnnotationKind.OP, 0, 12, 15), "loader": (AnnotationKind.RANGE, 1, 20, 30)}
    kinds, threads, starts, ends = zip(*rows.values(), strict=True)
    notes = Annotations.of(
        {
            "kind": kinds,
            "name": [len(recording.names) + k for k in range(len(rows))],
            "thread": threads,
            "start_ns": [at + start for start in starts],
            "end_ns": [at + end for end in ends],
        }
    )
    threads_of = (*recording.threads, replace(recording.threads[0], id=99))
    named = replace(recording, names=(*recording.names, *rows), threads=threads_of, annotations=notes)
    line = answer_of(replace(found, recording=named)).pictures().lines[0]
    assert [(row.name, list(row.spans)) for row in line.beside] == [
        ("annotations 0", [(0, "step", 0, round(found.recorded_s * 1e9)), (1, "forward", 10, 40)]),
        ("annotations 1", [(0, "loader", 20, 30)]),
    ]
    about = line_data(line)
    assert {"step", "forward", "loader"} <= set(about["names"])
    assert about["ops"] == len(line.timeline) + 3
