"""A page in a browser: what is drawn, pointed at, clicked and typed is what the time line says."""

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE, PIPELINE, WORKLOAD, irregular, said_by, saved
from strategies import h2d, kernel, make_device, plan

from streamsim.advice import explain
from streamsim.analysis import predict
from streamsim.answer import Answer, Pictures, explanation_answer, page_of, prediction_answer
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.page import Shown
from streamsim.program import Config, Op, RecordEvent, Synchronize, breadth_first
from streamsim.report import COLOURS, D2H, H2D, KERNEL
from streamsim.text import format_seconds
from streamsim.timeline import Timeline, causes_of, critical_path, label
from streamsim.transform import Source

pytestmark = pytest.mark.ci

Look = Callable[[str], Any]

CHART = "streamsim.view.charts[0]"
COVERED = """([name, red, green, blue]) => {
  const chart = streamsim.view.charts[0], canvas = chart.canvas, ratio = devicePixelRatio;
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
    where = page.evaluate(
        f"""op => {{ const c = {CHART}, {{row, k}} = c.line.spanOf(op), box = c.canvas.getBoundingClientRect();
        c.view.set(row.from[k] - row.to[k] + row.from[k], row.to[k] * 2 - row.from[k]) ?? c.view.draw();
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
    places = min((len(str(ticks)) - 1) // 3, 3)
    return f"{Decimal(ticks).scaleb(-3 * places).normalize():f} {('ns', 'us', 'ms', 's')[places]}"


@pytest.fixture(scope="module")
def many() -> Timeline:
    return irregular(3000)


def test_thirty_thousand_spans_cover_each_row_as_long_as_its_engine_is_busy(look: Look) -> None:
    many = irregular(30_000)
    page = look(html_of(many))
    for engine, kind in (("h2d", H2D), ("compute", KERNEL), ("d2h", D2H)):
        colour = [int(COLOURS[kind][k : k + 2], 16) for k in (1, 3, 5)]
        assert page.evaluate(COVERED, [engine, *colour]) == pytest.approx(many.utilisation[engine], abs=0.06)
    assert page.evaluate("streamsim.view.charts[0].line.count") == len(many)


def test_a_row_has_no_ink_where_nothing_runs(look: Look) -> None:
    """Beside a copy that ends just behind the edge of a pixel, whose share of that pixel is next to nothing."""
    page = look(html_of(simulate(plan(h2d(1, 2000), kernel(2, 2 * 10**6)), make_device())))
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


def test_an_op_says_when_and_why_and_a_click_follows_what_it_waited_for(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    assert many.device is not None
    causes = causes_of(many, lower(many.schedule, many.device))
    reasons = {"engine": "for its engine", "stream": "It waited for its stream", "host": "It waited for the host"}
    for op in [100, 2500, *random.Random(1).sample(range(len(many)), 10)]:
        where, (_, because) = point_at(page, op), causes[op] or (None, "start")
        text = told(page)
        assert text.startswith(f"{label(many.schedule.ops[op])} ")
        assert f"op {op}\n" in text
        assert f"{exactly(many.start[op])} to {exactly(many.end[op])}" in text
        assert reasons.get(because, "") in text
        page.mouse.click(*where)
        chain, at = [op], causes[op]
        while at is not None and at[0] is not None:
            chain.append(at[0])
            at = causes[at[0]]
        assert page.evaluate(f"{CHART}.chainOps") == chain[::-1]
        assert page.locator(".told li").count() == min(len(chain) - 1, 40)
        box, height = page.locator(".told").first.bounding_box(), page.viewport_size["height"]
        assert f"op {op}\n" in page.inner_text(".told")
        assert 0 <= box["y"] < box["y"] + box["height"] <= height  # in view, beside the picture
    assert page.evaluate(f"{CHART}.path") == [step.op for step in critical_path(many)]
    page.click("text=Critical path")
    assert page.get_attribute("[data-key=c]", "aria-pressed") == "true"


def test_the_wheel_zooms_a_clicked_picture_about_the_pointer_and_dragging_moves_it(look: Look, many: Timeline) -> None:
    page = look(html_of(many))
    box = page.locator("canvas").first.bounding_box()
    x, y = box["x"] + 700, box["y"] + 80
    page.mouse.move(x, y)
    asked = f"(c => [c.ticks(700), c.labels[1].length, c.view.to - c.view.from, c.view.from])({CHART})"
    before, digits, span, _ = page.evaluate(asked)
    page.mouse.wheel(0, -300)  # scrolls the page, until the picture is clicked
    page.wait_for_timeout(60)
    assert page.evaluate(asked)[2] == span
    page.evaluate("scrollTo(0, 0)")
    page.mouse.click(x, y)
    for _ in range(12):
        page.mouse.wheel(0, -300)
    page.wait_for_timeout(60)  # the next frame
    after, more, less, begin = page.evaluate(asked)
    assert less < span / 1000
    assert after == pytest.approx(before, abs=less / 100)
    assert more > digits
    labels = page.evaluate(f"{CHART}.labels")
    assert len(set(labels)) == len(labels)
    page.mouse.down()
    page.mouse.move(x - 300, y, steps=4)
    page.mouse.up()
    moved = page.evaluate(asked)[3] - begin
    assert moved == pytest.approx(300 / page.evaluate(f"{CHART}.scale"), rel=0.05)


def test_the_keyboard_walks_from_op_to_op_and_to_what_it_waited_for(look: Look) -> None:
    timeline = simulate(plan(h2d(1, 100), h2d(2, 50), kernel(2, 30), kernel(1, 10)), make_device())
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


def test_names_tables_and_calls_lead_to_ops(look: Look) -> None:
    ops = (h2d(1, 100), kernel(1, 30, name="scale"), kernel(1, 20, name="add"), kernel(2, 20, name="add"))
    page = look(html_of(simulate(plan(*ops), make_device(kernel=3))))
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
    timeline = simulate(plan(kernel(1, 50, name=HOSTILE), name=HOSTILE), make_device())
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


def test_the_policy_stops_another_script_and_any_request(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html_of(irregular(3)).replace("</main>", "</main><script>window.ran = 1</script>"))
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn=yes]", state="attached")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'fetched', () => 'refused')") == "refused"
    page.close()


ODD: dict[str, list[Op]] = {
    "a call": [Synchronize()],
    "an event": [RecordEvent(0, 1)],
    "no time": [kernel(1, 0)],
    "hours": [h2d(0, 5, blocking=True), kernel(0, 10**13)],
    "a long name": [kernel(1, 5, name="x" * 3000)],
    "180 streams": [op for stream in range(1, 181) for op in (h2d(stream, 3), kernel(stream, 4))],
}


@pytest.mark.parametrize("ops", ODD.values(), ids=ODD.keys())
def test_whatever_is_drawn_answers_the_keys(look: Look, ops: list[Op]) -> None:
    page = look(html_of(simulate(plan(*ops, streams=180), make_device(wait=3))))
    page.focus(".picture")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Enter", "c", "+", "+", "-", "Shift+ArrowLeft", "0", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_timeout(60)  # the next frame
    drawn = page.evaluate(f"{CHART}.line.rows.some(row => row.from.length)")
    assert page.evaluate(f"{CHART}.selected !== null") == drawn


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


def test_a_map_shows_the_shortest_row_of_each_cell_and_what_is_near_the_best(look: Look, tmp_path: Path) -> None:
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
    best, cells, lined = page.evaluate(
        """(map => [map.ticks[map.best], [...map.cells].map(row => map.ticks[row]), [...map.cells.keys()].map(cell =>
        map.place.querySelector("tbody").rows[map.up.length - 1 - Math.floor(cell / map.across.length)]
        .cells[cell % map.across.length + 1].style.borderRight.split(" ")[1] ?? "")])(streamsim.map)"""
    )
    close, near = ([ticks * 100 <= best * (100 + percent) for ticks in cells] for percent in (5, 1))
    for left in (cell for cell in range(len(cells)) if (cell + 1) % 8):  # a line stands between inside and outside
        is_near, is_close = (inside[left] > inside[left + 1] for inside in (near, close))
        assert lined[left] == ("solid" if is_near else "dashed" if is_close else "")


def test_a_cell_says_its_time_and_shows_its_time_line_and_none_is_a_hole(look: Look, tmp_path: Path) -> None:
    data = saved("best", tmp_path)
    page = look((tmp_path / "page.html").read_text())
    times = {(streams, k): cell for streams, *cells in page.evaluate(SHOWN) for k, cell in enumerate(cells, 1)}
    for streams, chunks in times:  # more streams than chunks are of no use
        assert times[streams, chunks] == times[str(min(int(streams), chunks)), chunks] != ""
    row, line = next(iter(data["map"]["lines"].items()))
    page.evaluate("row => streamsim.map.choose({row})", int(row))
    page.wait_for_function("line => streamsim.map.view?.charts[0].line.about === streamsim.data.lines[line]", arg=line)
    assert page.inner_text(".map > .told b") == exactly(data["lines"][line]["makespan"])
    page.focus(".grid [aria-selected]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("streamsim.map.chosen") != int(row)
    page.wait_for_function("() => document.activeElement === streamsim.map.cellOf(streamsim.map.chosen)")


def test_a_button_shows_what_another_change_would_give(look: Look) -> None:
    schedule = breadth_first(WORKLOAD, 6, 3)
    explanation = explain(schedule, "h200", Source(WORKLOAD, Config(order="breadth-first", chunks=6, streams=3)))
    page = look(page_of(explanation_answer(explanation)))
    buttons = page.locator("[data-line]")
    assert buttons.count() > 1
    for button in buttons.all():
        button.click()
        page.wait_for_selector(f".line h3 >> nth=0 >> text={button.inner_text()}")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator("[data-line][aria-pressed=true]").count() == 1
    made = {one.text: one.takes_s for one in explanation.tried.trials}
    shown = page.evaluate(f"[{CHART}.line.about.name, {CHART}.line.about.makespan]")
    assert shown[1] == round(made[shown[0].removeprefix("changed: ")] * 1e9)
