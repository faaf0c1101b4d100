"""The kinds of bars in a picture of a time line: their names, colours, numbers and rows.

The colours are told apart by the colour-blind and in grey print: dark, middle and light.
"""

from collections import Counter

from streamsim.program import Copy, Kernel, Op, Schedule, Synchronize, WaitThread

COLOURS = {
    "H2D": "#0072B2",
    "kernel": "#E08A00",
    "D2H": "#99DDFF",
    "ready, engine busy": "#AA3377",
    "host call": "#555555",
    "host waits": "#BBBBBB",
    "unified memory": "#009E73",
}
H2D, KERNEL, D2H, WAITS, HOST_CALL, HOST_WAITS, PAGES = KINDS = tuple(COLOURS)
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


def may_wait(op: Op, pageable: frozenset[str]) -> bool:
    """Return whether the call of an op may hold its thread; ``pageable``: names of host buffers that are."""
    if isinstance(op, Copy):
        return op.blocking or op.uses_host(pageable)
    return isinstance(op, Synchronize | WaitThread)


def engine_place(engine: str) -> int:
    """Return the row of an engine among others: as the work goes through them."""
    return PIPELINE.index(engine) if engine in PIPELINE else len(PIPELINE)
