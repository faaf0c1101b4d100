"""Races by brute force: a graph of what must come before what, and every pair of ops that no path connects."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import strategies as card

from streamsim import program
from streamsim.races import Finding

Clash = tuple[str, str, int, int]  # kind, buffer, first byte, byte after the last


# -- the second opinion -----------------------------------------------------------------------------------------------


class Graph:
    """Five nodes for op i, in an order in which every edge goes forward.

    Its call, its start, when it has read its pageable memory, its end, and its return.
    ``behind[n]``: the nodes that surely lie behind node n, as bits. ``more``: edges on top of CUDA's.
    """

    def __init__(self, schedule: program.Schedule, more: Iterable[tuple[int, int]] = ()) -> None:
        self.schedule = schedule
        into: list[set[int]] = [set() for _ in range(NODES * len(schedule) + 1)]
        latest: dict[int, int] = {}  # call of each thread
        for i, op in enumerate(schedule):
            into[returns(i)].add(call(i))
            if op.thread in latest:
                into[call(i)].add(returns(latest[op.thread]))
            if isinstance(op, program.WaitThread) and op.other in latest:
                into[returns(i)].add(returns(latest[op.other]))
            latest[op.thread] = i
            if isinstance(op, program.Synchronize):
                into[returns(i)] |= {end(j) for j in range(i) if self._is_awaited(j, i, op)}
            if isinstance(op, program.Copy | program.Kernel | program.RecordEvent | program.WaitEvent):
                self._put(into, i, op)
        into[call(len(schedule))] = {returns(i) for i in latest.values()}
        for a, b in more:
            into[b].add(a)
        self.behind = [0] * len(into)
        for node, nodes in enumerate(into):
            for other in nodes:
                assert other < node
                self.behind[node] |= self.behind[other] | 1 << other

    def _put(
        self, into: list[set[int]], i: int, op: program.Copy | program.Kernel | program.RecordEvent | program.WaitEvent
    ) -> None:
        """What the command that ``op`` puts into its stream comes behind, and what its call waits for."""
        into[start(i)] |= {call(i)} | {end(j) for j in range(i) if self._are_in_order(j, op.stream)}
        into[staged(i)].add(call(i))
        into[end(i)].add(start(i))
        if self.is_staged(op):
            into[end(i)].add(staged(i))
            into[returns(i)].add(staged(i))
        if isinstance(op, program.WaitEvent):
            into[start(i)] |= {end(j) for j in self.latest_record(op.event, i)}
        if isinstance(op, program.Copy) and self._is_done_on_return(op):
            into[returns(i)].add(end(i))

    def _are_in_order(self, j: int, stream: int) -> bool:
        """Whether op j holds back a later command of the stream: the same, or one legacy and the other no exception."""
        other = self.schedule.ops[j].stream
        if isinstance(self.schedule.ops[j], program.Synchronize) or other is None:
            return False
        ordinary = [0, *(s for s, kind in enumerate(self.schedule.streams, 1) if kind == "blocking")]
        return other == stream or (0 in (other, stream) and other in ordinary and stream in ordinary)

    def callers(self, stream: int) -> set[int]:
        """The threads that have ops behind which, or before which, those of the stream stand by the stream alone."""
        ordinary = {0, *(s for s, kind in enumerate(self.schedule.streams, 1) if kind == "blocking")}
        streams = ordinary if stream in ordinary else {stream}
        return {op.thread for op in self.schedule if op.stream in streams}

    def latest_record(self, event: int, before: int) -> list[int]:
        ops = self.schedule.ops[:before]
        return [j for j, op in enumerate(ops) if isinstance(op, program.RecordEvent) and op.event == event][-1:]

    def _is_awaited(self, j: int, i: int, sync: program.Synchronize) -> bool:
        if sync.event is not None:
            return j in self.latest_record(sync.event, i)
        if sync.stream is not None:
            return self._are_in_order(j, sync.stream)
        return isinstance(self.schedule.ops[j], program.Copy | program.Kernel | program.RecordEvent | program.WaitEvent)

    def is_pageable(self, op: program.Copy) -> bool:
        return op.host is not None and op.host.buffer in self.schedule.pageable_names

    def is_staged(self, op: program.Op) -> bool:
        """Whether the call reads pageable memory, whatever the stream does."""
        return isinstance(op, program.Copy) and self.is_pageable(op) and op.direction == "h2d"

    def _is_done_on_return(self, op: program.Copy) -> bool:
        if self.is_staged(op):
            return op.blocking and op.stream != 0  # staged otherwise; cudaMemcpy (stream 0) promises no more
        return op.blocking or self.is_pageable(op)

    def is_behind(self, node: int, other: int) -> bool:
        """Whether ``node`` surely comes before ``other``, or is the same moment."""
        return node == other or bool(self.behind[other] >> node & 1)

    def accesses(self, i: int) -> list[tuple[program.Region, bool, int, int]]:
        """Of op i: bytes, whether it writes them, the node from which and the one until which it touches them."""
        op, span = self.schedule.ops[i], (start(i), end(i))
        if isinstance(op, program.Kernel):
            return [*((r, False, *span) for r in op.reads), *((w, True, *span) for w in op.writes)]
        found = []
        if isinstance(op, program.Copy):
            if op.device is not None:
                found.append((op.device, op.direction == "h2d", *span))
            if op.host is not None:
                found.append((op.host, op.direction == "d2h", *((call(i), staged(i)) if self.is_staged(op) else span)))
        return found

    def clashes(self, i: int, j: int) -> set[Clash]:
        """Where the ops i < j touch the same bytes in no order, one of them writing."""
        found = set()
        for (a, a_writes, _, until), (b, b_writes, since, _) in product(self.accesses(i), self.accesses(j)):
            shared = set(range(a.offset, a.offset + a.bytes)) & set(range(b.offset, b.offset + b.bytes))
            if a.buffer == b.buffer and shared and (a_writes or b_writes) and not self.is_behind(until, since):
                kind = f"{'write' if b_writes else 'read'}-after-{'write' if a_writes else 'read'}"
                found.add((kind, a.buffer, min(shared), max(shared) + 1))
        return found

    def works_behind(self, node: int) -> set[int]:
        works = (i for i, op in enumerate(self.schedule) if isinstance(op, program.Copy | program.Kernel))
        return {i for i in works if self.is_behind(end(i), node)}

    def done_by(self, node: int) -> set[int]:
        """The nodes before this one at which an op has done with some memory."""
        works = [i for i, op in enumerate(self.schedule) if isinstance(op, program.Copy | program.Kernel)]
        return {n for i in works for n in (staged(i), end(i)) if self.is_behind(n, node)}


NODES = 5


def call(i: int) -> int:
    return NODES * i


def start(i: int) -> int:
    return NODES * i + 1


def staged(i: int) -> int:
    return NODES * i + 2


def end(i: int) -> int:
    return NODES * i + 3


def returns(i: int) -> int:
    return NODES * i + 4


def races(schedule: program.Schedule) -> dict[tuple[int, int], set[Clash]]:
    """Every pair of ops that race, plainly."""
    graph = Graph(schedule)
    pairs = ((i, j) for j in range(len(schedule)) for i in range(j))
    return {pair: clashes for pair in pairs if (clashes := graph.clashes(*pair))}


def reported(schedule: program.Schedule) -> tuple[dict[tuple[int, int], set[Clash]], Graph]:
    """The races that ought to be reported, and the order with what is missing put in.

    Op by op: of those that race with it the ones with no other of them behind them, which are then given their order
    one by one, by an event that is there or by a new one.
    """
    found: dict[tuple[int, int], set[Clash]] = {}
    more: list[tuple[int, int]] = []
    graph = Graph(schedule)
    for j in range(len(schedule)):
        racing = [i for i in range(j) if graph.clashes(i, j)]
        last = [i for i in racing if not any(i != k and graph.is_behind(end(i), start(k)) for k in racing)]
        for i in last:
            if clashes := graph.clashes(i, j):
                found[i, j] = clashes
                at_call = graph.is_staged(schedule.ops[j]) and any(c[1] in schedule.pageable_names for c in clashes)
                more.append((end(event_after(graph, i, j)), call(j) if at_call else start(j)))
                graph = Graph(schedule, more)
    return found, graph


def event_after(graph: Graph, i: int, j: int) -> int:
    """The op for which j should wait to come after i: the first record behind it in the same chunk, or i itself."""
    ops = graph.schedule.ops
    same_stream = [
        k for k in range(i + 1, j) if ops[k].stream == ops[i].stream and not isinstance(ops[k], program.Synchronize)
    ]
    for k in same_stream:
        op = ops[k]
        if isinstance(op, program.Copy) and op.direction == "h2d":
            return i
        if isinstance(op, program.RecordEvent):
            return k if graph.latest_record(op.event, j) == [k] else i
    return i


def redundant(graph: Graph) -> set[int]:
    """The waits that the next op of their stream, by any thread that has ops there, does not need to be where it is."""
    found = set()
    schedule = graph.schedule
    for i, op in enumerate(schedule):
        if not isinstance(op, program.WaitEvent) or (op.stream == 0 and "blocking" in schedule.streams):
            continue
        record = graph.latest_record(op.event, i)
        without = set().union(*(graph.done_by(end(j)) for j in range(i) if graph._are_in_order(j, op.stream)))
        brings = graph.done_by(end(record[0])) if record else set()
        if len(graph.callers(op.stream)) == 1:  # it knows what this one knows
            without |= graph.done_by(call(i))
        else:
            brings |= graph.done_by(call(i))
        if record and brings <= without:
            found.add(i)
    return found


def of_rule(findings: Iterable[Finding], rule: str) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


# -- by hand ----------------------------------------------------------------------------------------------------------

HOST, OTHER, ON_CARD = program.Region("h", 0, 16), program.Region("o", 0, 16), program.Region("d", 0, 16)
BUFFERS = (
    program.Buffer("h", 64, "pinned"),
    program.Buffer("o", 64, "pinned"),
    program.Buffer("p", 64, "pageable"),
    program.Buffer("d", 64, "device"),
)


def plan(*ops: program.Op, **more: Any) -> program.Schedule:
    return card.plan(*ops, buffers=BUFFERS, **more)


def into(
    stream: int, host: program.Region | None = HOST, device: program.Region = ON_CARD, **more: Any
) -> program.Copy:
    return card.h2d(stream, device.bytes, host=host, device=device, **more)


def work(
    stream: int, reads: tuple[program.Region, ...] = (), writes: tuple[program.Region, ...] = ()
) -> program.Kernel:
    return card.kernel(stream, 8, reads=reads, writes=writes)
