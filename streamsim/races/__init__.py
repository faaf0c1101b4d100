"""Check a schedule for races, and for events and waits that do not do what they seem to.

Two ops that touch the same bytes of a buffer, at least one of them writing, need an order: by their stream, by
an event, by the legacy default stream, or by a host that waited in between. Without one the result depends on
luck. The order needs no device: it follows from the schedule alone, by the laws of :class:`HappensBefore`.

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
from functools import reduce
from typing import Literal, get_args

import msgspec

from streamsim import program

Rule = Literal["race", "unrecorded-event", "unsynchronised-output", "redundant-wait"]
HazardKind = Literal["read-after-write", "write-after-read", "write-after-write"]
HAZARD_KINDS: tuple[HazardKind, ...] = get_args(HazardKind)

MOST_SHOWN = 3  # clashes of one race that its text spells out


class Hazard(msgspec.Struct, frozen=True):
    """The bytes ``offset .. offset + bytes`` of a buffer, and how the later op clashes with the earlier one there."""

    kind: HazardKind
    buffer: str
    offset: int
    bytes: int


class MissingWait(msgspec.Struct, frozen=True):
    """The wait that would order two ops: just before ``before``, for a new event, recorded just after ``after``.

    ``host``: the thread that issues ``before`` must wait, not its stream, because ``before`` reads pageable memory as
    soon as it is called.
    """

    after: int
    before: int
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
    def severity(self) -> Literal["error", "warning"]:
        """Return "error" for a race, whose result depends on luck, and "warning" for what is surely not meant."""
        return "error" if self.rule == "race" else "warning"


def check(schedule: program.Schedule) -> tuple[Finding, ...]:
    """Return what is wrong with ``schedule``: the races first, then the warnings, each in the order of issue.

    Of several ops that race with a later one, those are named behind which the others lie. Takes time linear in
    the ops as long as the ranges that ops touch are the same or apart, and few streams wait for each other.
    """
    program.check_schedule("schedule", schedule)
    findings = list(_Checker(schedule).run())
    return tuple(sorted(findings, key=lambda finding: (finding.severity, finding.ops[-1])))


def repaired(schedule: program.Schedule, findings: Iterable[Finding]) -> program.Schedule:
    """Return ``schedule`` with the waits that its races lack, and therefore without races."""
    waits = [finding.wait for finding in findings if finding.wait is not None]
    sources = sorted({wait.after for wait in waits})
    events = {op: event for event, op in enumerate(sources, schedule.events)}
    before: dict[int, list[program.Op]] = {}
    for wait in waits:
        op, event = schedule.ops[wait.before], events[wait.after]
        waiting: program.Op = program.WaitEvent(event, op.stream or 0, thread=op.thread)
        if wait.host:
            waiting = program.Synchronize(event=event, thread=op.thread)
        before.setdefault(wait.before, []).append(waiting)
    ops: list[program.Op] = []
    for i, op in enumerate(schedule.ops):
        ops += *before.get(i, ()), op
        if i in events:
            ops.append(program.RecordEvent(events[i], op.stream or 0, thread=op.thread))
    return msgspec.structs.replace(schedule, ops=tuple(ops), events=schedule.events + len(events))


def unnamed_memory(schedule: program.Schedule) -> int:
    """Return the number of copies and kernels that do not name all their memory: no race of theirs shows."""
    return sum(
        (isinstance(op, program.Copy) and (op.host is None or op.device is None))
        or (isinstance(op, program.Kernel) and not (op.reads or op.writes))
        for op in schedule.ops
    )


# Which ops have surely ended when another starts: CUDA's order, for any number of threads of the host.
#
# It needs no device. These laws, of what CUDA promises, are all of it:
#
# 1. A thread makes one call after another: a call begins when the one before it has returned.
# 2. What a call puts into a stream (a copy, a kernel, a record, a wait) starts after the call began, and after all that
#    stands before it in the stream has ended. The order in a stream is that of the schedule, whichever thread calls.
# 3. The legacy default stream and the blocking streams also wait for each other, in the order of the schedule.
# 4. A wait also starts after the event's latest record before it, in the order of the schedule, has ended.
# 5. A call that synchronises returns after all that it waits for has ended. So does the call of a blocking copy, and of
#    a copy into pageable memory. A wait for a thread returns after the calls of that thread before it have.
# 6. A copy from pageable memory reads that memory between its call and its return, whatever its stream does meanwhile.
#    The copy ends after that. Its call may return before it ends, also that of ``cudaMemcpy`` (blocking in stream 0).
#    Only a blocking copy in another stream, which synchronises that stream, returns after its end.
#
# So a record or a wait hands on what the thread that called it knew: who comes after it, comes after that too.

NEVER = -1  # in place of an op

# For every stream the last op in it that has surely ended, or NEVER: that op and all before it in the stream. Then for
# every thread the last of its copies that has surely read its pageable memory.
Clock = tuple[int, ...]


def _put(clock: Clock, place: int, op: int) -> Clock:
    """Return ``clock`` with ``op`` at a place, which only moves forward."""
    return clock if clock[place] >= op else (*clock[:place], op, *clock[place + 1 :])


def join(a: Clock, b: Clock) -> Clock:
    """Return what has ended by either; one of the two if that is all."""
    if a is b:
        return a
    joined = tuple(map(max, a, b))
    return a if joined == a else b if joined == b else joined


class HappensBefore:
    """The ops that have surely ended when the next one starts. It gets the calls in the order of the schedule.

    Each thread, stream and event has a clock: what has surely ended when the thread makes its next call, when the next
    op of the stream starts, and when the event is complete. An op's clock leaves out its own stream, where the order is
    that of issue. So ops with nothing new to wait for share one clock. ``stream_of``: of each op.
    """

    def __init__(self, schedule: program.Schedule) -> None:
        width, threads = len(schedule.streams) + 1, sorted({op.thread for op in schedule.ops})
        nothing: Clock = (NEVER,) * (width + len(threads))
        self.stream_of = [op.stream or 0 for op in schedule.ops]
        self._ordinary = program.CudaOrder(schedule).ordinary
        self._lines = {thread: width + k for k, thread in enumerate(threads)}  # places in a clock
        self._ops, self._nothing = schedule.ops, nothing
        self._known = [nothing] * len(schedule.ops)  # by op, when it starts
        self._hosts = dict.fromkeys(threads, nothing)
        self._events = [nothing] * schedule.events  # of its latest record
        self._streams = [nothing] * width  # without the last op of the stream itself
        self._last = [NEVER] * width
        self._seen = [nothing] * width  # of the thread that called last: its clock, which the stream's has taken in
        self._callers = {(op.stream or 0, op.thread) for op in schedule.ops}

    # Clocks of streams and threads

    def now(self, stream: int, thread: int) -> Clock:
        """Return what has surely ended when an op that ``thread`` issues now in ``stream`` starts."""
        host = self._hosts[thread]
        if stream == program.LEGACY_STREAM:
            return join(self._behind(stream), host)
        if self._seen[stream] is not host:
            self._streams[stream], self._seen[stream] = join(self._streams[stream], host), host
        return self._streams[stream]

    def start(self, op: int, stream: int, clock: Clock) -> None:
        """Put ``op`` into ``stream`` behind what ``clock`` says."""
        self._known[op] = clock
        if stream == program.LEGACY_STREAM:
            self._set(stream, _put(clock, stream, op))
        else:
            self._streams[stream], self._last[stream] = clock, op

    def _behind(self, stream: int) -> Clock:
        """Return what has ended when all that is in ``stream`` has: of the legacy stream, in all that it waits for."""
        if stream != program.LEGACY_STREAM:
            return _put(self._streams[stream], stream, self._last[stream])
        return reduce(join, [_put(self._streams[one], one, self._last[one]) for one in self._ordinary])

    def _set(self, stream: int, clock: Clock) -> None:
        for behind in self._ordinary if stream == program.LEGACY_STREAM else (stream,):
            self._streams[behind] = clock

    def host_learns(self, thread: int, clock: Clock) -> None:
        """Let the thread know what ``clock`` says as well."""
        self._hosts[thread] = join(self._hosts[thread], clock)

    def with_read(self, op: int, thread: int, clock: Clock) -> Clock:
        """Return the ``clock`` of ``op`` once ``thread``'s call has read its pageable memory and returns."""
        line = self._lines[thread]
        self._hosts[thread] = _put(self._hosts[thread], line, op)
        return _put(clock, line, op)

    # Events, and calls that wait

    def call(self, op: program.Op) -> None:
        """Record an event, or wait: a stream or the host. A thread that waits for another one knows what that knows."""
        if isinstance(op, program.RecordEvent):
            self._events[op.event] = self._called(op.stream, op.thread, self._nothing)
        elif isinstance(op, program.WaitEvent):
            self._called(op.stream, op.thread, self._events[op.event])
        elif isinstance(op, program.Synchronize):
            self.host_learns(op.thread, self._awaited(op))
        elif isinstance(op, program.WaitThread):
            self.host_learns(op.thread, self._hosts.get(op.other, self._nothing))

    def _called(self, stream: int, thread: int, more: Clock) -> Clock:
        """Put ``stream`` behind ``more`` and behind what ``thread`` knows, and return what it is behind then."""
        clock = join(join(self._behind(stream), self._hosts[thread]), more)
        self._set(stream, clock)
        return clock

    def _awaited(self, sync: program.Synchronize) -> Clock:
        if sync.event is not None:
            return self._events[sync.event]
        if sync.stream is not None:
            return self._behind(sync.stream)
        return reduce(join, [_put(clock, one, self._last[one]) for one, clock in enumerate(self._streams)])

    def waits_in_vain(self, wait: program.WaitEvent) -> bool:
        """Return True if the next op of the stream comes after what the event stands for without the wait, too.

        If several threads issue ops in the stream, whichever of them the next one is from.
        """
        among = self._ordinary if wait.stream in self._ordinary else [wait.stream]
        stream, host = self._behind(wait.stream), self._hosts[wait.thread]
        known = join(stream, host)
        threads = {thread for called, thread in self._callers if called in among}
        without = known if len(threads) <= 1 else stream
        return join(known, self._events[wait.event]) == without

    # Questions about ops

    def ended(self, op: int) -> Clock:
        """Return what has ended when ``op`` has."""
        return _put(self._known[op], self.stream_of[op], op)

    def last_before(self, op: int, stream: int) -> int:
        """Return the last op of ``stream`` that has surely ended when ``op`` starts, or NEVER."""
        return op - 1 if self.stream_of[op] == stream else self._known[op][stream]

    def has_ended(self, op: int, clock: Clock, stream: int) -> bool:
        """Return True if ``op`` has ended by ``clock`` of a later op in ``stream``."""
        return self.stream_of[op] == stream or clock[self.stream_of[op]] >= op

    def host_waited_for(self, op: int, thread: int | None = None) -> bool:
        """Return True if the thread (None: any thread) of the host has waited until ``op`` ended."""
        clocks = self._hosts.values() if thread is None else (self._hosts[thread],)
        return any(clock[self.stream_of[op]] >= op for clock in clocks)

    def has_staged(self, op: int, clock: Clock) -> bool:
        """Return True if ``op``, a copy from pageable memory, has read that memory by ``clock``."""
        return clock[self._lines[self._ops[op].thread]] >= op

    def last_of(self, ops: Iterable[int]) -> list[int]:
        """Return those of ``ops``, in order of issue, that none of the others comes after."""
        latest = sorted({self.stream_of[op]: op for op in sorted(ops)}.values())
        return [
            op
            for k, op in enumerate(latest)
            if not any(self.has_ended(op, self._known[later], self.stream_of[later]) for later in latest[k + 1 :])
        ]


# Which bytes an op touches, and who touched the bytes of a buffer last.


def touched(op: program.Op) -> Iterator[tuple[program.Region, bool]]:
    """Yield the ranges that an op touches, and whether it writes them."""
    if isinstance(op, program.Copy):
        to_card = op.direction == "h2d"
        both = ((op.device, to_card), (op.host, not to_card))
        yield from ((region, writes) for region, writes in both if region is not None)
    elif isinstance(op, program.Kernel):
        yield from ((region, False) for region in op.reads)
        yield from ((region, True) for region in op.writes)


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

    def touch(self, op: int, region: program.Region, writes: bool, reader: int) -> list[int]:
        """Return the ops that must have ended before ``op`` reads or overwrites these bytes.

        A later op of the same ``reader`` takes the place of an earlier one.
        """
        start, end = region.offset, region.offset + region.bytes
        ranges = self._ranges(start, end)
        if not writes:
            for part in ranges:
                part.readers[reader] = op
            return [part.writer for part in ranges if part.writer != NEVER]
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


def earlier_ops(
    ops: Iterable[program.Op], buffers: Iterable[program.Buffer]
) -> Iterator[list[tuple[program.Region, bool, list[int]]]]:
    """Yield for each op its ranges, whether it writes them, and the earlier ops with which it shares bytes there.

    One of the two ops writes the bytes. An op that reads a range and writes it is among its own earlier ops.
    """
    histories = {buffer.name: History(buffer.bytes) for buffer in buffers}
    for i, op in enumerate(ops):
        found = []
        for region, writes in touched(op):
            earlier = histories[region.buffer].touch(i, region, writes, i)  # every reader counts
            found.append((region, writes, earlier))
        yield found


class _Checker:
    def __init__(self, schedule: program.Schedule) -> None:
        self._schedule, self._order, self._pageable = schedule, HappensBefore(schedule), schedule.pageable_names
        self._histories = {buffer.name: History(buffer.bytes) for buffer in schedule.buffers}
        self._records: dict[int, int] = {}  # by event: the op that recorded it last

    def run(self) -> Iterator[Finding]:
        for i, op in enumerate(self._schedule.ops):
            if isinstance(op, program.Copy | program.Kernel):
                yield from self._work(i, op)
                continue
            if isinstance(op, program.WaitEvent | program.Synchronize):
                yield from self._wait(i, op)
            self._order.call(op)
            if isinstance(op, program.RecordEvent):
                self._records[op.event] = i
        yield from self._unsynchronised()

    # Copies and kernels

    def _work(self, i: int, op: program.Copy | program.Kernel) -> Iterator[Finding]:
        stream, order = op.stream, self._order
        clock = order.now(stream, op.thread)
        racing = [earlier for earlier in self._earlier(i, op) if not self._is_behind(op, *earlier, clock)]
        for earlier in order.last_of({earlier for earlier, _ in racing}) if racing else ():
            kinds = {pageable for k, pageable in racing if k == earlier and not self._is_behind(op, k, pageable, clock)}
            if kinds:
                wait = MissingWait(earlier, i, host=True in kinds and self._is_staged(op))
                yield self._race(wait, kinds)
                if wait.host:
                    order.host_learns(op.thread, order.ended(earlier))
                clock = join(clock, order.ended(earlier))
        if self._is_staged(op):
            clock = order.with_read(i, op.thread, clock)
        order.start(i, stream, clock)
        if isinstance(op, program.Copy) and op.is_done_on_return(self._pageable):
            order.host_learns(op.thread, order.ended(i))

    def _earlier(self, i: int, op: program.Copy | program.Kernel) -> Iterator[tuple[int, bool]]:
        """Yield the ops that must have used the bytes before ``op`` touches them, and whether these are pageable."""
        for region, writes in touched(op):
            pageable = region.buffer in self._pageable
            reader = -1 - op.thread if pageable else op.stream  # a thread reads pageable memory in the order of calls
            for earlier in self._histories[region.buffer].touch(i, region, writes, reader):
                yield earlier, pageable

    def _is_behind(self, op: program.Copy | program.Kernel, earlier: int, pageable: bool, clock: Clock) -> bool:
        """Return True if ``op``, which has this clock, touches the bytes only after the earlier op has used them."""
        if pageable and self._is_staged(op):  # at once, whatever its stream does
            return self._order.host_waited_for(earlier, op.thread)
        if pageable and self._is_staged(self._schedule.ops[earlier]):
            return self._order.has_staged(earlier, clock)
        return self._order.has_ended(earlier, clock, op.stream)

    def _is_staged(self, op: program.Op) -> bool:
        """Return True if an op reads pageable memory, which it does while the thread makes the call."""
        return isinstance(op, program.Copy) and op.direction == "h2d" and op.uses_host(self._pageable)

    def _race(self, wait: MissingWait, kinds: set[bool]) -> Finding:
        """Return the race that ``wait`` would end. ``kinds``: whether the memory is pageable or not."""
        first, second = self._schedule.ops[wait.after], self._schedule.ops[wait.before]
        hazards = tuple(h for h in _hazards(first, second) if (h.buffer in self._pageable) in kinds)
        shown = [f"{h.kind} of bytes {h.offset}..{h.offset + h.bytes} of {h.buffer!r}" for h in hazards[:MOST_SHOWN]]
        if len(hazards) > MOST_SHOWN:
            shown.append(f"and {len(hazards) - MOST_SHOWN} more")
        what = f"{self._name(wait.before)} and {self._name(wait.after)} have no order: {', '.join(shown)}"
        where = f"in thread {second.thread} of the host" if wait.host else f"in stream {second.stream}"
        remedy = f"record an event in stream {first.stream} after ops[{wait.after}] and wait for it {where}"
        ops = (wait.after, wait.before)
        return Finding("race", ops, what, f"{remedy} before ops[{wait.before}]", hazards, wait)

    # Events and the host

    def _wait(self, i: int, op: program.WaitEvent | program.Synchronize) -> Iterator[Finding]:
        if op.event is not None and op.event not in self._records:
            what = f"{self._name(i)} waits for event {op.event}, which is not recorded before: it waits for nothing"
            yield Finding("unrecorded-event", (i,), what, f"record event {op.event} before it, or take it out")
            return
        makes_all_wait = op.stream == program.LEGACY_STREAM and "blocking" in self._schedule.streams
        if isinstance(op, program.WaitEvent) and not makes_all_wait and self._order.waits_in_vain(op):
            record = self._records[op.event]
            what = f"{self._name(i)} waits for event {op.event} as recorded by ops[{record}], but its stream"
            remedy = "take it out: it costs a call and changes nothing"
            yield Finding("redundant-wait", (i,), f"{what} is already behind that", remedy)

    def _unsynchronised(self) -> Iterator[Finding]:
        missing: dict[str, list[int]] = {}
        for i, op in enumerate(self._schedule.ops):
            if isinstance(op, program.Copy) and op.direction == "d2h" and not self._order.host_waited_for(i):
                missing.setdefault("memory of its own" if op.host is None else repr(op.host.buffer), []).append(i)
        for into, copies in missing.items():
            more = f" (nor for {len(copies) - 1} before it)" if len(copies) > 1 else ""
            what = f"the host never waits for {self._name(copies[-1])} into {into}{more}: it may read it too early"
            yield Finding("unsynchronised-output", tuple(copies), what, "synchronise after the last op")

    def _name(self, i: int) -> str:
        op = self._schedule.ops[i]
        if isinstance(op, program.Synchronize):
            return f"ops[{i}] (synchronise)"
        copied = f"{op.direction} copy" if isinstance(op, program.Copy) else "wait"
        return f"ops[{i}] ({f'kernel {op.name!r}' if isinstance(op, program.Kernel) else copied} in stream {op.stream})"


def _hazards(first: program.Op, second: program.Op) -> list[Hazard]:
    """Return where and how two ops clash, each once; what is read too early comes first."""
    found = set()
    for a, a_writes in touched(first):
        for b, b_writes in touched(second):
            start, end = max(a.offset, b.offset), min(a.offset + a.bytes, b.offset + b.bytes)
            if a.buffer == b.buffer and start < end and (a_writes or b_writes):
                kind = HAZARD_KINDS[0 if not b_writes else 1 + a_writes]
                found.add(Hazard(kind, a.buffer, start, end - start))
    return sorted(found, key=lambda h: (HAZARD_KINDS.index(h.kind), h.buffer, h.offset, h.bytes))
