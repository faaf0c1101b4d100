"""Check a schedule for races, and for events and waits that do not do what they seem to.

Two ops that touch the same bytes of a buffer, at least one of them writing, need an order: by their stream, by
an event, by the legacy default stream, or by a host that waited in between. Without one the result depends on
luck. The order needs no device: it follows from the schedule alone, by the laws that
:mod:`streamsim.races.happens_before` states for any number of threads.

What is found, by rule:

``race`` (error)
    A conflict without an order. In pinned host memory, a buffer is reused before its asynchronous copy has finished.
    In pageable memory, two threads use a buffer at the same time.
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
one thread alone never races for pageable memory) but may still be under way to the card; so may ``cudaMemcpy`` of
pageable memory (``blocking`` in stream 0). Source: CUDA Runtime API, "API synchronization behavior".
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import msgspec

from streamsim.program import (
    LEGACY_STREAM,
    Buffer,
    Copy,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    check_schedule,
)
from streamsim.races.happens_before import NEVER, Clock, HappensBefore

Rule = Literal["race", "unrecorded-event", "unsynchronised-output", "redundant-wait"]
HazardKind = Literal["read-after-write", "write-after-read", "write-after-write"]
Severity = Literal["error", "warning"]
RULES: tuple[Rule, ...] = get_args(Rule)
HAZARD_KINDS: tuple[HazardKind, ...] = get_args(HazardKind)

MOST_SHOWN = 3  # clashes of one race that its text spells out


class Hazard(msgspec.Struct, frozen=True):
    """The bytes ``offset .. offset + bytes`` of a buffer, and how the later op clashes with the earlier one there."""

    kind: HazardKind
    buffer: str
    offset: int
    bytes: int


class MissingWait(msgspec.Struct, frozen=True):
    """The wait that would order two ops: just before ``before``, for ``event``, which comes after the op ``after``.

    ``event`` None: for a new event, recorded just after ``after`` in its stream. ``host``: the thread that issues
    ``before`` must wait, not its stream, because ``before`` reads pageable memory as soon as it is called.
    """

    after: int
    before: int
    event: int | None = None
    host: bool = False


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
        """Return "error" for a race, whose result depends on luck, and "warning" for what is surely not meant."""
        return "error" if self.rule == "race" else "warning"


def check(schedule: Schedule) -> tuple[Finding, ...]:
    """Return what is wrong with ``schedule``: the races first, then the warnings, each in the order of issue.

    Of several ops that race with a later one, those are named behind which the others lie. Takes time linear in
    the ops as long as the ranges that ops touch are the same or apart, and few streams wait for each other.
    """
    check_schedule("schedule", schedule)
    findings = list(_Checker(schedule).run())
    return tuple(sorted(findings, key=lambda finding: (finding.severity, finding.ops[-1])))


def repaired(schedule: Schedule, findings: Iterable[Finding]) -> Schedule:
    """Return ``schedule`` with the waits that its races lack, and therefore without races."""
    waits = [finding.wait for finding in findings if finding.wait is not None]
    sources = sorted({wait.after for wait in waits if wait.event is None})
    events = {op: event for event, op in enumerate(sources, schedule.events)}
    before: dict[int, list[Op]] = {}
    for wait in waits:
        op, event = schedule.ops[wait.before], events[wait.after] if wait.event is None else wait.event
        on_host, on_card = (
            Synchronize(event=event, thread=op.thread),
            WaitEvent(event, op.stream or 0, thread=op.thread),
        )
        before.setdefault(wait.before, []).append(on_host if wait.host else on_card)
    ops: list[Op] = []
    for i, op in enumerate(schedule.ops):
        ops += before.get(i, ())
        ops.append(op)
        if i in events:
            ops.append(RecordEvent(events[i], op.stream or 0, thread=op.thread))
    return msgspec.structs.replace(schedule, ops=tuple(ops), events=schedule.events + len(events))


def unnamed_memory(schedule: Schedule) -> int:
    """Return the number of copies and kernels that do not name all their memory: no race of theirs shows."""
    return sum(
        (isinstance(op, Copy) and (op.host is None or op.device is None))
        or (isinstance(op, Kernel) and not (op.reads or op.writes))
        for op in schedule.ops
    )


# Which bytes an op touches, and who touched the bytes of a buffer last.


def touched(op: Op, ignored: frozenset[str] = frozenset()) -> Iterator[tuple[Region, bool]]:
    """Yield the ranges that an op touches, except those of ``ignored`` host buffers, and whether it writes them."""
    if isinstance(op, Copy):
        to_card = op.direction == "h2d"
        if op.device is not None:
            yield op.device, to_card
        if op.host is not None and op.host.buffer not in ignored:
            yield op.host, not to_card
    elif isinstance(op, Kernel):
        for region in op.reads:
            yield region, False
        for region in op.writes:
            yield region, True


class _ByteRange:
    """Bytes with one history, up to ``end``: the op that wrote them last, and the last of each stream to read since."""

    __slots__ = ("end", "readers", "writer")

    def __init__(self, end: int, writer: int, readers: dict[int, int]) -> None:
        self.end, self.writer, self.readers = end, writer, readers


class History:
    """Who touched the bytes of a buffer last: the ranges that make it up, by where they start."""

    def __init__(self, n_bytes: int) -> None:
        self._starts = [0]  # sorted
        self._at = {0: _ByteRange(n_bytes, NEVER, {})}

    def read(self, op: int, stream: int, start: int, end: int) -> list[int]:
        """Return the ops that must have ended before ``op`` reads these bytes."""
        ranges = self._ranges(start, end)
        for part in ranges:
            part.readers[stream] = op
        return [part.writer for part in ranges if part.writer != NEVER]

    def write(self, op: int, start: int, end: int) -> list[int]:
        """Return the ops that must have ended before ``op`` overwrites these bytes."""
        ranges = self._ranges(start, end)
        found = [earlier for part in ranges for earlier in (part.writer, *part.readers.values()) if earlier != NEVER]
        if len(ranges) > 1:  # they have one history now
            first = bisect_left(self._starts, start)
            for merged in self._starts[first + 1 : first + len(ranges)]:
                del self._at[merged]
            del self._starts[first + 1 : first + len(ranges)]
        self._at[start] = _ByteRange(end, op, {})
        return found

    def _ranges(self, start: int, end: int) -> list[_ByteRange]:
        """Return the ranges that make up these bytes, cut where need be."""
        same = self._at.get(start)
        if same is not None and same.end == end:  # nearly always
            return [same]
        self._cut(start)
        self._cut(end)
        found = []
        while start < end:
            found.append(self._at[start])
            start = found[-1].end
        return found

    def _cut(self, at: int) -> None:
        place = bisect_right(self._starts, at)
        part = self._at[self._starts[place - 1]]
        if self._starts[place - 1] < at < part.end:
            self._starts.insert(place, at)
            self._at[at] = _ByteRange(part.end, part.writer, dict(part.readers))
            part.end = at


def earlier_ops(ops: Iterable[Op], buffers: Iterable[Buffer]) -> Iterator[list[tuple[Region, bool, list[int]]]]:
    """Yield for each op its ranges, whether it writes them, and the earlier ops with which it shares bytes there.

    One of the two ops writes the bytes. An op that reads a range and writes it is among its own earlier ops.
    """
    histories = {buffer.name: History(buffer.bytes) for buffer in buffers}
    for i, op in enumerate(ops):
        found = []
        for region, writes in touched(op):
            history, start, end = histories[region.buffer], region.offset, region.offset + region.bytes
            earlier = history.write(i, start, end) if writes else history.read(i, i, start, end)  # of all streams
            found.append((region, writes, earlier))
        yield found


class _Touch(NamedTuple):
    """An earlier op that touched the same bytes as the next one, of ``pageable`` memory or of other."""

    op: int
    pageable: bool


class _EventRecord(NamedTuple):
    """A call that recorded an event: its op, and the ops whose end completes the event."""

    op: int
    completes: tuple[int, ...]


class _Checker:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._order = HappensBefore(schedule)
        self._pageable = schedule.pageable_names
        self._ignored = frozenset[str]() if self._order.has_threads else self._pageable  # no race of one thread's
        self._histories = {buffer.name: History(buffer.bytes) for buffer in schedule.buffers}
        self._records: dict[int, _EventRecord] = {}  # by event: the latest
        self._record_after: dict[
            int, tuple[int, _EventRecord]
        ] = {}  # by op: an event, and its record soon after the op
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
            elif isinstance(op, Synchronize):
                yield from self._synchronize(i, op)
            else:
                self._order.call(op)
        yield from self._unsynchronised()

    # Copies and kernels

    def _work(self, i: int, op: Copy | Kernel) -> Iterator[Finding]:
        stream, order = op.stream, self._order
        clock = order.now(stream, op.thread)
        racing = [touch for touch in self._earlier(i, op) if not self._is_behind(op, touch, clock)]
        if racing:
            for earlier in order.last_of({touch.op for touch in racing}):
                kinds = {t.pageable for t in racing if t.op == earlier and not self._is_behind(op, t, clock)}
                if kinds:
                    on_host = True in kinds and self._is_staged(op)
                    event, record = self._event_after(earlier)
                    yield self._race(MissingWait(earlier, i, event, on_host), kinds)
                    clock = self._waited(op, clock, event, record, on_host)
        if order.has_threads and self._is_staged(op):
            clock = order.with_read(i, op.thread, clock)
        order.start(i, stream, op.thread, clock)
        if isinstance(op, Copy) and op.direction == "h2d":
            self._unrecorded_ops[stream] = [i]
        else:
            self._unrecorded_ops.setdefault(stream, []).append(i)
        if isinstance(op, Copy) and op.is_done_on_return(self._pageable):
            order.host_waits(op.thread, (i,))

    def _waited(self, op: Copy | Kernel, clock: Clock, event: int | None, record: _EventRecord, on_host: bool) -> Clock:
        """Return the clock of ``op`` once its stream, or (``on_host``) its thread, has waited for a record."""
        order = self._order
        if not on_host:
            clock = order.after(clock, record.completes)
            return clock if event is None else order.after_event(clock, event)
        order.host_waits(op.thread, record.completes)
        if event is not None:
            order.host_learns(op.thread, order.handed_on(event))
        return order.now(op.stream, op.thread)

    def _earlier(self, i: int, op: Copy | Kernel) -> list[_Touch]:
        """Return the ops that must have ended, or read their pageable memory, before ``op`` touches what it touches."""
        found = []
        for region, writes in touched(op, self._ignored):
            history, start = self._histories[region.buffer], region.offset
            pageable = region.buffer in self._pageable
            if writes:
                earlier = history.write(i, start, start + region.bytes)
            else:  # pageable memory is read by the thread, in the order of its calls
                reader = -1 - op.thread if pageable else op.stream
                earlier = history.read(i, reader, start, start + region.bytes)
            found += [_Touch(k, pageable) for k in earlier]
        return found

    def _is_behind(self, op: Copy | Kernel, touch: _Touch, clock: Clock) -> bool:
        """Return True if ``op``, which has this clock, touches the bytes only after the earlier op has used them."""
        order = self._order
        if touch.pageable and self._is_staged(op):  # at once, whatever its stream does
            return order.has_ended(touch.op, order.host(op.thread), None)
        if touch.pageable and self._is_staged(self._schedule.ops[touch.op]):
            return order.has_staged(touch.op, clock)
        return order.has_ended(touch.op, clock, op.stream)

    def _is_staged(self, op: Op) -> bool:
        """Return True if an op reads pageable memory, which it does while the thread makes the call."""
        return isinstance(op, Copy) and op.direction == "h2d" and op.uses_host(self._pageable)

    def _event_after(self, op: int) -> tuple[int | None, _EventRecord]:
        """Return an event to wait for that comes after ``op``, and its record; None for a new event behind ``op``.

        One that is there is a call less. It must be recorded before its stream turns to its next chunk, by a copy to
        the card, or waiting for it would cost too much; and not be recorded again since.
        """
        event, record = self._record_after.get(op, (None, None))
        if event is None or record is None or self._records[event] is not record:
            return None, _EventRecord(op, (op,))
        return event, record

    def _race(self, wait: MissingWait, kinds: set[bool]) -> Finding:
        """Return the race that ``wait`` would end. ``kinds``: whether the memory is pageable or not."""
        first, second = self._schedule.ops[wait.after], self._schedule.ops[wait.before]
        hazards = tuple(h for h in _hazards(first, second, self._ignored) if (h.buffer in self._pageable) in kinds)
        shown = [self._reach(hazard) for hazard in hazards[:MOST_SHOWN]]
        if len(hazards) > MOST_SHOWN:
            shown.append(f"and {len(hazards) - MOST_SHOWN} more")
        what = f"{self._name(wait.before)} and {self._name(wait.after)} have no order: {', '.join(shown)}"
        return Finding("race", (wait.after, wait.before), what, self._missing(wait), hazards, wait)

    def _reach(self, hazard: Hazard) -> str:
        reach = f"{hazard.kind} of bytes {hazard.offset}..{hazard.offset + hazard.bytes} of {hazard.buffer!r}"
        if hazard.buffer in self._on_device:
            return reach
        if hazard.buffer in self._pageable:
            return f"{reach} (pageable memory that two threads use at the same time)"
        return f"{reach} (a host buffer used again before its asynchronous copy has finished)"

    def _missing(self, wait: MissingWait) -> str:
        first, second = self._schedule.ops[wait.after], self._schedule.ops[wait.before]
        where = f"in thread {second.thread} of the host" if wait.host else f"in stream {second.stream}"
        if wait.event is None:
            record = f"record an event in stream {first.stream} after ops[{wait.after}]"
            return f"{record} and wait for it {where} before ops[{wait.before}]"
        by = self._records[wait.event].op
        return f"wait for event {wait.event} (recorded by ops[{by}]) {where} before ops[{wait.before}]"

    # Events and the host

    def _record(self, i: int, op: RecordEvent) -> None:
        completes = self._order.record(op.stream, op.event, op.thread)
        record = self._records[op.event] = _EventRecord(i, completes)
        for earlier in self._unrecorded_ops.pop(op.stream, ()):
            self._record_after[earlier] = op.event, record

    def _wait(self, i: int, op: WaitEvent) -> Iterator[Finding]:
        order, record = self._order, self._records.get(op.event)
        if record is None:
            yield self._unrecorded(i, op.event)
        elif op.stream == LEGACY_STREAM and self._has_blocking_streams:
            pass  # all of them wait for each other
        elif order.waits_in_vain(op.stream, op.event, op.thread, record.completes):
            yield self._redundant(i, op, record)
        order.wait(op.stream, op.event, op.thread)

    def _synchronize(self, i: int, op: Synchronize) -> Iterator[Finding]:
        if op.event is not None and op.event not in self._records:
            yield self._unrecorded(i, op.event)
        self._order.synchronize(op)

    def _unrecorded(self, i: int, event: int) -> Finding:
        later = self._first_records.get(event)
        when = "never recorded" if later is None else f"recorded only later, by ops[{later}]"
        what = f"{self._name(i)} waits for event {event}, which is {when}: it waits for nothing"
        return Finding("unrecorded-event", (i,), what, f"record event {event} before it, or take it out")

    @cached_property
    def _first_records(self) -> dict[int, int]:
        """The first op that records each event."""
        records = [(op.event, i) for i, op in enumerate(self._schedule.ops) if isinstance(op, RecordEvent)]
        return dict(reversed(records))

    def _redundant(self, i: int, op: WaitEvent, record: _EventRecord) -> Finding:
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


def _hazards(first: Op, second: Op, pageable: frozenset[str]) -> list[Hazard]:
    """Return where and how two ops clash, each once; what is read too early comes first."""
    found = set()
    for a, a_writes in touched(first, pageable):
        for b, b_writes in touched(second, pageable):
            start, end = max(a.offset, b.offset), min(a.offset + a.bytes, b.offset + b.bytes)
            if a.buffer == b.buffer and start < end and (a_writes or b_writes):
                kind = HAZARD_KINDS[0 if not b_writes else 1 + a_writes]
                found.add(Hazard(kind, a.buffer, start, end - start))
    return sorted(found, key=lambda h: (HAZARD_KINDS.index(h.kind), h.buffer, h.offset, h.bytes))
