"""The calls of the host's threads: the ticks of each, and where a call may hold its thread."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, repeat
from operator import attrgetter
from typing import NamedTuple

from streamsim.device import Device
from streamsim.lowering.costs import COPIES, KERNEL, surcharges_of
from streamsim.program import (
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.rules import (
    KINDS,
    OWN_WORK,
    RECORD,
    SYNCHRONIZE,
    WAIT,
    WAIT_THREAD,
    Caller,
    Surcharges,
    reset_after_wait,
    ticks,
    turn_surcharge,
    work_surcharge,
)

NO_SEGMENT = -1
CALLED: dict[type[Op], int] = {
    HostWork: OWN_WORK,
    RecordEvent: RECORD,
    WaitEvent: WAIT,
    Synchronize: SYNCHRONIZE,
    WaitThread: WAIT_THREAD,
}


class Segment(NamedTuple):
    """The calls ``first <= op < last`` of one thread, of which only the last one may hold the thread.

    The last call returns when the ops ``waits_for`` have ended, and the segment ``behind`` has returned: a segment of
    another thread, or NO_SEGMENT.
    """

    first: int
    last: int
    waits_for: tuple[int, ...]
    thread: int = 0
    behind: int = NO_SEGMENT


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a schedule, in order, as columns: ``last``, ``thread`` and ``behind`` as in :class:`Segment`.

    ``waits``: the ops that the segments wait for, segment by segment. Those of a segment end at its ``waits_to``.
    """

    last: array[int]
    thread: array[int]
    behind: array[int]
    waits: array[int]
    waits_to: array[int]

    def __len__(self) -> int:
        return len(self.last)

    def __getitem__(self, number: int) -> Segment:
        first, waits_from = (self.last[number - 1], self.waits_to[number - 1]) if number else (0, 0)
        waits_for = tuple(self.waits[waits_from : self.waits_to[number]])
        return Segment(first, self.last[number], waits_for, self.thread[number], self.behind[number])

    def __iter__(self) -> Iterator[Segment]:
        return map(self.__getitem__, range(len(self)))


class OpColumns(NamedTuple):
    """The properties of ops, by op.

    - ``group``: the number of its cost group. ``kind``: see :mod:`streamsim.rules.card`.
    - ``stream``: its stream, or NO_STREAM.
    - ``thread``: the thread that makes its call. ``holds``: 1 if the call may hold this thread, else 0.
    """

    group: array[int]
    kind: bytearray
    stream: array[int]
    thread: array[int]
    holds: bytearray


def segments_of(schedule: Schedule, columns: OpColumns, awaited: Mapping[int, tuple[int, ...]]) -> Segments:
    """Return the segments of a schedule.

    A segment ends behind a call that may hold its thread, and where the next call is of another thread. ``awaited``:
    see :class:`~streamsim.lowering.lowered.OpOrder`. The call of a copy that holds its thread waits for the copy.
    """
    thread, holds = columns.thread, columns.holds
    neighbours = enumerate(zip(holds, thread, thread[1:], strict=False))
    ends = [op for op, (may_hold, own, following) in neighbours if may_hold or own != following] + [len(thread) - 1]
    waits_for = [awaited.get(end, (end,)) if holds[end] else () for end in ends]
    return Segments(
        last=array("i", [end + 1 for end in ends]),
        thread=array("i", [thread[end] for end in ends]),
        behind=array("i", _behind(schedule, thread, ends) if any(thread) else repeat(NO_SEGMENT, len(ends))),
        waits=array("i", chain.from_iterable(waits_for)),
        waits_to=array("i", accumulate(map(len, waits_for))),
    )


def _behind(schedule: Schedule, thread: array[int], ends: Sequence[int]) -> Iterator[int]:
    """Yield for each segment the latest segment of the thread that its last call waits for, or NO_SEGMENT."""
    latest: dict[int, int] = {}  # by thread: its latest segment
    for number, end in enumerate(ends):
        op = schedule.ops[end]
        yield latest.get(op.other, NO_SEGMENT) if isinstance(op, WaitThread) else NO_SEGMENT
        latest[thread[end]] = number


def call_ticks_of(schedule: Schedule, device: Device, columns: OpColumns, of_group: Sequence[int]) -> array[int]:
    """Return the ticks of each call, without what it waits for. ``of_group``: the ticks in each group's cost.

    If an op has a ``call_s``, its call takes that. Other calls take the ticks of their cost and the surcharges of
    :mod:`streamsim.rules.calls`.
    """
    found, own = array("q", map(of_group.__getitem__, columns.group)), list(map(attrgetter("call_s"), schedule.ops))
    kinds = set(columns.kind)
    surcharges = surcharges_of(schedule.launch, device, not kinds.isdisjoint(COPIES), KERNEL in kinds)
    if None in own and any(surcharges):
        _add_surcharges(found, schedule, columns, surcharges)
    for i, call_s in enumerate(own):
        if call_s is not None:
            found[i] = ticks(call_s)
    return found


def _add_surcharges(found: array[int], schedule: Schedule, columns: OpColumns, surcharges: Surcharges) -> None:
    """Add the surcharge of each call to its ticks in ``found``."""
    callers, blocks = defaultdict[int, Caller](Caller), defaultdict[int, _StreamBlock](_StreamBlock)  # by thread
    number: defaultdict[str, int] = defaultdict(count(1).__next__)  # kernels by name, counted from 1
    known = [False] * (KINDS * (len(schedule.streams) + 1))
    launched = [True] + [False] * columns.kind.count(KERNEL)
    # Calls for copies and kernels since a call might be held. Made again, such a call has only the turn surcharge.
    again = set[tuple[int, int, int]]()
    for i, (group, kind, stream, thread, holds) in enumerate(zip(*columns, strict=True)):
        op, call, caller = schedule.ops[i], (thread, stream, group), callers[thread]
        if type(op) is HostWork:  # half of the ops of recorded programs
            caller.called = OWN_WORK if ticks(op.duration_s) else caller.called
            continue
        if call in again:
            found[i] += turn_surcharge(surcharges, caller, kind)
            continue
        if isinstance(op, Copy | Kernel):
            kernel = number[op.name] if isinstance(op, Kernel) else 0
            is_next = surcharges.enter > 0 and blocks[thread].is_next(op)
            found[i] += work_surcharge(surcharges, caller, known, launched, stream, kind, kernel, is_next)
            if surcharges.enter:
                blocks[thread].add(op, bool(caller.entered))
            else:
                again.add(call)
        elif isinstance(op, RecordEvent | WaitEvent | Synchronize):
            found[i] += turn_surcharge(surcharges, caller, CALLED[type(op)])
        elif isinstance(op, WaitThread):
            caller.called = WAIT_THREAD
        if holds:
            reset_after_wait(caller)
            again.clear()


class _StreamBlock:
    """The copies and kernels that a thread has issued since it entered a stream."""

    def __init__(self) -> None:
        self._copied: set[str] = set()  # arrays of the host
        self._at: dict[str, Region] = {}  # by array of the card: where the latest op on it works

    def is_next(self, op: Copy | Kernel) -> bool:
        """Tell whether the op's arrays show that it belongs to the next chunk: one again, or elsewhere in one."""
        if _host_array(op) in self._copied:
            return True
        pairs = ((region, self._at.get(region.buffer, region)) for region in _regions(op))
        return any(max(a.offset, b.offset) >= min(a.offset + a.bytes, b.offset + b.bytes) for a, b in pairs)

    def add(self, op: Copy | Kernel, entered: bool) -> None:
        """Add the next op. ``entered``: whether its call entered a stream, so that a new block begins."""
        if entered:
            self._copied, self._at = set(), {}
        self._at |= {region.buffer: region for region in _regions(op)}
        if array := _host_array(op):
            self._copied.add(array)


def _host_array(op: Copy | Kernel) -> str:
    return op.host.buffer if isinstance(op, Copy) and op.host else ""


def _regions(op: Copy | Kernel) -> tuple[Region, ...]:
    """Return the regions of the card that an op uses."""
    if isinstance(op, Kernel):
        return (*op.reads, *op.writes)
    return (op.device,) if op.device else ()
