"""The bars of pictures, pages and traces: their kinds, colours, numbers and rows, and the losses of an explanation.

The colours have a contrast of 3 to 1 with an empty row. The colour-blind tell those of a row apart.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import msgspec

from streamsim.advice import Explanation
from streamsim.analysis import BUSIEST_ENGINE, Prediction, SerialProgram
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Kernel, Op, Schedule, Synchronize, WaitThread, serialized
from streamsim.timeline import Timeline

COLOURS = {
    "H2D": "#004B8C",
    "kernel": "#C25C00",
    "D2H": "#1E92D0",
    "host call": "#3F454B",
    "host waits": "#888D93",
    "host work": "#7A3B12",
    "unified memory": "#00805C",
    "annotation": "#0F6E84",
    "ready, engine busy": "#AA3377",
}
H2D, KERNEL, D2H, HOST_CALL, HOST_WAITS, HOST_WORK, PAGES, ANNOTATION, WAITS = KINDS = tuple(COLOURS)
INK = {H2D: "white", KERNEL: "black", D2H: "black"}  # of the numbers on the bars
PIPELINE = ("h2d", "copy", "gpu", "compute", "d2h")  # engines from top to bottom, as the work goes through them


def kind_of(op: Op) -> int:
    """Return the index into KINDS of a copy or kernel; of anything else that of a host call."""
    if isinstance(op, Copy):
        return KINDS.index(H2D if op.direction == "h2d" else D2H)
    return KINDS.index(KERNEL if isinstance(op, Kernel) else HOST_CALL)


def numbers(schedule: Schedule) -> list[int]:
    """Return each copy's or kernel's chunk, from 1, if all chunks have the same ops; else its number among its kind.

    0 for events and host calls.
    """
    kinds = [kind_of(op) for op in schedule.ops]
    counts = Counter(kind for kind in kinds if kind != KINDS.index(HOST_CALL))
    chunks = min(counts.values(), default=1)
    regular = all(count % chunks == 0 for count in counts.values())
    seen: Counter[int] = Counter()
    found = []
    for kind in kinds:
        a_chunk_has = counts[kind] // chunks if regular else 1
        found.append(seen[kind] // a_chunk_has + 1 if kind in counts else 0)
        seen[kind] += 1
    return found


def host_kinds(timeline: Timeline) -> list[int]:
    """Return the index into KINDS of the host's part of each op; 0 if it takes no time, or is the launch of a graph."""
    pageable, is_graph, found = timeline.schedule.pageable_names, timeline.schedule.launch == "graph", []
    for op, issued, returned in zip(timeline.schedule.ops, timeline.issued, timeline.returned, strict=True):
        waits = isinstance(op, Copy) and (op.blocking or op.uses_host(pageable))
        kind = HOST_WAITS if waits or isinstance(op, Synchronize | WaitThread) else HOST_CALL
        kind = HOST_WORK if isinstance(op, HostWork) else kind
        is_launched = is_graph and kind == HOST_CALL
        found.append(KINDS.index(kind) if 0 <= issued < returned and not is_launched else 0)
    return found


def host_name(thread: int, threads: int) -> str:
    """Return the row of a host thread, which is one of ``threads``."""
    return f"host thread {thread}" if threads > 1 else "host"


def stream_name(stream: int) -> str:
    """Return the row of a stream."""
    return f"stream {stream}" if stream else "default stream"


def engine_place(engine: str) -> int:
    """Return the row of an engine among others: as the work goes through them."""
    return PIPELINE.index(engine) if engine in PIPELINE else len(PIPELINE)


# Lanes for spans that run at the same time

NO_LANE = -1


def lane_of_each_op(timeline: Timeline, row: Sequence[int]) -> array[int]:
    """Give every op a lane 0, 1, ... of its ``row[op]``: the first that is free at the op's start.

    Spans in one lane of a row never overlap. Ops that occupied no engine have NO_LANE.
    """
    lane_of = array("q", [NO_LANE]) * len(timeline)
    free_at: dict[int, list[int]] = {}  # for each row, when each of its lanes is free again
    on_card = (op for op, engine in enumerate(timeline.engine) if engine >= 0)
    for op in sorted(on_card, key=timeline.start.__getitem__):
        free = free_at.setdefault(row[op], [])
        start, lane = timeline.start[op], 0
        while lane < len(free) and free[lane] > start:
            lane += 1
        free[lane : lane + 1] = [timeline.end[op]]
        lane_of[op] = lane
    return lane_of


# The parts of an explained makespan: the busiest engine alone, then what each cause has lost, the largest first

BOUND_COLOUR = "#8C8775"
# Of losses in turn: 3 to 1 on white and on dark paper, dark enough for both and light enough for a black number.
LOSS_COLOURS = ("#C74B47", "#3295EE", "#A36E09", "#A366CD", "#6FA326", "#C35AA4", "#15A6A0", "#CF630D")


class Part(msgspec.Struct, frozen=True):
    """A part of the makespan: its ``title``, and its ``remedy`` in words."""

    title: str
    seconds: float
    colour: str
    remedy: str


class Losses(msgspec.Struct, frozen=True):
    """Parts that add up to the makespan. ``within``: the relative error of the times; 0 if it is unknown."""

    parts: tuple[Part, ...]
    within: float = 0.0

    @property
    def whole_s(self) -> float:
        """The makespan, in seconds."""
        return sum(part.seconds for part in self.parts)


def losses_of(explanation: Explanation) -> Losses:
    """Return the time of the busiest engine alone, and the time that each cause loses above it."""
    within = explanation.known_within
    bound = f"these ops take the {explanation.bound_by} this long, even if it never waits"
    lost = sorted((loss for loss in explanation.losses if loss.ticks > 0), key=lambda loss: -loss.ticks)
    parts = (
        Part(loss.title, loss.lost_s, LOSS_COLOURS[k % len(LOSS_COLOURS)], loss.remedies(within))
        for k, loss in enumerate(lost)
    )
    return Losses((Part(BUSIEST_ENGINE, explanation.bound_s, BOUND_COLOUR, bound), *parts), within)


# The program that a prediction is compared with

SERIAL_WORDS: dict[SerialProgram, str] = {
    "unchunked": "not cut, blocking copies",
    "serial": "the same ops without overlap, blocking",
}


def serial_timeline(prediction: Prediction) -> Timeline:
    """Simulate the program that ``prediction`` says it was cut from; if it says none, its own ops made serial."""
    device, schedule = prediction.timeline.device, prediction.schedule
    assert device is not None  # it was simulated
    return simulate(schedule.unchunked or serialized(schedule), device)
