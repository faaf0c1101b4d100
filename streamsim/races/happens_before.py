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

# For every stream the last op in it that has surely ended, or NEVER: that op and all before it in the stream. With
# several threads also for every thread the last of its copies that has surely read its pageable memory.
Clock = tuple[int, ...]


def _put(clock: Clock, stream: int, op: int) -> Clock:
    """Return ``clock`` once ``op`` of ``stream`` has ended too."""
    return (*clock[:stream], op, *clock[stream + 1 :])


def _join(a: Clock, b: Clock) -> Clock:
    """Return what has ended by either; one of the two if that is all."""
    if a is b:
        return a
    joined = tuple(map(max, a, b))
    return a if joined == a else b if joined == b else joined


class HappensBefore:
    """The ops that have surely ended when the next one starts. It gets the calls in the order of the schedule.

    An op's clock leaves out its own stream, where the order is that of issue; ops with nothing new to wait for
    then share one clock, and a clock costs time only where streams or the host wait for each other.
    ``has_threads``: several threads issue ops. What one of them knows, others need not. ``stream_of``: of each op.
    """

    def __init__(self, schedule: Schedule) -> None:
        width, threads = len(schedule.streams) + 1, sorted({op.thread for op in schedule.ops})
        self.has_threads = len(threads) > 1
        self.streams = CudaOrder(schedule)
        self._lines = {thread: width + k for k, thread in enumerate(threads)}  # by thread: what it reads when it calls
        self.nothing: Clock = (NEVER,) * (width + len(threads) * self.has_threads)
        self._hosts: dict[int, Clock] = {}  # by thread of the host: what it knows to have ended
        self.stream_of = [op.stream or 0 for op in schedule.ops]
        self._thread_of = [op.thread for op in schedule.ops]
        self._known = [self.nothing] * len(schedule.ops)
        # Of every stream: its last ops and the thread's clock when it was last asked for, and the clock it had then.
        self._last: list[tuple[tuple[int, ...], Clock, Clock]] = [((), self.nothing, self.nothing)] * width
        # With several threads, what those knew that called records and waits: of each stream's so far, by event.
        self._carried = [self.nothing] * width
        self._recorded: dict[int, Clock] = {}
        self._callers: list[set[int]] = [set() for _ in range(width)]  # by stream
        for op in schedule.ops if self.has_threads else ():
            if op.stream is not None:
                self._callers[op.stream].add(op.thread)

    def now(self, stream: int, thread: int) -> Clock:
        """Return what has surely ended when an op that ``thread`` issues now in ``stream`` starts."""
        before, own = self.streams.before(stream), self._called(stream, thread)
        seen, host, clock = self._last[stream]
        if before != seen or host is not own:
            clock = self.after(clock if host is own else own, before)
            self._last[stream] = before, own, clock
        return clock

    def start(self, op: int, stream: int, thread: int, clock: Clock) -> None:
        """Put ``op``, which ``thread`` issues, into ``stream`` behind what ``clock`` says."""
        self._known[op] = clock
        self.streams.append(stream, op)
        self._last[stream] = (op,), self._called(stream, thread), clock

    def with_read(self, op: int, thread: int, clock: Clock) -> Clock:
        """Return the ``clock`` of ``op`` once ``thread``'s call has read its pageable memory and returns."""
        line = self._lines[thread]
        self._hosts[thread] = _put(self.host(thread), line, op)
        return _put(clock, line, op)

    def host(self, thread: int) -> Clock:
        """Return what ``thread`` knows to have ended when it makes its next call."""
        return self._hosts.get(thread, self.nothing)

    def _called(self, stream: int, thread: int) -> Clock:
        """Return what those knew that made the calls for ``stream`` up to the next one, which ``thread`` makes."""
        if not self.has_threads:
            return self.host(thread)  # it knew no more before
        return _join(self.host(thread), self._carried_in(stream))

    def _carried_in(self, stream: int) -> Clock:
        if stream != LEGACY_STREAM:
            return self._carried[stream]
        return reduce(_join, [self._carried[ordinary] for ordinary in self.streams.ordinary])

    def _carry(self, stream: int, clock: Clock) -> None:
        for behind in self.streams.ordinary if stream == LEGACY_STREAM else (stream,):
            self._carried[behind] = clock

    def record(self, stream: int, event: int, thread: int) -> tuple[int, ...]:
        """Record ``event`` and return the ops whose end completes it, which ``thread`` records now."""
        completes = self.streams.record(stream, event)
        if self.has_threads:
            self._recorded[event] = self._called(stream, thread)
            self._carry(stream, self._recorded[event])
        return completes

    def wait(self, stream: int, event: int, thread: int) -> None:
        """Put the stream behind the event's latest record, by a call of ``thread``."""
        self.streams.wait(stream, event)
        if self.has_threads:
            self._carry(stream, _join(self._called(stream, thread), self.handed_on(event)))

    def handed_on(self, event: int) -> Clock:
        """Return what is known by the event's latest record beside the ops that complete it."""
        return self._recorded.get(event, self.nothing)

    def waits_in_vain(self, stream: int, event: int, thread: int, completes: Iterable[int]) -> bool:
        """Return True if the next op of the stream comes after what the event stands for without a wait for it too.

        Where several threads issue ops in the stream, whichever of them the next one is from.
        """
        adds = self.handed_on(event)
        if len(self._users(stream)) <= 1:
            clock = self.now(stream, thread)
        else:
            adds = _join(adds, self.host(thread))
            clock = self.after(self._carried_in(stream), self.streams.before(stream))
        if not all(self.has_ended(op, clock, stream) for op in completes):
            return False
        clock = _put(clock, stream, len(self._known))  # its own order is that of issue
        return _join(adds, clock) == clock

    def _users(self, stream: int) -> set[int]:
        """Return the threads whose ops come behind what is in the stream, by the stream alone."""
        ordinary = self.streams.ordinary
        return set().union(*(self._callers[s] for s in ordinary)) if stream in ordinary else self._callers[stream]

    def synchronize(self, sync: Synchronize) -> None:
        """Let the calling thread go on when what it waits for has ended."""
        self.host_waits(sync.thread, self.streams.awaited(sync))
        if self.has_threads:
            if sync.event is not None:
                known = self.handed_on(sync.event)
            elif sync.stream is not None:
                known = self._carried_in(sync.stream)
            else:
                known = reduce(_join, self._carried)
            self.host_learns(sync.thread, known)

    def host_waits(self, thread: int, ops: Iterable[int]) -> None:
        """Let the thread go on when ``ops`` have ended."""
        self._hosts[thread] = self.after(self.host(thread), ops)

    def host_learns(self, thread: int, clock: Clock) -> None:
        """Let the thread know what ``clock`` says as well."""
        self._hosts[thread] = _join(self.host(thread), clock)

    def call(self, op: Op) -> None:
        """Record an event, or wait: a stream or the host. A thread that waits for another one knows what that knows."""
        if isinstance(op, RecordEvent):
            self.record(op.stream, op.event, op.thread)
        elif isinstance(op, WaitEvent):
            self.wait(op.stream, op.event, op.thread)
        elif isinstance(op, Synchronize):
            self.synchronize(op)
        elif isinstance(op, WaitThread):
            self.host_learns(op.thread, self.host(op.other))

    def after(self, clock: Clock, ops: Iterable[int]) -> Clock:
        """Return ``clock`` once ``ops`` have ended too, and with them what they came after."""
        for op in sorted(ops, reverse=True):  # a later one may have come after the others
            stream = self.stream_of[op]
            if clock[stream] < op:
                clock = _put(_join(clock, self._known[op]), stream, op)
        return clock

    def after_event(self, clock: Clock, event: int) -> Clock:
        """Return ``clock`` once what the event's latest record hands on is known too."""
        return _join(clock, self.handed_on(event))

    def last_before(self, op: int, stream: int) -> int:
        """Return the last op of ``stream`` that has surely ended when ``op`` starts, or NEVER."""
        return op - 1 if self.stream_of[op] == stream else self._known[op][stream]

    def has_ended(self, op: int, clock: Clock, stream: int | None) -> bool:
        """Return True if ``op`` has ended by ``clock`` of a later op in ``stream`` (None: of the host)."""
        of = self.stream_of[op]
        return of == stream or clock[of] >= op

    def has_staged(self, op: int, clock: Clock) -> bool:
        """Return True if ``op``, a copy from pageable memory, has read that memory by ``clock``."""
        return clock[self._lines[self._thread_of[op]]] >= op

    def host_waited_for(self, op: int) -> bool:
        """Return True if a thread of the host has waited until ``op`` ended."""
        return any(clock[self.stream_of[op]] >= op for clock in self._hosts.values())

    def last_of(self, ops: Iterable[int]) -> list[int]:
        """Return those of ``ops``, in order of issue, that none of the others comes after."""
        latest = sorted({self.stream_of[op]: op for op in sorted(ops)}.values())
        return [
            op
            for k, op in enumerate(latest)
            if not any(self.has_ended(op, self._known[later], self.stream_of[later]) for later in latest[k + 1 :])
        ]
