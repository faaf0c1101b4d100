"""The kinds of bars in a picture of a time line: their names, colours, numbers and rows.

The colours have a contrast of 3 to 1 with an empty row. The colour-blind tell those of a row apart.
"""

from collections import Counter

from streamsim.program import Copy, HostWork, Kernel, Op, Schedule, Synchronize, WaitThread
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
    schedule = timeline.schedule
    pageable, is_graph = schedule.pageable_names, schedule.launch == "graph"
    found = [_host_kind(op, pageable) for op in schedule.ops]
    for op, kind in enumerate(found):
        launched = is_graph and kind == KINDS.index(HOST_CALL)
        if launched or not 0 <= timeline.issued[op] < timeline.returned[op]:
            found[op] = 0
    return found


def _host_kind(op: Op, pageable: frozenset[str]) -> int:
    if isinstance(op, HostWork):
        return KINDS.index(HOST_WORK)
    holds = isinstance(op, Synchronize | WaitThread) or (
        isinstance(op, Copy) and (op.blocking or op.uses_host(pageable))
    )
    return KINDS.index(HOST_WAITS if holds else HOST_CALL)


def host_name(thread: int, threads: int) -> str:
    """Return the row of a host thread, which is one of ``threads``."""
    return f"host thread {thread}" if threads > 1 else "host"


def stream_name(stream: int) -> str:
    """Return the row of a stream."""
    return f"stream {stream}" if stream else "default stream"


def engine_place(engine: str) -> int:
    """Return the row of an engine among others: as the work goes through them."""
    return PIPELINE.index(engine) if engine in PIPELINE else len(PIPELINE)
