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
    spans: dict[str, list[tuple[str, int, int]]] = {name: [] for name in timeline.engine_names}
    ops = zip(timeline.schedule.ops, timeline.engine, timeline.start, timeline.end, strict=True)
    for op, engine, start, end in ops:
        if engine >= 0 and op.stream is not None:
            letter = STREAM_LETTERS[op.stream % len(STREAM_LETTERS)]
            spans[timeline.engine_names[engine]].append((letter, start, end))
    spans |= {lane.name: [(LANE, *at) for at in zip(lane.start, lane.end, strict=True)] for lane in timeline.tracks}
    margin = max(map(len, spans)) + 2
    columns = max(20, width - margin)
    per_tick = columns / timeline.makespan_s / TICKS_PER_S if timeline.makespan_s else 0.0
    last = format_seconds(timeline.makespan_s, timeline.known_within)
    lines = [f"{name:<{margin}}{_row(of_row, columns, per_tick)}" for name, of_row in spans.items()]
    return "\n".join([*lines, f"{'':<{margin}}0{last:>{columns - 1}}"])


def _row(spans: Iterable[tuple[str, int, int]], columns: int, per_tick: float) -> str:
    """Return the characters of a row: the letter that fills most of each column."""
    cells: list[dict[str, float]] = [{} for _ in range(columns)]
    for letter, *ticks in spans:
        start, end = (tick * per_tick for tick in ticks)
        for column in range(min(int(start), columns - 1), min(int(end) + 1, columns)):
            share = min(end, column + 1) - max(start, column)
            cells[column][letter] = cells[column].get(letter, 0.0) + share
    return "".join(map(_character, cells))


def _character(cell: dict[str, float]) -> str:
    busy = sum(cell.values())
    if busy < 0.5:
        return PARTLY if busy > SLIVER else IDLE
    return max(cell, key=lambda letter: cell[letter])


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
