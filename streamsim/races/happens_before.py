"""Which ops have surely ended when another starts: CUDA's order, for any number of threads of the host.

It needs no device. These laws, of what CUDA promises, are all of it:

1. A thread makes one call after another: a call begins when the one before it has returned.
2. What a call puts into a stream (a copy, a kernel, a record, a wait) starts after the call began, and after all that
   stands before it in the stream has ended. The order in a stream is that of the schedule, whichever thread calls.
3. The legacy default stream and the blocking streams also wait for each other, in the order of the schedule.
4. A wait also starts after the event's latest record before it, in the order of the schedule, has ended.
5. A call that synchronises returns after all that it waits for has ended. So does the call of a blocking copy, and of a
   copy into pageable memory. A wait for a thread returns after the calls of that thread before it have.
6. A copy from pageable memory reads that memory between its call and its return, whatever its stream does meanwhile.
   The copy ends after that. Its call may return before it ends, also that of ``cudaMemcpy`` (blocking in stream 0).
   Only a blocking copy in another stream, which synchronises that stream, returns after its end.

So a record or a wait hands on what the thread that called it knew: who comes after it, comes after that too.
"""

from collections.abc import Iterable
from functools import reduce

from streamsim.program import LEGACY_STREAM, CudaOrder, Op, RecordEvent, Schedule, Synchronize, WaitEvent, WaitThread

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

    def __init__(self, schedule: Schedule) -> None:
        width, threads = len(schedule.streams) + 1, sorted({op.thread for op in schedule.ops})
        nothing: Clock = (NEVER,) * (width + len(threads))
        self.stream_of = [op.stream or 0 for op in schedule.ops]
        self._ordinary = CudaOrder(schedule).ordinary  # refuses several cards
        self._lines = {thread: width + k for k, thread in enumerate(threads)}  # places in a clock
        self._ops, self._nothing = schedule.ops, nothing
        self._known = [nothing] * len(schedule.ops)  # by op, when it starts
        self._hosts = dict.fromkeys(threads, nothing)
        self._events: dict[int, Clock] = {}  # by event, of its latest record
        self._streams = [nothing] * width  # without the last op of the stream itself
        self._last = [NEVER] * width
        self._seen = [nothing] * width  # of the thread that called last: its clock, which the stream's has taken in
        self._callers: list[set[int]] = [set() for _ in range(width)]
        for op, stream in zip(schedule.ops, self.stream_of, strict=True):
            self._callers[stream].add(op.thread)

    # Clocks of streams and threads

    def now(self, stream: int, thread: int) -> Clock:
        """Return what has surely ended when an op that ``thread`` issues now in ``stream`` starts."""
        host = self._hosts[thread]
        if stream == LEGACY_STREAM:
            return join(self._behind(stream), host)
        if self._seen[stream] is not host:
            self._streams[stream], self._seen[stream] = join(self._streams[stream], host), host
        return self._streams[stream]

    def start(self, op: int, stream: int, clock: Clock) -> None:
        """Put ``op`` into ``stream`` behind what ``clock`` says."""
        self._known[op] = clock
        if stream == LEGACY_STREAM:
            self._set(stream, _put(clock, stream, op))
        else:
            self._streams[stream], self._last[stream] = clock, op

    def _behind(self, stream: int) -> Clock:
        """Return what has ended when all that is in ``stream`` has: of the legacy stream, in all that it waits for."""
        if stream != LEGACY_STREAM:
            return _put(self._streams[stream], stream, self._last[stream])
        return reduce(join, [_put(self._streams[one], one, self._last[one]) for one in self._ordinary])

    def _set(self, stream: int, clock: Clock) -> None:
        for behind in self._ordinary if stream == LEGACY_STREAM else (stream,):
            self._streams[behind] = clock

    def host_waits(self, thread: int, ops: Iterable[int]) -> None:
        """Let the thread go on when ``ops`` have ended."""
        for op in ops:
            self.host_learns(thread, self.ended(op))

    def host_learns(self, thread: int, clock: Clock) -> None:
        """Let the thread know what ``clock`` says as well."""
        self._hosts[thread] = join(self._hosts[thread], clock)

    def with_read(self, op: int, thread: int, clock: Clock) -> Clock:
        """Return the ``clock`` of ``op`` once ``thread``'s call has read its pageable memory and returns."""
        line = self._lines[thread]
        self._hosts[thread] = _put(self._hosts[thread], line, op)
        return _put(clock, line, op)

    # Events, and calls that wait

    def call(self, op: Op) -> None:
        """Record an event, or wait: a stream or the host. A thread that waits for another one knows what that knows."""
        if isinstance(op, RecordEvent):
            self._events[op.event] = self._called(op.stream, op.thread, self._nothing)
        elif isinstance(op, WaitEvent):
            self._called(op.stream, op.thread, self.recorded(op.event))
        elif isinstance(op, Synchronize):
            self.host_learns(op.thread, self._awaited(op))
        elif isinstance(op, WaitThread):
            self.host_learns(op.thread, self._hosts.get(op.other, self._nothing))

    def _called(self, stream: int, thread: int, more: Clock) -> Clock:
        """Put ``stream`` behind ``more`` and behind what ``thread`` knows, and return what it is behind then."""
        clock = join(join(self._behind(stream), self._hosts[thread]), more)
        self._set(stream, clock)
        return clock

    def _awaited(self, sync: Synchronize) -> Clock:
        if sync.event is not None:
            return self.recorded(sync.event)
        if sync.stream is not None:
            return self._behind(sync.stream)
        return reduce(join, [_put(clock, one, self._last[one]) for one, clock in enumerate(self._streams)])

    def recorded(self, event: int) -> Clock:
        """Return what has ended when the event's latest record is complete."""
        return self._events.get(event, self._nothing)

    def waits_in_vain(self, wait: WaitEvent) -> bool:
        """Return True if the next op of the stream comes after what the event stands for without the wait, too.

        If several threads issue ops in the stream, whichever of them the next one is from.
        """
        among = self._ordinary if wait.stream in self._ordinary else [wait.stream]
        stream, host = self._behind(wait.stream), self._hosts[wait.thread]
        known = join(stream, host)
        without = known if len(set().union(*(self._callers[one] for one in among))) <= 1 else stream
        return join(known, self.recorded(wait.event)) == without

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
