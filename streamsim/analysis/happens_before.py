"""Which ops have surely ended when another starts: CUDA's order, as the host issues ops one by one.

It needs no device: it follows from streams, events, the legacy default stream and what the host waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim.analysis.touched_bytes import NEVER
from streamsim.program.cuda_order import StreamOrder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamsim.program.schedule import Schedule

# For every stream the last op in it that has surely ended, or NEVER: that op and all before it in the stream.
Clock = tuple[Any, ...]  # a tree of tuples: see _Clocks
NODE_BITS = 6  # of a stream's number, that choose among the parts of a node


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


class HappensBefore:
    """Which ops have surely ended when the next one starts, as the host issues them one by one.

    An op's clock leaves out its own stream, where the order is that of issue; ops with nothing new to wait for
    then share one clock, and a clock costs time only where streams or the host wait for each other.
    """

    def __init__(self, schedule: Schedule) -> None:
        width = len(schedule.streams) + 1
        self.streams = StreamOrder(schedule)
        self._clocks = _Clocks(width)
        self.nothing = self._clocks.nothing
        self._hosts: dict[int, Clock] = {}  # by thread of the host: what it knows to have ended
        self._stream_of = [op.stream or 0 for op in schedule.ops]
        self._known = [self.nothing] * len(schedule.ops)
        # Of every stream: its last ops and the thread's clock when it was last asked for, and the clock it had then.
        self._last: list[tuple[tuple[int, ...], Clock, Clock]] = [((), self.nothing, self.nothing)] * width

    def now(self, stream: int, thread: int) -> Clock:
        """What has surely ended when an op that ``thread`` issues now in ``stream`` starts."""
        before, own = self.streams.before(stream), self._host(thread)
        seen, host, clock = self._last[stream]
        if before != seen or host is not own:
            clock = self.after(clock if host is own else own, before)
            self._last[stream] = before, own, clock
        return clock

    def start(self, op: int, stream: int, thread: int, clock: Clock) -> None:
        """Put ``op``, which ``thread`` issues, into ``stream`` behind what ``clock`` says."""
        self._known[op] = clock
        self.streams.append(stream, op)
        self._last[stream] = (op,), self._host(thread), clock

    def _host(self, thread: int) -> Clock:
        return self._hosts.get(thread, self.nothing)

    def host_waits(self, thread: int, ops: Iterable[int]) -> None:
        """The thread goes on when ``ops`` have ended."""
        self._hosts[thread] = self.after(self._host(thread), ops)

    def thread_waits(self, thread: int, other: int) -> None:
        """The thread goes on when all calls of another one so far have returned: it knows what that one knows."""
        self._hosts[thread] = self._clocks.join(self._host(thread), self._host(other))

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
        """Whether a thread of the host has waited until ``op`` ended."""
        return any(self._clocks.at(clock, self._stream_of[op]) >= op for clock in self._hosts.values())

    def last_of(self, ops: Iterable[int]) -> list[int]:
        """Those of ``ops``, in order of issue, that none of the others comes after."""
        latest = sorted({self._stream_of[op]: op for op in sorted(ops)}.values())
        return [
            op
            for k, op in enumerate(latest)
            if not any(self.has_ended(op, self._known[later], self._stream_of[later]) for later in latest[k + 1 :])
        ]
