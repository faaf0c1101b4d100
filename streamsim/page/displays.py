"""The displays of values: the tables that a value prints, and the page that it writes or shows in a notebook."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from streamsim.analysis import Explanation, Prediction, WhatIf
from streamsim.device import Device, link_words
from streamsim.diagnosis import Diagnosis
from streamsim.page.document import Page, write_page
from streamsim.page.pages import diagnosis_page, explanation_page, loop_page, prediction_page, replay_page, what_if_page
from streamsim.page.searches import best_page, best_summary, sweep_page
from streamsim.page.timelines import Shown
from streamsim.program import Copy, Schedule
from streamsim.recorded import Recording, RecordingSummary, Replay, summarise
from streamsim.report import (
    FOLDED,
    Table,
    column_words,
    in_html,
    loss_tables,
    recording_table,
    value_words,
)
from streamsim.search import Best, Sweep
from streamsim.text import counted, format_bytes, format_seconds, format_share, printable
from streamsim.timeline import Timeline, label
from streamsim.training import LoopAdvice

WIDTH = 120  # of a table as text, in characters
# Heights of a page in a notebook, in pixels.
ROW_PX, PICTURE_PX, PART_PX, MAP_PX, REST_PX, MOST_PX = 24, 110, 26, 900, 400, 1400
PARTS_HEAD = 6  # the height of the words above the parts, in parts


def text_of(value: Any) -> str:
    """Return the tables of ``value`` as the command line prints them."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, highlight=False, color_system=None)
    for table in _page(value).tables:
        console.print(Text(printable(table.title)), soft_wrap=True)
        console.print(replace(table, title=""))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def write(value: Any, path: str | os.PathLike[str]) -> None:
    """Write the page of ``value``."""
    write_page(_page(value, whole=True), path)


def html_of(value: Any) -> str:
    """Return the HTML for a notebook: the tables, and below them the pictures, if any, in a frame of their own."""
    page = _page(value)
    tables = "".join(table.html() for table in page.tables)
    if not page.lines and page.map is None and page.losses is None:
        return tables
    rows = sum(len({*one.timeline.engine, *(op.stream for op in one.timeline.schedule.ops)}) for one in page.lines)
    parts = len(page.losses.parts) + PARTS_HEAD if page.losses else 0
    high = REST_PX + rows * ROW_PX + len(page.lines) * PICTURE_PX + parts * PART_PX + (MAP_PX if page.map else 0)
    inside = escape(replace(page, tables=(), notes=()).html())
    frame = f'sandbox="allow-scripts" width="100%" height="{min(high, MOST_PX)}" style="border:0"'
    return f'{tables}<iframe title="{in_html(page.title)}" {frame} srcdoc="{inside}"></iframe>'


def _page(value: Any, whole: bool = False) -> Page:
    """Return the page of ``value``. ``whole``: with the parts that take some time to compute.

    A value of another package makes its page itself.
    """
    if hasattr(value, "_page"):
        made: Page = value._page()
        return made
    kinds: dict[str, Callable[[Any], Page]] = {
        "Prediction": _prediction,
        "Explanation": partial(_explanation, whole=whole),
        "Timeline": _timeline,
        "WhatIf": _what_if,
        "Best": _searched if whole else _best,
        "Sweep": _swept if whole else _sweep,
        "Schedule": _schedule,
        "Device": _device,
        "Recording": _recording,
        "RecordingSummary": _summary,
        "Replay": _replay,
        "Diagnosis": _diagnosis,
        "LoopAdvice": _loop_advice,
    }
    return kinds[type(value).__name__](value)


def _prediction(value: Prediction) -> Page:

    return prediction_page(value)


def _explanation(value: Explanation, whole: bool) -> Page:

    page = explanation_page(value)
    return page if whole else replace(page, tables=loss_tables(value, FOLDED))


def _timeline(value: Timeline) -> Page:

    seconds, name = partial(format_seconds, within=value.known_within), value.schedule.name or "schedule"
    where = "measured" if value.device is None else f"on {value.device.name}"
    used = value.utilisation
    rows = (
        ("makespan", seconds(value.makespan_s), ""),
        *((f"{k} busy", seconds(s), format_share(used[k], value.known_within)) for k, s in value.busy_s.items()),
        *((lane.name, seconds(lane.busy_s), "unified memory") for lane in value.tracks),
    )
    overlap = ("overlap", seconds(value.overlap_s), "two engines or more busy")
    table = Table(f"{name} {where}", ((*rows, overlap),), right=frozenset({1}))
    return Page(table.title, lines=(Shown(where, value),), tables=(table,))


def _what_if(value: WhatIf) -> Page:

    lines = {"as it is": value.as_it_is, f"with {value.together.change}": value.timeline}
    return what_if_page(value, f"{value.as_it_is.schedule.name or 'schedule'}: {value.together.change}", lines)


def _best(value: Best[Any]) -> Page:

    return best_summary(value)


def _searched(value: Best[Any]) -> Page:

    return best_page(value)


def _sweep(value: Sweep) -> Page:

    def words(name: str, values: tuple[Any, ...]) -> str:
        shown = [value_words(name, one) for one in values]
        return ", ".join(shown if len(shown) <= 8 else [*shown[:4], "...", *shown[-2:]])

    rows = tuple((column_words(axis.name), str(len(axis.values)), words(axis.name, axis.values)) for axis in value.axes)
    title = f"sweep of {len(value):,} combinations"
    return Page(title, tables=(Table(title, (rows,), ("axis", "values", ""), frozenset({1})),))


def _swept(value: Sweep) -> Page:

    return sweep_page(list(value), value)


def _schedule(value: Schedule) -> Page:

    counts, sizes = Counter(map(label, value.ops)), Counter[str]()
    for op in value.ops:
        sizes[label(op)] += op.bytes if isinstance(op, Copy) else 0
    rows = tuple(
        (name, f"{count:,}", format_bytes(sizes[name]) if sizes[name] else "") for name, count in counts.items()
    )
    streams = counted(len(value.used_streams), "stream")
    title = f"{value.name or 'schedule'}: {counted(len(value), 'op')} in {streams}, {value.launch}"
    on_card = ("on the card", "", format_bytes(value.device_bytes))
    return Page(title, tables=(Table(title, (rows, (on_card,)), right=frozenset({1})),))


def _device(value: Device) -> Page:

    memory = "not known" if value.memory_bytes is None else format_bytes(value.memory_bytes)
    rows = (
        ("description", value.description),
        ("link", link_words(value)),
        ("memory", memory),
        ("copy engines", str(value.copy_engines.count)),
        ("connections", str(value.connections)),
    )
    return Page(value.name, tables=(Table(value.name, (rows,)),))


def _recording(value: Recording) -> Page:

    return _summary(summarise(value))


def _summary(value: RecordingSummary) -> Page:

    return Page("recording", tables=(recording_table(value, f"recorded by {value.tool}"),))


def _replay(value: Replay) -> Page:

    return replay_page(f"recorded by {value.recording.tool}", value)


def _diagnosis(value: Diagnosis) -> Page:

    page = diagnosis_page(value)
    first, *others = page.tables
    return replace(page, tables=(replace(first, title=f"{value.device}: {value.verdict}. {first.title}"), *others))


def _loop_advice(value: LoopAdvice) -> Page:

    page = loop_page(value)
    (table,) = page.tables
    return replace(page, tables=(replace(table, title=f"{page.title}: {value.verdict}"),))
