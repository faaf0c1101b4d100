"""A prediction, put together for people (a table, a Gantt chart in the terminal) and for programs (JSON, CSV)."""

import csv
import io
from collections.abc import Iterable
from functools import partial
from typing import Any

from streamsim.analysis import BOUND_AS_ISSUED, BOUND_OF_WORK, ELSEWHERE, FORMULA_WORDS, Prediction, WithoutRing
from streamsim.report.serial import SERIAL_WORDS
from streamsim.report.tables import Row, Table, facts
from streamsim.rules import TICKS_PER_S
from streamsim.text import (
    format_between,
    format_bytes,
    format_change,
    format_ratio,
    format_seconds,
    format_share,
    to_cell,
)
from streamsim.timeline import Timeline

IDLE, PARTLY, LANE = ".", ":", "#"
SLIVER = 0.02  # of a column: less than this is not shown
STREAM_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


# For people


def summary(prediction: Prediction, formulas: bool = False) -> Table:
    """Return the figures: name, value, remark; with what the published ``formulas`` say or without."""
    p = prediction
    seconds = partial(format_seconds, within=p.known_within)
    waits = max(p.critical_s, key=lambda name: p.critical_s[name])
    path = f"{seconds(p.critical_s[waits])} of it {_place(waits)}"
    times = [*_serials(p), *_bounds(p), ("critical path", seconds(sum(p.critical_s.values())), path)]
    engines = [
        (f"{name} busy", seconds(use.busy_s), f"{format_share(use.utilisation, p.known_within)} of the time")
        for name, use in p.engines.items()
    ]
    engines.append(("overlap", seconds(p.overlap_s), "two engines or more busy"))
    has = "" if p.memory_bytes is None else f"of {format_bytes(p.memory_bytes)}"
    memory = [("on the card", format_bytes(p.device_bytes), has)]
    if p.without_ring is not None:
        memory.append(("without the ring", seconds(p.without_ring.makespan_s), _ring_words(p, p.without_ring)))
    published = _formulas(p) if formulas else []
    return facts(f"{p.schedule.name or 'schedule'} on {p.device}", (times, engines, memory, published))


def _formulas(p: Prediction) -> list[Row]:
    return [
        (name, format_seconds(s, p.known_within), f"{_against(s, p)}: {FORMULA_WORDS[name]}")
        for name, s in p.formulas.items()
    ]


def _bounds(p: Prediction) -> list[Row]:
    """Return the rows of the lower bounds: of the work, if known, and of this schedule."""
    known = [(BOUND_OF_WORK, p.work_bound)] if p.work_bound else []
    within = p.known_within
    return [
        (
            name,
            format_seconds(bound.seconds, within),
            f"by {bound.bound_by}; predicted is {format_share(p.over(bound) - 1, within)} above",
        )
        for name, bound in (*known, (BOUND_AS_ISSUED, p.issued_bound))
    ]


def _ring_words(p: Prediction, other: WithoutRing) -> str:
    holds = f"{format_bytes(other.device_bytes)} on the card{'' if other.fits else ', more than there is room for'}"
    cost = p.makespan_s / other.makespan_s - 1 if other.makespan_s else 0.0
    saved = other.device_bytes - p.device_bytes
    change = f"saves {format_bytes(saved)}" if saved >= 0 else f"takes {format_bytes(-saved)} more"
    return f"{holds}; the ring costs {format_change(cost, p.known_within)} of time and {change}"


def _serials(p: Prediction) -> list[Row]:
    """Return what the prediction is compared with, each under its name, and the prediction."""
    seconds, ratio = partial(format_seconds, within=p.known_within), partial(format_ratio, within=p.known_within)
    room = "" if p.serial_fits else f"; {format_bytes(p.serial_device_bytes)}, for which there is no room"
    rows = [(p.serial_program, seconds(p.serial_s), f"{SERIAL_WORDS[p.serial_program]}{room}")]
    gain = f"{ratio(p.speedup)} as fast as {p.serial_program}"
    if p.serial_program != "serial":
        times = f"{SERIAL_WORDS['serial']}: {ratio(p.speedup_over_one_by_one)} as long"
        rows.append(("serial", seconds(p.one_by_one_s), times))
    returns = ("calls return", seconds(p.calls_return_s), "to the host, before it waits for the card")
    return [*rows, ("predicted", _predicted(p), gain), returns]


def _predicted(p: Prediction) -> str:
    """Return the predicted time, or its range if the profile's latencies are assumed."""
    within = p.known_within
    if not within:
        return format_seconds(p.makespan_s)
    return format_between(p.makespan_s * (1 - within), p.makespan_s * (1 + within), within)


def _place(name: str) -> str:
    return "waiting for host calls and hand-overs" if name == ELSEWHERE else f"on {name}"


def _against(seconds: float, p: Prediction) -> str:
    if not p.makespan_s:
        return ""
    return f"{format_change(seconds / p.makespan_s - 1, p.known_within)} against the model"


def gantt(timeline: Timeline, width: int = 100) -> str:
    """Return a Gantt chart as text: one row for each engine and lane, ``width`` columns in all, and a time axis below.

    Each character is the stream that the engine serves most in that column: 0 to 9, then a to z, then again from 0.
    ``:`` is an engine busy for less than half of the column, ``.`` an idle engine. ``#`` is a lane's span.
    """
    margin = max(map(len, (*timeline.engine_names, *(lane.name for lane in timeline.tracks)))) + 2
    columns = max(20, width - margin)
    rows = _columns(timeline, columns)
    lines = [f"{name:<{margin}}{''.join(row)}" for name, row in rows.items()]
    end = format_seconds(timeline.makespan_s, timeline.known_within)
    return "\n".join([*lines, f"{'':<{margin}}0{end:>{columns - 1}}"])


def _columns(timeline: Timeline, columns: int) -> dict[str, list[str]]:
    """Return the characters of each engine's row, by its name."""
    busy: dict[str, list[dict[int, float]]] = {name: [{} for _ in range(columns)] for name in timeline.engine_names}
    scale = columns / timeline.makespan_s if timeline.makespan_s else 0.0
    by_engine = list(busy.values())
    ops = zip(timeline.schedule.ops, timeline.engine, timeline.start, timeline.end, strict=True)
    for op, engine, start, end in ops:
        if engine >= 0 and op.stream is not None:
            for column, share in _shares(start / TICKS_PER_S * scale, end / TICKS_PER_S * scale, columns):
                cell = by_engine[engine][column]
                cell[op.stream] = cell.get(op.stream, 0.0) + share
    rows = {name: [_character(cell) for cell in cells] for name, cells in busy.items()}
    for lane in timeline.tracks:
        used = [0.0] * columns
        for start, end in zip(lane.start, lane.end, strict=True):
            for column, share in _shares(start * scale / TICKS_PER_S, end * scale / TICKS_PER_S, columns):
                used[column] += share
        rows[lane.name] = [LANE if share >= 0.5 else PARTLY if share > SLIVER else IDLE for share in used]
    return rows


def _shares(start: float, end: float, columns: int) -> Iterable[tuple[int, float]]:
    """Yield (column, share of the column) for an interval in units of columns."""
    for column in range(min(int(start), columns - 1), min(int(end) + 1, columns)):
        yield column, min(end, column + 1) - max(start, column)


def _character(cell: dict[int, float]) -> str:
    busy = sum(cell.values())
    if busy < 0.5:
        return PARTLY if busy > SLIVER else IDLE
    return STREAM_LETTERS[max(cell, key=lambda stream: cell[stream]) % len(STREAM_LETTERS)]


# For programs


def to_csv(rows: list[dict[str, Any]]) -> str:
    """Return ``rows`` as CSV with a header: nested tables are ``outer.inner`` columns, "; " separates a list."""
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: to_cell(value) for name, value in row.items()} for row in flat)
    return text.getvalue()


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return found
