"""What the host does, thread by thread: how long each of its calls takes, and where a thread may be held."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, chain, compress, count, repeat
from operator import attrgetter, ne
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import COPIES, KERNEL, surcharges_of
from streamsim.program.schedule import Copy, HostWork, Kernel, RecordEvent, Synchronize, WaitEvent, WaitThread
from streamsim.rules.calls import (
    OWN_WORK,
    RECORD,
    SYNCHRONIZE,
    WAIT,
    WAIT_THREAD,
    Caller,
    held,
    turn_surcharge,
    work_surcharge,
)
from streamsim.rules.clock import ticks
from streamsim.rules.hand_overs import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Op, Region, Schedule
    from streamsim.rules.calls import Surcharges

NO_SEGMENT = -1
WORK, TURNS = (Copy, Kernel), (RecordEvent, WaitEvent, Synchronize)  # by what rule their calls take longer
CALLED: dict[type[Op], int] = {
    HostWork: OWN_WORK,
    RecordEvent: RECORD,
    WaitEvent: WAIT,
    Synchronize: SYNCHRONIZE,
    WaitThread: WAIT_THREAD,
}


class Segment(NamedTuple):
    """A stretch of calls ``first <= op < last`` of one thread; the last of them may hold it.

    It returns when the ops ``waits_for`` have ended and the segment ``behind`` (of another thread; or NO_SEGMENT) has
    returned.
    """

    first: int
    last: int
    waits_for: tuple[int, ...]
    thread: int = 0
    behind: int = NO_SEGMENT


@dataclass(frozen=True, slots=True)
class Segments:
    """The calls of a schedule in segments, in order: by segment where it ends, its thread, what it waits for.

    ``waits``: the ops that segments wait for, one after another, those of a segment up to its ``waits_to``.
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


class Columns(NamedTuple):
    """What is asked of every op.

    Its make, its kind, its stream (NO_STREAM: none), the thread that makes its call, and whether this may hold its
    thread.
    """

    make: array[int]
    kind: bytearray
    stream: array[int]
    thread: array[int]
    holds: bytearray


def segments_of(schedule: Schedule, columns: Columns, awaited: Mapping[int, tuple[int, ...]]) -> Segments:
    """The calls of a schedule, cut behind those that may hold their thread and where another thread goes on.

    ``awaited``: see ``Order``; a copy that holds its thread waits for itself.
    """
    thread, holds = columns.thread, columns.holds
    cuts = (*compress(count(), map(ne, thread, thread[1:])), len(thread) - 1)
    ends = sorted({*compress(count(), holds), *cuts})
    waits_for = [awaited.get(end, (end,)) if holds[end] else () for end in ends]
    return Segments(
        last=array("i", [end + 1 for end in ends]),
        thread=array("i", [thread[end] for end in ends]),
        behind=array("i", _behind(schedule, thread, ends) if any(thread) else repeat(NO_SEGMENT, len(ends))),
        waits=array("i", chain.from_iterable(waits_for)),
        waits_to=array("i", accumulate(map(len, waits_for))),
    )


def _behind(schedule: Schedule, thread: array[int], ends: Sequence[int]) -> Iterator[int]:
    """For each segment, by its last call, that of another thread which it waits for: the last one before it."""
    latest: dict[int, int] = {}  # by thread its last segment
    for number, end in enumerate(ends):
        op = schedule.ops[end]
        yield latest.get(op.other, NO_SEGMENT) if isinstance(op, WaitThread) else NO_SEGMENT
        latest[thread[end]] = number


def call_ticks_of(schedule: Schedule, device: Device, columns: Columns, of_make: Sequence[int]) -> array[int]:
    """Ticks that each call takes, without what it waits for. ``of_make``: what shapes say, by make.

    A call takes what its op says, else what its shape says and what :mod:`streamsim.rules.calls` adds to that.
    """
    found, own = array("q", map(of_make.__getitem__, columns.make)), list(map(attrgetter("call_s"), schedule.ops))
    kinds = set(columns.kind)
    surcharges = surcharges_of(schedule.launch, device, not kinds.isdisjoint(COPIES), KERNEL in kinds)
    if None in own and any(surcharges):
        _add_surcharges(found, schedule, columns, surcharges)
    for i, call_s in enumerate(own):
        if call_s is not None:
            found[i] = ticks(call_s)
    return found


def _add_surcharges(found: array[int], schedule: Schedule, columns: Columns, surcharges: Surcharges) -> None:
    callers, blocks = defaultdict[int, Caller](Caller), defaultdict[int, _Block](_Block)  # by thread
    number: defaultdict[str, int] = defaultdict(count(1).__next__)  # of kernels, by name
    known = [False] * (KINDS * (len(schedule.streams) + 1))
    launched = [True] + [False] * columns.kind.count(KERNEL)
    enter, changes = surcharges.enter > 0, surcharges.enter or surcharges.turn
    again = set[tuple[int, int, int]]()  # calls that take no longer if they are made again, until one is held
    for i, (make, kind, stream, thread, holds) in enumerate(zip(*columns, strict=True)):
        call = thread, stream, make
        if call in again:
            continue
        op, caller = schedule.ops[i], callers[thread]
        if isinstance(op, WORK):
            kernel = number[op.name] if isinstance(op, Kernel) else 0
            is_next = enter and blocks[thread].is_next(op)
            found[i] += work_surcharge(surcharges, caller, known, launched, stream, kind, kernel, is_next)
            if enter:
                blocks[thread].add(op, bool(caller.entered))
        elif isinstance(op, TURNS):
            found[i] += turn_surcharge(surcharges, caller, CALLED[type(op)])
        elif isinstance(op, WaitThread) or ticks(op.duration_s):
            caller.called = CALLED[type(op)]
        if holds:
            held(caller)
            again.clear()
        elif not changes:
            again.add(call)


class _Block:
    """What a thread has issued since it last entered a stream."""

    def __init__(self) -> None:
        self._copied: set[str] = set()  # arrays of the host
        self._at: dict[str, Region] = {}  # by array of the card, where the latest op on it works

    def is_next(self, op: Copy | Kernel) -> bool:
        """Whether the op's arrays show that it is for another chunk than these."""
        return _host_array(op) in self._copied or any(
            _is_elsewhere(region, self._at.get(region.buffer)) for region in _regions(op)
        )

    def add(self, op: Copy | Kernel, entered: bool) -> None:
        """Add the next op, with which the thread has ``entered`` a stream or not."""
        if entered:
            self._copied, self._at = set(), {}
        self._at |= {region.buffer: region for region in _regions(op)}
        if array := _host_array(op):
            self._copied.add(array)


def _host_array(op: Copy | Kernel) -> str:
    return op.host.buffer if isinstance(op, Copy) and op.host else ""


def _regions(op: Copy | Kernel) -> tuple[Region, ...]:
    """Where on the card an op works."""
    if isinstance(op, Kernel):
        return (*op.reads, *op.writes)
    return (op.device,) if op.device else ()


def _is_elsewhere(one: Region, other: Region | None) -> bool:
    """Whether they are in one array and have no byte in common."""
    return other is not None and not (one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes)
