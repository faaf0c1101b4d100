"""Time lines in letters, and rows as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds, to_cell
from streamsim.timeline import Timeline

IDLE, PARTLY, LANE = ".", ":", "#"
SLIVER = 0.02  # of a column: less than this is not shown
STREAM_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


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


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
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
