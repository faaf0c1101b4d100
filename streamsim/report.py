"""A prediction, put together for people (a table, a Gantt chart in the terminal) and for programs (JSON, CSV)."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from streamsim.assumptions import link_words
from streamsim.bounds import lower_bound, published, stages_of
from streamsim.model import simulate
from streamsim.patterns import serialized
from streamsim.quantities import format_bytes, format_change, format_seconds
from streamsim.timeline import S_PER_TICK, Timeline, critical_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from streamsim.device import Device
    from streamsim.schedule import Schedule

SCHEMA_VERSION = 1
SerialProgram = Literal["unchunked", "one by one", "given"]
IDLE, PARTLY = ".", ":"
SLIVER = 0.02  # of a column: less than this is not shown
STREAM_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
SERIAL_WORDS: dict[SerialProgram, str] = {
    "unchunked": "unchunked, blocking copies",
    "one by one": "the same ops one by one, blocking",
    "given": "the program given to compare with",
}
ELSEWHERE = "waiting"  # the part of the critical path that is spent on no engine


@dataclass(frozen=True, slots=True)
class EngineUse:
    """How long an engine had something to do, and its share of the makespan (0..1)."""

    busy_s: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class WithoutRing:
    """What a pipeline takes and holds with a place on the card for every chunk; ``fits``: whether the card has room."""

    makespan_s: float
    device_bytes: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of a schedule on a device. Times in seconds.

    ``serial_s``: the same work without overlap, on the same device, and ``serial_program`` what it is: the
    ``"unchunked"`` program that the schedule says it was cut from; or, where it says none, its own ops ``"one by
    one"``, with blocking copies; or one that was ``"given"``. ``one_by_one_s``: the second, always. ``bound_by``: what
    sets ``lower_bound_s``. ``critical_s``: the makespan split over the engines that its critical path runs
    through, and ``waiting`` (host calls, hand-overs). ``formulas``: the published predictors, by name.
    ``memory_bytes``: the card's memory, if known. ``link``: what link was assumed, and how well it is known.
    ``without_ring``: what a ring of buffers is compared with.
    """

    timeline: Timeline
    device: str
    makespan_s: float
    serial_s: float
    serial_program: SerialProgram
    one_by_one_s: float
    lower_bound_s: float
    bound_by: str
    engines: dict[str, EngineUse]
    overlap_s: float
    critical_s: dict[str, float]
    formulas: dict[str, float]
    memory_bytes: int | None
    link: str
    without_ring: WithoutRing | None = None

    @property
    def device_bytes(self) -> int:
        """What the schedule's device buffers hold on the card."""
        return self.schedule.device_bytes

    @property
    def schedule(self) -> Schedule:
        """The schedule that was simulated."""
        return self.timeline.schedule

    @property
    def speedup(self) -> float:
        """Serial time over predicted time (1 when there is nothing to do)."""
        return self._gain(self.serial_s)

    @property
    def speedup_over_one_by_one(self) -> float:
        """The same over the schedule's own ops one by one: what overlap alone brings, however it was cut."""
        return self._gain(self.one_by_one_s)

    def _gain(self, seconds: float) -> float:
        return seconds / self.makespan_s if self.makespan_s else 1.0

    @property
    def over_bound(self) -> float:
        """Predicted time over lower bound, 1 at best (1 when there is nothing to do)."""
        return self.makespan_s / self.lower_bound_s if self.lower_bound_s else 1.0

    def to_json(self, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plain numbers and strings; units are in the names. ``inputs``: what was asked."""
        return {
            "schema_version": SCHEMA_VERSION,
            "makespan_s": self.makespan_s,
            "serial_s": self.serial_s,
            "serial_program": self.serial_program,
            "speedup": self.speedup,
            "one_by_one_s": self.one_by_one_s,
            "speedup_over_one_by_one": self.speedup_over_one_by_one,
            "lower_bound_s": self.lower_bound_s,
            "bound_by": self.bound_by,
            "overlap_s": self.overlap_s,
            "engines": {
                name: {"busy_s": use.busy_s, "utilisation": use.utilisation} for name, use in self.engines.items()
            },
            "critical_path_s": self.critical_s,
            "formulas_s": self.formulas,
            "device_bytes": self.device_bytes,
            "memory_bytes": self.memory_bytes,
            "link": self.link,
            **({} if self.without_ring is None else {"without_ring": self._ring_json(self.without_ring)}),
            "inputs": inputs or {"schedule": self.schedule.name, "device": self.device},
        }

    def _ring_json(self, other: WithoutRing) -> dict[str, Any]:
        return {
            **asdict(other),
            "ring_costs_s": self.makespan_s - other.makespan_s,
            "ring_saves_bytes": other.device_bytes - self.device_bytes,
        }


def predict(schedule: Schedule, device: Device, serial_schedule: Schedule | None = None) -> Prediction:
    """Simulate ``schedule`` on ``device``, and beside it the serial programs and the bounds.

    ``serial_schedule``: what to compare with, in place of what the schedule was cut from (see :class:`Prediction`).
    Raises InputError when the device has no cost for a kernel that the schedule names, or no room for its buffers.
    """
    device.check_room(schedule.device_bytes)
    timeline = simulate(schedule, device)
    one_by_one_s = simulate(serialized(schedule), device).makespan_s
    serial_program, serial_s = _serial(schedule, serial_schedule, one_by_one_s, device)
    bound = lower_bound(schedule, device, timeline.program)
    makespan_s = timeline.makespan_s
    return Prediction(
        timeline=timeline,
        device=device.name,
        makespan_s=makespan_s,
        serial_s=serial_s,
        serial_program=serial_program,
        one_by_one_s=one_by_one_s,
        lower_bound_s=bound.seconds,
        bound_by=bound.bound_by,
        engines={name: EngineUse(busy, _share(busy, makespan_s)) for name, busy in timeline.busy_s.items()},
        overlap_s=timeline.overlap_s,
        critical_s=_critical_s(timeline, makespan_s),
        formulas=published(stages_of(schedule, device, timeline.program)),
        memory_bytes=device.memory_bytes,
        link=link_words(device, bool(schedule.pageable_names)),
    )


def _serial(
    schedule: Schedule, given: Schedule | None, one_by_one_s: float, device: Device
) -> tuple[SerialProgram, float]:
    if given is not None and given != schedule.unchunked:
        return "given", simulate(given, device).makespan_s
    if schedule.unchunked is not None:
        return "unchunked", simulate(schedule.unchunked, device).makespan_s
    return "one by one", one_by_one_s


def without_ring(schedule: Schedule, device: Device) -> WithoutRing:
    """What ``schedule``, that of the same pipeline without a ring of buffers, takes and holds."""
    n_bytes = schedule.device_bytes
    fits = device.memory_bytes is None or n_bytes <= device.memory_bytes
    return WithoutRing(simulate(schedule, device).makespan_s, n_bytes, fits)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _critical_s(timeline: Timeline, makespan_s: float) -> dict[str, float]:
    spent = dict.fromkeys(timeline.engine_names, 0)
    ended = 0  # kernels side by side may both be on the path: count each tick once
    for step in critical_path(timeline):
        engine, end = timeline.engine[step.op], timeline.end[step.op]
        if engine >= 0 and end > ended:
            spent[timeline.engine_names[engine]] += end - max(timeline.start[step.op], ended)
            ended = end
    found = {name: ticks * S_PER_TICK for name, ticks in spent.items()}
    return {**found, ELSEWHERE: max(0.0, makespan_s - sum(found.values()))}


# For people


def summary(prediction: Prediction) -> Table:
    """The figures as a rich table: name, value, remark."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    title = Text(f"{prediction.schedule.name or 'schedule'} on {prediction.device}")  # Text: "[...]" is no markup here
    table = Table(title=title, title_justify="left", show_header=False, box=SIMPLE)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for section in _sections(prediction):
        for row in section:
            table.add_row(*row)
        table.add_section()
    return table


def _sections(p: Prediction) -> list[list[tuple[str, str, str]]]:
    waits = max(p.critical_s, key=lambda name: p.critical_s[name])
    times = [
        *_serials(p),
        (
            "lower bound",
            format_seconds(p.lower_bound_s),
            f"by {p.bound_by}; predicted is {p.over_bound - 1:.1%} above",
        ),
        (
            "critical path",
            format_seconds(sum(p.critical_s.values())),
            f"{format_seconds(p.critical_s[waits])} of it {_place(waits)}",
        ),
    ]
    engines = [
        (f"{k} busy", format_seconds(u.busy_s), f"{u.utilisation:.1%} of the time") for k, u in p.engines.items()
    ]
    engines.append(("overlap", format_seconds(p.overlap_s), "two engines or more busy"))
    has = "" if p.memory_bytes is None else f"of the card's {format_bytes(p.memory_bytes)}"
    memory = [("on the card", format_bytes(p.device_bytes), has)]
    if p.without_ring is not None:
        memory.append(("without the ring", format_seconds(p.without_ring.makespan_s), _ring_words(p, p.without_ring)))
    formulas = [(name, format_seconds(s), _against(s, p.makespan_s)) for name, s in p.formulas.items()]
    return [times, engines, memory, formulas]


def _ring_words(p: Prediction, other: WithoutRing) -> str:
    holds = f"{format_bytes(other.device_bytes)} on the card{'' if other.fits else ', more than it has'}"
    cost = p.makespan_s / other.makespan_s - 1 if other.makespan_s else 0.0
    saved = other.device_bytes - p.device_bytes
    change = f"saves {format_bytes(saved)}" if saved >= 0 else f"takes {format_bytes(-saved)} more"
    return f"{holds}; the ring costs {format_change(cost)} of time and {change}"


def _serials(p: Prediction) -> list[tuple[str, str, str]]:
    """What it is compared with, each under its name, and the prediction."""
    rows = [("serial", format_seconds(p.serial_s), SERIAL_WORDS[p.serial_program])]
    gain = f"{p.speedup:.2f}x as fast as serial"
    if p.serial_program != "one by one":
        times = f"the same ops, blocking: {p.speedup_over_one_by_one:.2f}x as long"
        rows.append(("one by one", format_seconds(p.one_by_one_s), times))
    return [*rows, ("predicted", format_seconds(p.makespan_s), gain)]


def _place(name: str) -> str:
    return "waiting for host calls and hand-overs" if name == ELSEWHERE else f"on {name}"


def _against(seconds: float, makespan_s: float) -> str:
    return f"{format_change(seconds / makespan_s - 1)} against the model" if makespan_s else ""


def gantt(timeline: Timeline, width: int = 100) -> str:
    """One row per engine, ``width`` columns in all: each character is the stream that the engine serves most then.

    Streams are 0 to 9, then a to z, then again from 0; ``:`` is an engine busy for less than half of the
    column, ``.`` an idle one. The last line is the time axis.
    """
    margin = max(map(len, timeline.engine_names)) + 2
    columns = max(20, width - margin)
    rows = _columns(timeline, columns)
    lines = [f"{name:<{margin}}{''.join(row)}" for name, row in rows.items()]
    end = format_seconds(timeline.makespan_s)
    return "\n".join([*lines, f"{'':<{margin}}0{end:>{columns - 1}}"])


def _columns(timeline: Timeline, columns: int) -> dict[str, list[str]]:
    """For each engine its characters."""
    busy: dict[str, list[dict[int, float]]] = {name: [{} for _ in range(columns)] for name in timeline.engine_names}
    scale = columns / timeline.makespan_s if timeline.makespan_s else 0.0
    for span in timeline:
        if span.engine is not None and span.stream is not None:
            for column, share in _shares(span.start_s * scale, span.end_s * scale, columns):
                cell = busy[span.engine][column]
                cell[span.stream] = cell.get(span.stream, 0.0) + share
    return {name: [_character(cell) for cell in cells] for name, cells in busy.items()}


def _shares(start: float, end: float, columns: int) -> Iterable[tuple[int, float]]:
    """(column, share of it) for an interval given in columns."""
    for column in range(min(int(start), columns - 1), min(int(end) + 1, columns)):
        yield column, min(end, column + 1) - max(start, column)


def _character(cell: dict[int, float]) -> str:
    busy = sum(cell.values())
    if busy < 0.5:
        return PARTLY if busy > SLIVER else IDLE
    return STREAM_LETTERS[max(cell, key=lambda stream: cell[stream]) % len(STREAM_LETTERS)]


# For programs


def to_csv(rows: list[dict[str, Any]]) -> str:
    """``rows`` as CSV with a header; nested tables become ``outer.inner`` columns."""
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        found.update(_flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
    return found
