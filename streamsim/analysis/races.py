"""Check a schedule for races, and for events and waits that do not do what they seem to.

Two ops that touch the same bytes of a buffer, at least one of them writing, need an order: by their stream, by
an event, by the legacy default stream, or by a host that waited in between. Without one the result depends on
luck. The order needs no device: it follows from the schedule alone (:class:`_Order`).

What is found, by rule:

``race`` (error)
    A conflict without an order, in device or in pinned host memory: for the latter, a host buffer is reused
    before its asynchronous copy has finished.
``unrecorded-event`` (warning)
    A stream or the host waits for an event that was not recorded before: CUDA does nothing then.
``unsynchronised-output`` (warning)
    The host never waits for a copy into its memory, so it may read the output too early.
``redundant-wait`` (warning)
    A wait for what the stream is already behind. (One in the legacy default stream of a program that has blocking
    streams makes all of them wait for each other, so it is never redundant.)

Each race names the wait that is missing, and the check goes on as if it were there: so one missing wait is
reported once, not with everything that follows from it, and with all of them (:func:`repaired`) no race is left.

Which copies the host may take as done when the call returns is what CUDA promises, not what a card usually does:
a blocking copy, and a pageable copy to the host. A pageable copy to the card has then read the host's memory (so
pageable memory is never raced for) but may still be under way to the card; so may ``cudaMemcpy`` of pageable
memory (``blocking`` in stream 0). Source: CUDA Runtime API, "API synchronization behavior".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from streamsim.program.cuda_order import StreamOrder
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Copy,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Rule = Literal["race", "unrecorded-event", "unsynchronised-output", "redundant-wait"]
HazardKind = Literal["read-after-write", "write-after-read", "write-after-write"]
Severity = Literal["error", "warning"]
RULES: tuple[Rule, ...] = get_args(Rule)
HAZARD_KINDS: tuple[HazardKind, ...] = get_args(HazardKind)

# For every stream the last op in it that has surely ended, or NEVER: that op and all before it in the stream.
Clock = tuple[Any, ...]  # a tree of tuples: see _Clocks
NEVER = -1
NODE_BITS = 6  # of a stream's number, that choose among the parts of a node
MOST_SHOWN = 3  # clashes of one race that its text spells out


class Hazard(msgspec.Struct, frozen=True):
    """The bytes ``offset .. offset + bytes`` of a buffer, and how the later op clashes with the earlier one there."""

    kind: HazardKind
    buffer: str
    offset: int
    bytes: int


class MissingWait(msgspec.Struct, frozen=True):
    """The wait that would order two ops: just before ``before``, for ``event``, which comes after the op ``after``.

    ``event`` None: for a new event, recorded just after ``after`` in its stream.
    """

    after: int
    before: int
    event: int | None = None


class Finding(msgspec.Struct, frozen=True):
    """Something that a schedule surely does not mean. ``ops`` are indices into its ops, the earlier first.

    ``what`` and ``remedy`` are for people. A race has its ``hazards`` and the ``wait`` that is missing.
    """

    rule: Rule
    ops: tuple[int, ...]
    what: str
    remedy: str
    hazards: tuple[Hazard, ...] = ()
    wait: MissingWait | None = None

    @property
    def severity(self) -> Severity:
        """Error for a race, whose result depends on luck; warning for what is surely not meant."""
        return "error" if self.rule == "race" else "warning"


def check(schedule: Schedule) -> tuple[Finding, ...]:
    """What is wrong with ``schedule``: the races first, then the warnings, each in the order of issue.

    Of several ops that race with a later one, those are named behind which the others lie. Takes time linear in
    the ops as long as the ranges that ops touch are the same or apart, and few streams wait for each other.
    """
    findings = list(_Checker(schedule).run())
    return tuple(sorted(findings, key=lambda finding: (finding.severity, finding.ops[-1])))


def repaired(schedule: Schedule, findings: Iterable[Finding]) -> Schedule:
    """``schedule`` with the waits that its races lack, and so without races."""
    waits = [finding.wait for finding in findings if finding.wait is not None]
    sources = sorted({wait.after for wait in waits if wait.event is None})
    events = {op: event for event, op in enumerate(sources, schedule.events)}
    before: dict[int, list[int]] = {}
    for wait in waits:
        before.setdefault(wait.before, []).append(events[wait.after] if wait.event is None else wait.event)
    ops: list[Op] = []
    for i, op in enumerate(schedule.ops):
        ops += (WaitEvent(event, op.stream or 0) for event in before.get(i, ()))
        ops.append(op)
        if i in events:
            ops.append(RecordEvent(events[i], op.stream or 0))
    return msgspec.structs.replace(schedule, ops=tuple(ops), events=schedule.events + len(events))


def unnamed_memory(schedule: Schedule) -> int:
    """How many copies and kernels do not say what memory they touch (both sides of a copy): no race of theirs shows."""
    return sum(
        (isinstance(op, Copy) and (op.host is None or op.device is None))
        or (isinstance(op, Kernel) and not (op.reads or op.writes))
        for op in schedule.ops
    )


class _Clocks:
    """Clocks over so many streams, as trees of tuples that share what they have in common.

    A clock that differs from another in one stream costs a path of the tree, not a number for every stream: in a
    program of thousands of streams that wait for each other in a chain all clocks differ, by little.
    """

    def __init__(self, streams: int) -> None:
        fan = 1 << NODE_BITS
        node: Clock = (NEVER,) * min(streams, fan)
        self._shifts, self._nothing = [0], [node]  # from the root down; by level, from the leaves up
        while streams > 1 << (NODE_BITS * len(self._shifts)):
            node = (node,) * fan
            self._nothing.append(node)
            self._shifts.insert(0, NODE_BITS * len(self._shifts))
        self.nothing = node

    def at(self, clock: Clock, stream: int) -> int:
        """The last op of ``stream`` that has ended, or NEVER."""
        part: Any = clock
        if len(self._shifts) == 1:  # nearly always
            return part[stream]  # type: ignore[no-any-return]
        for shift in self._shifts:
            part = part[stream >> shift & ((1 << NODE_BITS) - 1)]
        last: int = part
        return last

    def put(self, clock: Clock, stream: int, op: int) -> Clock:
        """``clock`` once ``op`` of ``stream`` has ended too."""
        if len(self._shifts) == 1:
            return (*clock[:stream], op, *clock[stream + 1 :])
        path = [clock]
        places = [stream >> shift & ((1 << NODE_BITS) - 1) for shift in self._shifts]
        for place in places[:-1]:
            path.append(path[-1][place])
        made: Any = op
        for node, place in zip(reversed(path), reversed(places), strict=True):
            made = (*node[:place], made, *node[place + 1 :])
        return made  # type: ignore[no-any-return]

    def join(self, a: Clock, b: Clock) -> Clock:
        """What has ended by either; one of the two where that is all."""
        return self._join(a, b, len(self._shifts) - 1)

    def _join(self, a: Clock, b: Clock, level: int) -> Clock:
        nothing = self._nothing[level]
        if a is b or b is nothing:
            return a
        if a is nothing:
            return b
        if level == 0:
            joined = tuple(map(max, a, b))
        else:
            joined = tuple([x if x is y else self._join(x, y, level - 1) for x, y in zip(a, b, strict=True)])
        if joined == a:
            return a
        return b if joined == b else joined


class _Order:
    """Which ops have surely ended when the next one starts, as the host issues them one by one.

    An op's clock leaves out its own stream, where the order is that of issue; ops with nothing new to wait for
    then share one clock, and a clock costs time only where streams or the host wait for each other.
    """

    def __init__(self, schedule: Schedule) -> None:
        width = len(schedule.streams) + 1
        self.streams = StreamOrder(schedule)
        self._clocks = _Clocks(width)
        self.nothing = self._clocks.nothing
        self.host = self.nothing
        self._stream_of = [op.stream or 0 for op in schedule.ops]
        self._known = [self.nothing] * len(schedule.ops)
        # Of every stream: its last ops and the host's clock when it was last asked for, and the clock it had then.
        self._last: list[tuple[tuple[int, ...], Clock, Clock]] = [((), self.nothing, self.nothing)] * width

    def now(self, stream: int) -> Clock:
        """What has surely ended when an op issued now in ``stream`` starts."""
        before = self.streams.before(stream)
        seen, host, clock = self._last[stream]
        if before != seen or host is not self.host:
            clock = self.after(clock if host is self.host else self.host, before)
            self._last[stream] = before, self.host, clock
        return clock

    def start(self, op: int, stream: int, clock: Clock) -> None:
        """Put ``op`` into ``stream`` behind what ``clock`` says."""
        self._known[op] = clock
        self.streams.append(stream, op)
        self._last[stream] = (op,), self.host, clock

    def host_waits(self, ops: Iterable[int]) -> None:
        self.host = self.after(self.host, ops)

    def after(self, clock: Clock, ops: Iterable[int]) -> Clock:
        """``clock`` once ``ops`` have ended too, and with them what they came after."""
        clocks = self._clocks
        for op in sorted(ops, reverse=True):  # a later one may have come after the others
            stream = self._stream_of[op]
            if clocks.at(clock, stream) < op:
                clock = clocks.put(clocks.join(clock, self._known[op]), stream, op)
        return clock

    def has_ended(self, op: int, clock: Clock, stream: int) -> bool:
        """Whether ``op`` has ended by ``clock`` of a later op in ``stream``."""
        of = self._stream_of[op]
        return of == stream or self._clocks.at(clock, of) >= op

    def host_waited_for(self, op: int) -> bool:
        """Whether the host has waited until ``op`` ended."""
        return self._clocks.at(self.host, self._stream_of[op]) >= op

    def last_of(self, ops: Iterable[int]) -> list[int]:
        """Those of ``ops``, in order of issue, that none of the others comes after."""
        latest = sorted({self._stream_of[op]: op for op in sorted(ops)}.values())
        return [
            op
            for k, op in enumerate(latest)
            if not any(self.has_ended(op, self._known[later], self._stream_of[later]) for later in latest[k + 1 :])
        ]


class _Stretch:
    """Bytes with one history, up to ``end``: the op that wrote them last, and the last of each stream to read since."""

    __slots__ = ("end", "readers", "writer")

    def __init__(self, end: int, writer: int = NEVER, readers: dict[int, int] | None = None) -> None:
        self.end = end
        self.writer = writer
        self.readers: dict[int, int] = readers or {}


class History:
    """Who touched the bytes of a buffer last: stretches, by where they start, that never overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []  # sorted
        self._at: dict[int, _Stretch] = {}
        self._reach = 0  # the end of the last stretch

    def read(self, op: int, stream: int, start: int, end: int) -> list[int]:
        """The ops that must have ended before ``op`` reads these bytes."""
        found = []
        for stretch in self._stretches(start, end):
            if stretch.writer != NEVER:
                found.append(stretch.writer)
            stretch.readers[stream] = op
        return found

    def write(self, op: int, start: int, end: int) -> list[int]:
        """The ops that must have ended before ``op`` overwrites these bytes."""
        found = []
        stretches = self._stretches(start, end)
        for stretch in stretches:
            if stretch.writer != NEVER:
                found.append(stretch.writer)
            found += stretch.readers.values()
            stretch.writer, stretch.readers = op, {}
        if len(stretches) > 1:
            self._merge(start, end, len(stretches))
        return found

    def _merge(self, start: int, end: int, count: int) -> None:
        """Make one of the ``count`` stretches that have one history now."""
        first = bisect_left(self._starts, start)
        for merged in self._starts[first + 1 : first + count]:
            del self._at[merged]
        del self._starts[first + 1 : first + count]
        self._at[start].end = end

    def _stretches(self, start: int, end: int) -> list[_Stretch]:
        """The stretches that make up these bytes, cut and added where need be."""
        same = self._at.get(start)
        if same is not None and same.end == end:  # nearly always
            return [same]
        if start >= self._reach:  # beyond all so far
            self._starts.append(start)
            self._at[start] = _Stretch(end)
            self._reach = end
            return [self._at[start]]
        self._reach = max(self._reach, end)
        self._cut(start)
        self._cut(end)
        found = []
        while start < end:
            if start not in self._at:
                place = bisect_left(self._starts, start)
                following = self._starts[place] if place < len(self._starts) else end
                self._starts.insert(place, start)
                self._at[start] = _Stretch(min(end, following))
            found.append(self._at[start])
            start = found[-1].end
        return found

    def _cut(self, at: int) -> None:
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return
        start = self._starts[place]
        stretch = self._at[start]
        if start < at < stretch.end:
            self._starts.insert(place + 1, at)
            self._at[at] = _Stretch(stretch.end, stretch.writer, dict(stretch.readers))
            stretch.end = at


class _Record(NamedTuple):
    """A call that recorded an event: its op, and the ops whose end completes the event."""

    op: int
    completes: tuple[int, ...]


class _Checker:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._order = _Order(schedule)
        self._pageable = schedule.pageable_names
        self._histories = {buffer.name: History() for buffer in schedule.buffers}
        self._records: dict[int, _Record] = {}  # by event: the latest
        self._record_after: dict[int, tuple[int, _Record]] = {}  # by op: an event, and its record soon after the op
        self._unrecorded_ops: dict[int, list[int]] = {}  # by stream: its ops since its last copy to the card or record
        self._has_blocking_streams = "blocking" in schedule.streams
        self._on_device = {buffer.name for buffer in schedule.buffers if buffer.memory == "device"}

    def run(self) -> Iterator[Finding]:
        for i, op in enumerate(self._schedule.ops):
            if isinstance(op, Copy | Kernel):
                yield from self._work(i, op)
            elif isinstance(op, RecordEvent):
                self._record(i, op)
            elif isinstance(op, WaitEvent):
                yield from self._wait(i, op)
            else:
                yield from self._synchronize(i, op)
        yield from self._unsynchronised()

    # Copies and kernels

    def _work(self, i: int, op: Copy | Kernel) -> Iterator[Finding]:
        stream, order = op.stream, self._order
        clock = order.now(stream)
        racing = [earlier for earlier in self._earlier(i, op) if not order.has_ended(earlier, clock, stream)]
        if racing:
            for earlier in order.last_of(racing):
                if not order.has_ended(earlier, clock, stream):
                    event, record = self._event_after(earlier)
                    yield self._race(earlier, i, event)
                    clock = order.after(clock, record.completes)
        order.start(i, stream, clock)
        self._note(i, op)
        if isinstance(op, Copy) and self._is_done_on_return(op):
            order.host_waits((i,))

    def _earlier(self, i: int, op: Copy | Kernel) -> list[int]:
        """The ops that must have ended before ``op`` starts, for what it touches."""
        found = []
        for region, writes in touched(op, self._pageable):
            history, start = self._histories[region.buffer], region.offset
            if writes:
                found += history.write(i, start, start + region.bytes)
            else:
                found += history.read(i, op.stream, start, start + region.bytes)
        return found

    def _is_done_on_return(self, copy: Copy) -> bool:
        if copy.host is not None and copy.host.buffer in self._pageable:
            return copy.direction == "d2h" or (copy.blocking and copy.stream != LEGACY_STREAM)
        return copy.blocking

    def _note(self, i: int, op: Copy | Kernel) -> None:
        if isinstance(op, Copy) and op.direction == "h2d":
            self._unrecorded_ops[op.stream] = [i]
        else:
            self._unrecorded_ops.setdefault(op.stream, []).append(i)

    def _event_after(self, op: int) -> tuple[int | None, _Record]:
        """An event to wait for that comes after ``op``: one that is there, or None for a new one behind ``op``.

        One that is there is a call less. It must be recorded before its stream turns to its next chunk, by a copy to
        the card, or waiting for it would cost too much; and not be recorded again since.
        """
        event, record = self._record_after.get(op, (None, None))
        if event is None or record is None or self._records[event] is not record:
            return None, _Record(op, (op,))
        return event, record

    def _race(self, first: int, second: int, event: int | None) -> Finding:
        hazards = tuple(_hazards(self._schedule.ops[first], self._schedule.ops[second], self._pageable))
        return Finding(
            "race",
            (first, second),
            self._clash(first, second, hazards),
            self._missing(first, second, event),
            hazards,
            MissingWait(first, second, event),
        )

    def _clash(self, first: int, second: int, hazards: tuple[Hazard, ...]) -> str:
        shown = [self._reach(hazard) for hazard in hazards[:MOST_SHOWN]]
        if len(hazards) > MOST_SHOWN:
            shown.append(f"and {len(hazards) - MOST_SHOWN} more")
        return f"{self._name(second)} and {self._name(first)} have no order: {', '.join(shown)}"

    def _reach(self, hazard: Hazard) -> str:
        reach = f"{hazard.kind} of bytes {hazard.offset}..{hazard.offset + hazard.bytes} of {hazard.buffer!r}"
        on_host = hazard.buffer not in self._on_device
        return f"{reach} (a host buffer used again before its asynchronous copy has finished)" if on_host else reach

    def _missing(self, first: int, second: int, event: int | None) -> str:
        here, there = self._schedule.ops[first].stream, self._schedule.ops[second].stream
        if event is None:
            record = f"record an event in stream {here} after ops[{first}]"
            return f"{record} and wait for it in stream {there} before ops[{second}]"
        by = self._records[event].op
        return f"wait for event {event} (recorded by ops[{by}]) in stream {there} before ops[{second}]"

    # Events and the host

    def _record(self, i: int, op: RecordEvent) -> None:
        completes = self._order.streams.record(op.stream, op.event)
        record = self._records[op.event] = _Record(i, completes)
        for earlier in self._unrecorded_ops.pop(op.stream, ()):
            self._record_after[earlier] = op.event, record

    def _wait(self, i: int, op: WaitEvent) -> Iterator[Finding]:
        order, record = self._order, self._records.get(op.event)
        if record is None:
            yield self._unrecorded(i, op.event)
        elif op.stream != LEGACY_STREAM or not self._has_blocking_streams:
            clock = order.now(op.stream)
            if all(order.has_ended(earlier, clock, op.stream) for earlier in record.completes):
                yield self._redundant(i, op, record)
        order.streams.wait(op.stream, op.event)

    def _synchronize(self, i: int, op: Synchronize) -> Iterator[Finding]:
        if op.event is not None and op.event not in self._records:
            yield self._unrecorded(i, op.event)
        self._order.host_waits(self._order.streams.awaited(op))

    def _unrecorded(self, i: int, event: int) -> Finding:
        later = self._first_records.get(event)
        when = "never recorded" if later is None else f"recorded only later, by ops[{later}]"
        what = f"{self._name(i)} waits for event {event}, which is {when}: it waits for nothing"
        return Finding("unrecorded-event", (i,), what, f"record event {event} before it, or take it out")

    @cached_property
    def _first_records(self) -> dict[int, int]:
        """By event the first op that records it."""
        records = [(op.event, i) for i, op in enumerate(self._schedule.ops) if isinstance(op, RecordEvent)]
        return dict(reversed(records))

    def _redundant(self, i: int, op: WaitEvent, record: _Record) -> Finding:
        why = f"stream {op.stream} is already behind it" if record.completes else "nothing was before that record"
        what = f"{self._name(i)} waits for event {op.event} as recorded by ops[{record.op}], but {why}"
        return Finding("redundant-wait", (i,), what, "take it out: it costs a call and changes nothing")

    def _unsynchronised(self) -> Iterator[Finding]:
        missing: dict[str, list[int]] = {}
        for i, op in enumerate(self._schedule.ops):
            if isinstance(op, Copy) and op.direction == "d2h" and not self._order.host_waited_for(i):
                missing.setdefault("" if op.host is None else op.host.buffer, []).append(i)
        for buffer, copies in missing.items():
            into = f"{buffer!r}" if buffer else "memory of its own"
            more = f" (nor for {len(copies) - 1} before it)" if len(copies) > 1 else ""
            what = f"the host never waits for {self._name(copies[-1])} into {into}{more}: it may read it too early"
            yield Finding("unsynchronised-output", tuple(copies), what, "synchronise after the last op")

    def _name(self, i: int) -> str:
        op = self._schedule.ops[i]
        if isinstance(op, Copy):
            what = f"{op.direction} copy"
        elif isinstance(op, Kernel):
            what = f"kernel {op.name!r}"
        elif isinstance(op, Synchronize):
            return f"ops[{i}] (synchronise)"
        else:
            what = "record" if isinstance(op, RecordEvent) else "wait"
        return f"ops[{i}] ({what} in stream {op.stream})"


def touched(op: Op, pageable: frozenset[str]) -> Iterator[tuple[Region, bool]]:
    """The bytes that an op touches while it runs on the card, and whether it writes them.

    Pageable memory is not among them: it is read or written before the call returns.
    """
    if isinstance(op, Copy):
        to_card = op.direction == "h2d"
        if op.device is not None:
            yield op.device, to_card
        if op.host is not None and op.host.buffer not in pageable:
            yield op.host, not to_card
    elif isinstance(op, Kernel):
        for region in op.reads:
            yield region, False
        for region in op.writes:
            yield region, True


def _hazards(first: Op, second: Op, pageable: frozenset[str]) -> list[Hazard]:
    """Where and how two ops clash, each once; what is read too early comes first."""
    found = set()
    for a, a_writes in touched(first, pageable):
        for b, b_writes in touched(second, pageable):
            start, end = max(a.offset, b.offset), min(a.offset + a.bytes, b.offset + b.bytes)
            if a.buffer == b.buffer and start < end and (a_writes or b_writes):
                kind = HAZARD_KINDS[0 if not b_writes else 1 + a_writes]
                found.add(Hazard(kind, a.buffer, start, end - start))
    return sorted(found, key=lambda h: (HAZARD_KINDS.index(h.kind), h.buffer, h.offset, h.bytes))
