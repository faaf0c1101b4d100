"""Time lines in the form that the page's viewer reads: names, and columns of small differences that pack well.

Columns of whole numbers are a short text, which the viewer unpacks. Signs are folded (0, -1, 1, -2 become 0, 1, 2, 3).
Each number takes seven bits a byte, the least first, and all but its last byte have the highest bit set. The bytes of
all columns are deflated and written in base64.
"""

import base64
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from streamsim.errors import one_line
from streamsim.lowering import lower
from streamsim.program import Copy, Kernel, Schedule
from streamsim.report import KINDS, PAGES, engine_place, host_kinds, kind_of, lane_of_each_op, numbers
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds
from streamsim.timeline import Timeline, WaitCause, causes_of, label

BECAUSE = ("start", "host", "stream", "event", "engine")  # the viewer has these in the same order
LONGEST_NAME = 200
SMALLEST = 9  # the level of zlib that packs most


class Beside(msgspec.Struct, frozen=True):
    """A row of spans that are no ops. ``kind``: one of KINDS. A span: its level in the row, its name, its ticks."""

    name: str
    kind: str
    spans: Sequence[tuple[int, str, int, int]]


class Shown(msgspec.Struct, frozen=True):
    """A time line on a page.

    ``bound_s``: the lower bound to mark. ``interval_s``: the ends of the part to shade. ``beside``: more rows.
    """

    name: str
    timeline: Timeline
    bound_s: float = 0.0
    interval_s: tuple[float, float] = (0.0, 0.0)
    beside: tuple[Beside, ...] = ()

    @property
    def title(self) -> str:
        """The name and how long it takes, on one line."""
        return one_line(f"{self.name}: {format_seconds(self.timeline.makespan_s, self.timeline.known_within)}")


def line_data(shown: Shown) -> dict[str, Any]:
    """Return the time line as plain numbers and texts. ``columns`` has its ops."""
    timeline = shown.timeline
    of_ops, number = _named(timeline.schedule)
    tracks = [
        Beside(lane.name, PAGES, [(0, lane.name, *span) for span in zip(lane.start, lane.end, strict=True)])
        for lane in timeline.tracks
    ]
    beside = (*tracks, *shown.beside)
    names = [*of_ops, *(name for row in beside for _, name, *_ in row.spans)]
    distinct = {name: k for k, name in enumerate(dict.fromkeys(names))}
    busy, whole = timeline.utilisation, timeline.makespan_s * TICKS_PER_S or 1.0
    engines = sorted(enumerate(timeline.engine_names), key=lambda engine: engine_place(engine[1]))
    rows = [(index, name, busy[name]) for index, name in engines]
    for k, row in enumerate(beside, len(rows)):
        busy_ticks = sum(end - start for level, _, start, end in row.spans if level == 0)
        rows.append((k, one_line(row.name), busy_ticks / whole))
    columns = [[distinct[name] for name in names], *_with_rows(timeline, _columns(timeline, number), beside)]
    return {
        "name": one_line(shown.name),
        "title": shown.title,
        "ops": len(names),
        "names": [one_line(name, LONGEST_NAME) for name in distinct],
        "engines": [(index, name, round(share, 4)) for index, name, share in rows],
        "measured": timeline.device is None,
        "waited": any(0 <= ready < start for ready, start in zip(timeline.ready, timeline.start, strict=True)),
        "launch": timeline.launched if timeline.schedule.launch == "graph" else 0,
        "makespan": round(timeline.makespan_s * TICKS_PER_S),
        "bound": round(shown.bound_s * TICKS_PER_S),
        "low": round(shown.interval_s[0] * TICKS_PER_S),
        "high": round(shown.interval_s[1] * TICKS_PER_S),
        "columns": packed(columns),
    }


def _named(schedule: Schedule) -> tuple[list[str], list[int]]:
    """Return the name and number of each op.

    If whole arrays of the host go in turn through buffers of the card, as layers do, a copy is named after its array
    and a kernel after the array that it reads; each name is numbered on its own.
    """
    names, size, holds = [*map(label, schedule.ops)], {b.name: b.bytes for b in schedule.buffers}, dict[str, str]()
    is_ring = False
    for k, op in enumerate(schedule.ops):
        if isinstance(op, Copy) and op.host and op.device and op.bytes == size[op.host.buffer]:
            array = op.host.buffer.removeprefix("h_")
            is_ring |= holds.get(op.device.buffer, array) != array
            holds[op.device.buffer] = array
            names[k] = f"{array} {names[k]}"
        elif isinstance(op, Kernel) and op.reads:
            read = op.reads[0].buffer
            names[k] = f"{holds.get(read, read.removeprefix('d_'))} {names[k]}"
    if not is_ring:
        return [*map(label, schedule.ops)], numbers(schedule)
    seen, found = Counter[str](), list[int]()
    for op, name in zip(schedule.ops, names, strict=True):
        seen[name] += 1
        found.append(seen[name] if isinstance(op, Copy | Kernel) else 0)
    return names, found


def _with_rows(timeline: Timeline, columns: list[Sequence[int]], beside: Sequence[Beside]) -> list[Sequence[int]]:
    """Return the columns with the spans beside the ops behind them: each is an op without a stream."""
    found, no_stream = [*zip(*columns, strict=True)], -1
    back_to_0 = -timeline.issued[-1] if len(timeline) else 0
    for engine, row in enumerate(beside, len(timeline.engine_names)):
        for level, _, start, end in row.spans:
            place = (KINDS.index(row.kind), 0, engine, level, no_stream, 0, 0, 0, 0)
            found.append((*place, back_to_0, 0, 0, start, end - start, 0, 0))
            back_to_0 = 0
    return [*zip(*found, strict=True)]


def _columns(timeline: Timeline, number: list[int]) -> list[Sequence[int]]:
    """Return the columns of the ops in the viewer's order, without the names.

    - An op could be ready when its call had returned and the op before it in its stream had ended. ``ready`` counts
      from then.
    - ``start`` counts from the end of the op that kept the engine busy, if that op is earlier in the schedule, else
      from ``ready``.
    - The last two columns give the number of ops from the op back to the one that it waited for (0: none), and why.
    """
    ops = timeline.schedule.ops
    streams = [-1 if op.stream is None else op.stream for op in ops]
    causes: list[WaitCause] = [(None, "start")] * len(ops)
    if timeline.device is not None:
        causes = [cause or causes[0] for cause in causes_of(timeline, lower(timeline.schedule, timeline.device))]
    ready, since, ended = [], [], dict[int, int]()
    for op, (stream, (cause, because)) in enumerate(zip(streams, causes, strict=True)):
        could = max(timeline.returned[op], ended.get(stream, 0))
        ready.append(timeline.ready[op] if timeline.ready[op] >= 0 else could)
        late = because == "engine" and cause is not None and cause < op
        since.append(timeline.end[cause] if late and cause is not None else ready[op])
        ready[op] -= could
        if timeline.engine[op] >= 0:
            ended[stream] = timeline.end[op]
    return [
        [kind_of(op) for op in ops],
        host_kinds(timeline),
        timeline.engine,
        lane_of_each_op(timeline, timeline.engine),
        streams,
        lane_of_each_op(timeline, streams),
        [op.thread for op in ops],
        number,
        [op.bytes if isinstance(op, Copy) else op.elements if isinstance(op, Kernel) else 0 for op in ops],
        [issued - before for before, issued in pairwise((0, *timeline.issued))],
        [returned - issued for issued, returned in zip(timeline.issued, timeline.returned, strict=True)],
        ready,
        [start - begin for start, begin in zip(timeline.start, since, strict=True)],
        [end - start for start, end in zip(timeline.start, timeline.end, strict=True)],
        [0 if cause is None else op - cause for op, (cause, _) in enumerate(causes)],
        [BECAUSE.index(because) for _, because in causes],
    ]


def packed(columns: Iterable[Iterable[int]]) -> str:
    """Return ``columns`` as a text of printable ASCII."""
    raw = bytearray()
    for column in columns:
        for value in column:
            folded = value << 1 if value >= 0 else ~(value << 1)
            while folded > 127:
                raw.append(folded & 127 | 128)
                folded >>= 7
            raw.append(folded)
    return deflated(bytes(raw))


def deflated(raw: bytes) -> str:
    """Return bytes as a text of printable ASCII: deflated, in base64."""
    return base64.b64encode(zlib.compress(raw, SMALLEST)).decode("ascii")
