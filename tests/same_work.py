"""What a program computes and copies: an oracle that knows nothing of streams; and programs that name their memory."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st

from streamsim.program import Buffer, Copy, HostWork, Kernel, RecordEvent, Region, Schedule, Synchronize, WaitEvent

Terms = dict[Any, int]  # equal terms of bytes are one number, in all programs that share the table


def output(schedule: Schedule, terms: Terms, whole: Collection[str | Region] = ()) -> dict[tuple[str, int], int]:
    """The host's bytes that are not what they were, as terms of what was there, with the ops run in the order of issue.

    Without races every order that is allowed gives the same. A kernel computes each byte that it writes from the bytes
    at the same place of the ranges that it reads, in proportion to their sizes; in the buffers and ranges ``whole``
    from all.
    """
    memory: dict[tuple[str, int], int] = {}

    def term(value: Any) -> int:
        return terms.setdefault(value, len(terms))

    def load(buffer: str, at: int) -> int:
        return memory.get((buffer, at), term((buffer, at)))

    def needed(region: Region, x: int, size: int) -> list[int]:
        places = range(x * region.bytes // size, -(-(x + 1) * region.bytes // size))
        if region.buffer in whole or region in whole:
            places = range(region.bytes)
        return [load(region.buffer, region.offset + y) for y in places]

    for op in schedule.ops:
        found = {}
        if isinstance(op, Copy) and op.host is not None and op.device is not None:
            a, b = (op.host, op.device) if op.direction == "h2d" else (op.device, op.host)
            found = {(b.buffer, b.offset + x): load(a.buffer, a.offset + x) for x in range(op.bytes)}
        elif isinstance(op, Kernel):
            for k, w in enumerate(op.writes):
                for x in range(w.bytes):
                    read = (tuple(needed(r, x, w.bytes)) for r in op.reads)
                    found[w.buffer, w.offset + x] = term((op.name, k, *read))
        memory |= found
    host = {buffer.name for buffer in schedule.buffers if buffer.memory != "device"}
    return {place: value for place, value in memory.items() if place[0] in host and value != term(place)}


def amounts(schedule: Schedule) -> Counter[Any]:
    """Bytes by direction and memory; kernels' elements and picoseconds on a full card, by what they are; the host's."""
    found: Counter[Any] = Counter()
    for op in schedule.ops:
        if isinstance(op, Copy):
            found[op.direction, op.host and op.host.buffer] += op.bytes
        elif isinstance(op, Kernel):
            what = op.name, op.parameter, op.fill
            found[(*what, "elements")] += op.elements
            found[(*what, "time")] += round((op.duration_s or 0) * 1e12)
        elif isinstance(op, HostWork):
            found["host"] += round(op.duration_s * 1e12)
    return found


def own_work_ps(schedule: Schedule) -> int:
    """The picoseconds of the program's own host work: what has a name, or takes more than 1 ms.

    The other is a front end's, for its calls: every call has it, and none that a graph makes.
    """
    works = [op.duration_s for op in schedule.ops if isinstance(op, HostWork) and (op.name or op.duration_s > 1e-3)]
    return sum(round(duration_s * 1e12) for duration_s in works)


ON_HOST, ON_CARD = Buffer("host", 128, "pinned"), Buffer("card", 128, "device")
PAGEABLE = Buffer("pageable", 128, "pageable")


@st.composite
def pipelines(draw: st.DrawFn) -> Schedule:
    """Any program whose ops name their memory: ranges that can be halved three times, often the same ones."""
    kinds: tuple[Any, ...] = tuple(
        draw(st.lists(st.sampled_from(("non-blocking", "blocking")), min_size=1, max_size=3))
    )
    stream, event = st.integers(0, len(kinds)), st.integers(0, 1)
    size, offset = st.sampled_from((8, 8, 16)), st.sampled_from((0, 8, 16, 32, 64))

    def region(buffer: Buffer) -> Any:
        return st.builds(Region, st.just(buffer.name), offset, size)

    @st.composite
    def copies(draw: st.DrawFn) -> Copy:
        card = draw(region(ON_CARD))
        host = Region(draw(st.sampled_from((ON_HOST, ON_HOST, PAGEABLE))).name, draw(offset), card.bytes)
        blocking = draw(st.sampled_from((False, False, False, True)))
        return Copy(draw(st.sampled_from(("h2d", "d2h"))), card.bytes, draw(stream), host, card, blocking)

    regions = st.lists(region(ON_CARD), max_size=2).map(tuple)
    name = st.sampled_from(("first", "second"))
    time = st.sampled_from((8e-9, 16e-9))
    kernels = st.builds(Kernel, stream, name, st.just(8), st.just(0), time, st.just(1.0), regions, regions)
    events = (st.builds(RecordEvent, event, stream), st.builds(WaitEvent, event, stream))
    host = st.builds(HostWork, st.sampled_from((0.0, 8e-9, 40e-9)), st.sampled_from(("", "load")))
    waits = st.one_of(*events, st.builds(Synchronize, stream=stream), host)
    ops = draw(st.lists(st.one_of(copies(), copies(), kernels, kernels, waits), min_size=2, max_size=12))
    return Schedule((*ops, Synchronize()), kinds, (ON_HOST, ON_CARD, PAGEABLE), 2)
