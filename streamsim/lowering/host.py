"""What the host does, thread by thread: how long each of its calls takes, and where a thread may be held."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate, chain, compress, count, repeat
from operator import attrgetter, ne
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import (
    COPIES,
    KERNEL,
    NOTHING,
    after_wait_ticks,
    enter_ticks,
    first_launch_ticks,
    first_on_stream_ticks,
    turn_ticks,
)
from streamsim.program.schedule import Copy, HostWork, Kernel, WaitThread
from streamsim.rules.clock import ticks
from streamsim.rules.entering import NO_STREAM, enters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Op, Region, Schedule

NO_SEGMENT = -1
AT_FIRST = NO_STREAM, NOTHING  # the stream and kind of what a thread issued last, before it has issued anything


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

    Its kind, its stream (NO_STREAM: none), the thread that makes its call, and whether this may hold its thread.
    """

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
    nothing: dict[int, tuple[int, ...]] = {cut: () for cut in cuts if not holds[cut]}
    ends = sorted([*compress(count(), holds), *nothing])
    waits_for = list(map((nothing | {**awaited}).get, ends, zip(ends)))
    return Segments(
        last=array("i", map((1).__add__, ends)),
        thread=array("i", map(thread.__getitem__, ends)),
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


def call_ticks_of(
    schedule: Schedule,
    device: Device,
    columns: Columns,
    of_shape: Iterable[int],
) -> array[int]:
    """Ticks that each call takes, without what it waits for. ``of_shape``: by op what its shape says.

    A call takes what its op says, else what its shape says: the first copy and the first kernel after a wait more than
    that, the first of each kind in a stream, what the thread enters a stream for, what is not behind a call of its
    kind, and the first launch of each kernel.
    """
    found, own = array("q", of_shape), list(map(attrgetter("call_s"), schedule.ops))
    if None in own:
        _add_firsts_of_all_kinds(found, schedule, device, columns)
        enter, turn = enter_ticks(schedule.launch, device), turn_ticks(schedule.launch, device)
        if enter:
            _add_entries(found, schedule, columns.kind, enter)
        if turn:
            _add_turns(found, schedule, columns.kind, turn)
    for i, call_s in enumerate(own):
        if call_s is not None:
            found[i] = ticks(call_s)
    return found


def _add_firsts_of_all_kinds(found: array[int], schedule: Schedule, device: Device, columns: Columns) -> None:
    kinds = set(columns.kind)
    cold = after_wait_ticks(schedule.launch, device, not kinds.isdisjoint(COPIES), KERNEL in kinds)
    if cold:
        _add_colds(found, columns, cold)
    on_stream = first_on_stream_ticks(schedule.launch, device)
    if on_stream:
        _add_firsts_of_streams(found, columns, on_stream)
    first_launch = first_launch_ticks(schedule.launch, device)
    if first_launch:
        _add_first_launches(found, schedule, first_launch)


def _add_colds(found: array[int], columns: Columns, cold: int) -> None:
    copied, launched = set[int](), set[int]()  # threads that have issued a copy, or a kernel, since they waited
    for i, (kind, thread, holds) in enumerate(zip(columns.kind, columns.thread, columns.holds, strict=True)):
        if kind != NOTHING:
            warm = launched if kind == KERNEL else copied
            if thread not in warm:
                warm.add(thread)
                found[i] += cold
        if holds:
            copied.discard(thread)
            launched.discard(thread)


def _add_firsts_of_streams(found: array[int], columns: Columns, on_stream: int) -> None:
    known = set[tuple[int, int]]()  # streams and the kinds of ops that they have had
    for i, queue in enumerate(zip(columns.stream, columns.kind, strict=True)):
        if queue[1] != NOTHING and queue not in known:
            known.add(queue)
            found[i] += on_stream


def _add_entries(found: array[int], schedule: Schedule, kinds: Sequence[int], enter: int) -> None:
    blocks: dict[int, _Block] = {}  # by thread
    for i, (op, kind) in enumerate(zip(schedule.ops, kinds, strict=True)):
        if isinstance(op, Copy | Kernel):
            found[i] += enter * blocks.setdefault(op.thread, _Block()).is_entered_for(op, kind)


def _add_turns(found: array[int], schedule: Schedule, kinds: Sequence[int], turn: int) -> None:
    before: dict[int, tuple[type[Op], int]] = {}  # by thread the kind of its latest call
    for i, (op, kind) in enumerate(zip(schedule.ops, kinds, strict=True)):
        if isinstance(op, HostWork) and not ticks(op.duration_s):
            continue
        called = type(op), kind
        if before.get(op.thread) != called and not isinstance(op, HostWork | WaitThread):
            found[i] += turn
        before[op.thread] = called


def _add_first_launches(found: array[int], schedule: Schedule, first_launch: int) -> None:
    launched = set[str]()
    for i, op in enumerate(schedule.ops):
        if isinstance(op, Kernel) and op.name not in launched:
            launched.add(op.name)
            found[i] += first_launch


class _Block:
    """What a thread has issued since it last entered a stream."""

    def __init__(self) -> None:
        self._before = AT_FIRST  # the stream and kind of its latest op
        self._copied: set[str] = set()  # arrays of the host
        self._at: dict[str, Region] = {}  # by array of the card, where the latest op on it works

    def is_entered_for(self, op: Copy | Kernel, kind: int) -> bool:
        """Whether the thread enters a stream to issue this op, which it then has."""
        regions = (*op.reads, *op.writes) if isinstance(op, Kernel) else (op.device,) if op.device else ()
        array = op.host.buffer if isinstance(op, Copy) and op.host else ""
        is_next = array in self._copied or any(_is_elsewhere(region, self._at.get(region.buffer)) for region in regions)
        found = enters(op.stream, kind, *self._before, is_next)
        if found:
            self._copied, self._at = set(), {}
        self._before = op.stream, kind
        self._at |= {region.buffer: region for region in regions}
        if array:
            self._copied.add(array)
        return found


def _is_elsewhere(one: Region, other: Region | None) -> bool:
    """Whether they are in one array and have no byte in common."""
    return other is not None and not (one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes)
