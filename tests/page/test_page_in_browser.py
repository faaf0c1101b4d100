"""A page in a browser: what is drawn, pointed at, clicked and typed is what the time line says."""

import random
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pages import HOSTILE, PIPELINE, irregular, said_by, saved
from strategies import d2h, h2d, kernel, make_device, program

from streamsim.analysis import predict
from streamsim.answer import Answer, Pictures, page_of, prediction_answer
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.page import Shown
from streamsim.program import Op, RecordEvent, Synchronize
from streamsim.report import COLOURS, D2H, H2D, KERNEL
from streamsim.text import format_seconds
from streamsim.timeline import Timeline, Track, causes_of, critical_path, label

pytestmark = pytest.mark.ci

Look = Callable[[str], Any]

CHART = "streamsim.views[0].charts[0]"
COVERED = """([name, red, green, blue]) => {
  const chart = streamsim.views[0].charts[0], canvas = chart.canvas, ratio = devicePixelRatio;
  const row = chart.line.rows.find(one => one.name === name), height = row.height * 0.78;
  const width = chart.x(chart.line.about.makespan) - chart.left;
  const box = [chart.left, row.top + (row.height - height) / 2, width, height];
  const [x, y, w, h] = box.map(part => Math.round(part * ratio));
  const dots = canvas.getContext("2d").getImageData(x, y, w, h).data;
  let found = 0;
  for (let at = 0; at < dots.length; at += 4)
    found += Math.abs(dots[at] - red) + Math.abs(dots[at + 1] - green) + Math.abs(dots[at + 2] - blue) < 60;
  return found / (w * h);
}"""


def html_of(timeline: Timeline) -> str:
    return page_of(Answer("a time line", pictures=lambda: Pictures(lines=(Shown("it", timeline),))))


def point_at(page: Any, op: int) -> tuple[float, float]:
    """Bring the op into view and the pointer to the middle of it in the row of its engine; where that is."""
    page.evaluate(f"op => {{ const c = {CHART}, s = c.line.spanOf(op); c.view.close(s); c.view.draw(); }}", op)
    where = page.evaluate(
        f"""op => {{ const c = {CHART}, {{row, k}} = c.line.spanOf(op), box = c.canvas.getBoundingClientRect();
        return [box.left + (c.x(row.from[k]) + c.x(row.to[k])) / 2,
                box.top + row.top + row.height * (0.11 + 0.78 * (row.lane[k] + 0.5) / row.lanes)]; }}""",
        op,
    )
    page.mouse.move(*where)
    return where[0], where[1]


def told(page: Any) -> str:
    text: str = page.inner_text(".tip:visible")
    return text


def exactly(ticks: int) -> str:
    """A time with all of its digits."""
    for unit, size in (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        if ticks < size * 1000 or unit == "s":
            whole, part = divmod(ticks, size)
            digits = str(part).rjust(len(str(size)) - 1, "0").rstrip("0") if part else ""
            return f"{whole}{'.' if digits else ''}{digits} {unit}"
    raise AssertionError


@pytest.fixture(scope="module")
def many() -> Timeline:
    return irregular(3000)


def test_thirty_thousand_spans_cover_each_row_as_long_as_its_engine_is_busy(look: Look) -> None:
    many = irregular(30_000)
    page = look(html_of(many))
    for engine, kind in (("h2d", H2D), ("compute", KERNEL), ("d2h", D2H)):
        colour = [int(COLOURS[kind][k : k + 2], 16) for k in (1, 3, 5)]
        assert page.evaluate(COVERED, [engine, *colour]) == pytest.approx(many.utilisation[engine], abs=0.06)
    assert page.evaluate("streamsim.views[0].charts[0].line.count") == len(many)


def test_a_row_has_no_ink_where_nothing_runs(look: Look) -> None:
    """Beside a copy that ends just behind the edge of a pixel, whose share of that pixel is next to nothing."""
    page = look(html_of(simulate(program(h2d(1, 2000), kernel(2, 2 * 10**6)), make_device())))
    page.evaluate(f"(c => c.view.set(0, 2000 * (c.right - c.left) / 2.006) ?? c.draw())({CHART})")
    are_equal = page.evaluate(
        f"""() => {{
        const chart = {CHART}, ratio = devicePixelRatio, pen = chart.canvas.getContext("2d");
        const [one, other] = ["h2d", "d2h"].map(name => {{
            const row = chart.line.rows.find(one => one.name === name);
            const box = [chart.x(2000) + 2, row.top, chart.right - chart.x(2000) - 4, row.height];
            return pen.getImageData(...box.map(part => Math.round(part * ratio))).data.join();
        }});
        return one === other; }}"""
    )
    assert are_equal  # nothing runs on d2h


def test_pointing_at_an_op_names_it_and_says_when_and_why(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    assert many.device is not None
    causes = causes_of(many, lower(many.schedule, many.device))
    reasons = {"engine": "for its engine", "stream": "It waited for its stream", "host": "It waited for the host"}
    for op in random.Random(1).sample(range(len(many)), 12):
        point_at(page, op)
        text, (_, because) = told(page), causes[op] or (None, "start")
        assert text.startswith(f"{label(many.schedule.ops[op])} ")
        assert f"op {op}\n" in text
        assert f"{exactly(many.start[op])} to {exactly(many.end[op])}" in text
        assert reasons.get(because, "") in text


def test_a_click_follows_what_the_op_waited_for(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    assert many.device is not None
    causes = causes_of(many, lower(many.schedule, many.device))
    for op in (100, 2500):
        page.mouse.click(*point_at(page, op))
        chain, at = [op], causes[op]
        while at is not None and at[0] is not None:
            chain.append(at[0])
            at = causes[at[0]]
        assert page.evaluate(f"{CHART}.chainOps") == chain[::-1]
        assert page.locator(".told li").count() == min(len(chain) - 1, 40)
        assert f"op {op}" in page.inner_text(".told")


def test_the_critical_path_is_the_models(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    assert page.evaluate(f"{CHART}.path") == [step.op for step in critical_path(many)]
    page.click("text=Critical path")
    assert page.get_attribute("[data-do=path]", "aria-pressed") == "true"


def test_the_wheel_zooms_about_the_pointer_and_the_axis_gets_digits(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    box = page.locator("canvas").first.bounding_box()
    x, y = box["x"] + 700, box["y"] + 80
    page.mouse.move(x, y)
    ticks = f"{CHART}.ticks(700)"
    before, digits, span = page.evaluate(f"[{ticks}, {CHART}.labels[1].length, {CHART}.view.to - {CHART}.view.from]")
    page.mouse.wheel(0, -300)  # scrolls the page, until the picture is clicked
    page.wait_for_timeout(60)
    assert page.evaluate(f"{CHART}.view.to - {CHART}.view.from") == span
    page.evaluate("scrollTo(0, 0)")
    page.mouse.click(x, y)
    for _ in range(12):
        page.mouse.wheel(0, -300)
    page.wait_for_timeout(60)  # the next frame
    after, more, less = page.evaluate(f"[{ticks}, {CHART}.labels[1].length, {CHART}.view.to - {CHART}.view.from]")
    assert less < span / 1000
    assert after == pytest.approx(before, abs=less / 100)
    assert more > digits
    assert len(set(page.evaluate(f"{CHART}.labels"))) == len(page.evaluate(f"{CHART}.labels"))


def test_dragging_moves_the_view_and_shows_no_span_outside(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    page.click("text=Zoom in")
    box = page.locator("canvas").first.bounding_box()
    begin = page.evaluate(f"{CHART}.view.from")
    page.mouse.move(box["x"] + 800, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    page.mouse.up()
    moved = page.evaluate(f"{CHART}.view.from") - begin
    assert moved == pytest.approx(300 / page.evaluate(f"{CHART}.scale"), rel=0.05)


def test_the_keyboard_walks_from_op_to_op_and_to_what_it_waited_for(look: Look) -> None:
    timeline = simulate(program(h2d(1, 100), h2d(2, 50), kernel(2, 30), kernel(1, 10)), make_device())
    page = look(html_of(timeline))
    page.focus(".picture")
    selected = f"{CHART}.selected?.op"
    seen = []
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter", "Enter", "Escape"):
        page.keyboard.press(key)
        seen.append(page.evaluate(selected))
    # Op 0 copies from 0 to 100 and op 1 until 150. While op 1 copies, kernel 3 runs; it waited for op 0.
    assert seen == [0, 1, 3, 0, 0, None]
    assert page.evaluate("document.querySelector('.told').getAttribute('aria-live')") == "polite"


def test_the_table_behind_the_picture_has_every_op(look: Look) -> None:
    timeline = simulate(
        program(*(op for k in range(80) for op in (h2d(1, 9 + k), d2h(2, 5))), Synchronize()), make_device()
    )
    page = look(html_of(timeline))
    page.click("summary:has-text('Table of the ops')")
    page.wait_for_selector(".ops tbody tr")
    rows = page.evaluate(
        "[...document.querySelectorAll('.ops tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    page.click("text=The next 100")
    rows += page.evaluate(
        "[...document.querySelectorAll('.ops tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [int(row[0]) for row in rows] == list(range(len(timeline)))
    for op, row in enumerate(rows[:-1]):
        assert row[3:8] == [
            exactly(timeline.issued[op]),
            exactly(timeline.ready[op]),
            exactly(timeline.start[op]),
            exactly(timeline.end[op]),
            exactly(timeline.end[op] - timeline.start[op]),
        ]


def test_names_tables_and_calls_lead_to_ops(look: Look) -> None:
    ops = (h2d(1, 100), kernel(1, 30, name="scale"), kernel(1, 20, name="add"), kernel(2, 20, name="add"))
    page = look(html_of(simulate(program(*ops), make_device(kernel=3))))
    selected = f"[{CHART}.selected?.op, {CHART}.selected?.row.group]"
    found = []
    for text in ("ADD", "add", "add", "nothing"):
        page.fill("[type=search]", text)
        page.press("[type=search]", "Enter")
        found.append(page.evaluate(selected)[0])
    assert found == [2, 3, 2, 2]
    assert page.get_attribute("[type=search]", "aria-invalid") == "true"
    page.click("summary:has-text('Table of the ops')")
    page.click(".ops tbody tr:nth-child(2) button")
    assert page.evaluate(selected) == [1, "engine"]
    page.click("text=To the call that issued it")
    assert page.evaluate(selected) == [1, "host"]
    page.focus(".picture")
    page.keyboard.press("l")
    assert page.evaluate(selected) == [1, "engine"]
    page.click("text=Colours by name")
    hues = page.evaluate(f"[1, 2, 3].map(op => {CHART}.line.hue.get({CHART}.line.name[op]))")
    assert hues[0] != hues[1] == hues[2]


def test_a_hostile_name_is_shown_and_not_run(look: Look) -> None:
    timeline = simulate(program(kernel(1, 50, name=HOSTILE), name=HOSTILE), make_device())
    page = look(
        page_of(
            Answer(
                HOSTILE, notes=(HOSTILE,), pictures=lambda: Pictures(lines=(Shown(HOSTILE, timeline),)), command=HOSTILE
            )
        )
    )
    point_at(page, 0)
    assert told(page).startswith(HOSTILE)
    assert page.inner_text("h1") == HOSTILE
    page.click("summary:has-text('Table of the ops')")
    assert page.locator("img").count() == 0


def test_a_printed_picture_keeps_its_shape(look: Look) -> None:
    page = look(html_of(irregular(30)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 640, "height": 900})
    page.evaluate("streamsim.views[0].redraw = streamsim.views[0].draw = () => {}")  # the paper is laid out later
    shape = page.evaluate(f"(c => c.clientWidth / c.clientHeight / (c.width / c.height))({CHART}.canvas)")
    assert shape == pytest.approx(1, abs=0.02)
    assert page.locator(".tools, .keys, .told").first.is_hidden()
    assert page.locator(".line").bounding_box()["y"] < 450  # on the first sheet


def test_the_policy_stops_another_script_and_any_request(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html_of(irregular(3)).replace("</main>", "</main><script>window.ran = 1</script>"))
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn=yes]", state="attached")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'fetched', () => 'refused')") == "refused"
    page.close()


@pytest.mark.parametrize(
    "ops",
    [
        [Synchronize()],
        [RecordEvent(0, 1)],
        [kernel(1, 0)],
        [h2d(0, 5, blocking=True), kernel(0, 10**13)],
        [kernel(1, 5, name="x" * 3000)],
        [op for stream in range(1, 181) for op in (h2d(stream, 3), kernel(stream, 4))],
    ],
    ids=["a call", "an event", "no time", "hours", "a long name", "180 streams"],
)
def test_whatever_is_drawn_answers_the_keys(look: Look, ops: list[Op]) -> None:
    page = look(html_of(simulate(program(*ops, streams=180), make_device(wait=3))))
    page.focus(".picture")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Enter", "c", "+", "+", "-", "Shift+ArrowLeft", "0", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_timeout(60)  # the next frame
    drawn = page.evaluate(f"{CHART}.line.rows.some(row => row.from.length)")
    assert page.evaluate(f"{CHART}.selected !== null") == drawn


def test_spans_of_lanes_have_rows_of_their_own_and_say_what_they_are(look: Look) -> None:
    was = simulate(program(h2d(1, 100), kernel(1, 50)), make_device())
    lane = Track("pages in, after faults", array("q", [10, 60]), array("q", [30, 150]))
    page = look(html_of(replace(was, tracks=(lane,))))
    rows = page.evaluate(f"{CHART}.line.rows.map(row => [row.name, row.group, [...row.from], [...row.to]])")
    assert [row for row in rows if row[0] == lane.name] == [[lane.name, "engine", [10, 60], [30, 150]]]
    assert sum(row[1] == "stream" for row in rows) == 1
    assert page.evaluate(COVERED, [lane.name, 0x00, 0x80, 0x5C]) == pytest.approx(110 / 150, abs=0.1)  # less its names
    point_at(page, len(was) + 1)
    assert "pages in, after faults" in told(page)
    assert exactly(90) in told(page)


def test_figures_and_tables_need_no_script(browser: Any, tmp_path: Path) -> None:
    prediction = predict(PIPELINE, "h200")
    file = tmp_path / "page.html"
    file.write_text(page_of(prediction_answer(prediction)))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert format_seconds(prediction.makespan_s) in page.inner_text("body")
    assert "h2d busy" in page.inner_text("table")
    context.close()


# Maps


SHOWN = """() => [...document.querySelectorAll('.grid tbody tr')].map(row =>
    [row.cells[0].textContent, ...[...row.cells].slice(1).map(cell => cell.title.split("\\n")[0])])"""


def test_a_map_shows_the_shortest_row_of_each_cell(look: Look, tmp_path: Path) -> None:
    saved("sweep", tmp_path)
    rows = said_by(tmp_path / "rows.csv")
    page = look((tmp_path / "page.html").read_text())
    for held in (None, "a100"):
        if held:
            page.get_by_label("device", exact=True).select_option(label=held)
        for streams, *cells in page.evaluate(SHOWN):
            for chunks, cell in enumerate(cells, 1):
                times = [
                    round(float(row["makespan_s"]) * 1e9)
                    for row in rows
                    if (row["streams"], row["chunks"]) == (streams, str(chunks))
                    and row["device"] in (held or row["device"])
                ]
                assert cell == exactly(min(times))
    assert "device a100" in page.inner_text(".map > .told")  # what is told follows what is held


def test_a_cell_says_its_time_and_shows_its_time_line(look: Look, tmp_path: Path) -> None:
    data = saved("best", tmp_path)
    page = look((tmp_path / "page.html").read_text())
    row, line = next(iter(data["map"]["lines"].items()))
    page.evaluate("row => streamsim.map.choose({row})", int(row))
    page.wait_for_function("line => streamsim.map.view?.charts[0].line.about === streamsim.data.lines[line]", arg=line)
    assert page.inner_text(".map > .told b") == exactly(data["lines"][line]["makespan"])
    page.focus(".grid [aria-selected]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("streamsim.map.chosen") != int(row)
    page.wait_for_function("() => document.activeElement === streamsim.map.cellOf(streamsim.map.chosen)")


def test_the_regions_are_those_within_one_and_five_per_cent(look: Look, tmp_path: Path) -> None:
    saved("sweep", tmp_path)
    page = look((tmp_path / "page.html").read_text())
    best = page.evaluate("streamsim.map.ticks[streamsim.map.best]")
    cells = page.evaluate("[...streamsim.map.cells].map(row => streamsim.map.ticks[row])")
    for percent in (1, 5):
        inside = page.evaluate(
            "percent => [...streamsim.map.cells].map(row => streamsim.map.within(row, percent))", percent
        )
        assert inside == [100 * (ticks - best) <= percent * best for ticks in cells]
    # A line stands between two neighbours if one of them is within 5 % and the other is not.
    lined = page.evaluate("[...document.querySelectorAll('.grid td')].map(cell => cell.style.borderRightStyle !== '')")
    wide = page.evaluate("streamsim.map.across.length")
    inner = [(k, k + 1) for k in range(len(cells) - 1) if (k + 1) % wide]
    rows_up = [at for start in range(len(cells) - wide, -1, -wide) for at in range(start, start + wide)]
    shown = dict(zip(rows_up, lined, strict=True))
    close, near = ([ticks * 100 <= best * (100 + percent) for ticks in cells] for percent in (5, 1))
    for left, right in inner:
        assert shown[left] == (close[left] > close[right] or near[left] > near[right])
