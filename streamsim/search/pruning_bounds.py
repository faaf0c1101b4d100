"""A lower bound on the makespan of a :class:`Config` from a few sums, without building its schedule.

A search is exact because the bound is never above the model's makespan. Every chunk is a chain in one stream: its
copies in, its kernels, its copies out. Each takes at least its time alone, after the one before it. If an op takes
longer than all calls until that of the next op, a hand-over lies between them: the next op comes to the card while the
first one runs. No op starts before its host call has returned and ``submit`` has passed. The calls are made one after
another. Let ``chain`` of some ops of one chunk be their times alone and the hand-overs between them. Then, with minima
over the chunks (which come in few sizes), in every order in which the engines may choose:

engine   Its first op to start is the first op on it of some chunk. It starts no earlier than ``head``: the first such
         call in issue order, and the chain of that chunk before it. Its last op to work is the last op on it of some
         chunk. Behind it comes ``tail``: its drain and the rest of its chain. All of the engine's work lies between:
         makespan >= head + work + tail. The work of a kernel is its time less its drain. Kernels side by side take at
         least the area (work x share of the card) that they fill, and at least 1/n of their work if n run at once.
link     Two directions that slow each other down take at least ``bounds.duplex_bound``, in the window from the head of
         the copies in. The tail of the copies in, and the later head of the copies out, are times in which that
         direction moves nothing.
host     An op of the last chunk starts no earlier than all calls up to its own. The chain from it on follows. The
         host's own work for a chunk comes before the calls for it.
stream   The chunks i, i + S, i + 2 S, ... run in one stream: the sum of their chains, and the hand-overs between them.
         In a ring of K buffers, chunk i waits for chunk i - K, in the same stream or by an event: the same bound with K
         in place of S. In a prefetching program a chunk goes from stream to stream, and this bound is left out.

Arrays that are copied once are more work for their engine. With them the engine may start as the host begins, and end
with them. If some chunks have nothing of an array, the bound is only the engines' work.

Other effects only make ops start or end later: duplex latencies, crowds, slower first calls of a stream or a kernel,
changes from one kind of call to another, arbitration, waits of the host, and the delayed signals of old cards. All
numbers are whole ticks, rounded as the model rounds them. All bounds except the last do not depend on the number of
streams, and are computed once for each cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from streamsim.analysis import Flow, duplex_bound
from streamsim.device import Device
from streamsim.lowering import (
    D2H,
    ENGINES,
    H2D,
    KERNEL,
    NOT_AN_ENGINE,
    Calls,
    ChunkCosts,
    OpCost,
    call_ticks,
    hand_over_table,
    kernel_call,
    kinds_of,
    surcharges_of,
)
from streamsim.program import (
    LAUNCHES,
    Config,
    Copy,
    Issue,
    Launch,
    Loop,
    Part,
    Pass,
    Prepare,
    Record,
    RecordEvent,
    Stage,
    Step,
    Synchronize,
    WaitEvent,
    Workload,
    loop_of,
    stages_of,
)
from streamsim.rules import FULL_CARD, NEVER, crossing, ticks

KIND_OF_STAGE: dict[Stage, int] = {"copy in": H2D, "run": KERNEL, "copy out": D2H}


class _Size(NamedTuple):
    """Chunks of one size.

    - ``many``: the number of chunks; ``work``: ticks of the host's own work before each of them.
    - ``ops``: the ops of a chunk; ``before``, ``onwards``: of each, the ticks of its chain before it and from it on.
    - ``between``: ticks of the hand-overs from stage to stage in the chain.
    """

    many: int
    work: int
    ops: tuple[OpCost, ...]
    before: tuple[int, ...]
    onwards: tuple[int, ...]
    between: int


class _Cut(NamedTuple):
    """A workload in ``chunks`` chunks of few ``sizes``, in the order of the chunks.

    - ``kinds``: the kinds of a chunk's ops; ``once``: the copies that are made once, by kind.
    - ``has_gaps``: True if some chunks lack some of the ops.
    - ``calls_between``: the most ticks of the host between the calls for an op and for the next op of its chunk.
    """

    chunks: int
    sizes: tuple[_Size, ...]
    kinds: tuple[int, ...]
    once: dict[int, list[OpCost]]
    has_gaps: bool
    calls_between: int

    @property
    def work(self) -> int:
        """The ticks of the host's own work before all chunks together."""
        return sum(size.many * size.work for size in self.sizes)


class LowerBounds:
    """Lower bounds for the configurations of ``workload`` on ``device``; see the top of this file.

    Raises InputError if the device has no cost for a kernel of the workload.
    """

    def __init__(self, workload: Workload, device: Device) -> None:
        self._workload, self._device = workload, device
        self._hand_over = hand_over_table(device.hand_over)
        self._event = ticks(device.hand_over.event_s)
        self._engine_of = ENGINES[device.copy_engines.count][1]
        self._most = device.compute.concurrent_kernels
        self._kinds = kinds = kinds_of(workload)
        self._stages = stages_of(workload)
        calls = {launch: call_ticks(launch, device) for launch in LAUNCHES}
        self._calls = calls["live"]  # what a call costs is no part of a chunk's chain
        self._most_calls = {
            launch: _most_calls(workload, len(kinds), launch, device, of) for launch, of in calls.items()
        }
        launched = [kernel.name for kernel in workload.kernels for _ in range(kernel.launches)]
        self.call_ticks = {launch: _stage_calls(kinds, launched, of) for launch, of in calls.items()}
        self.event_ticks = {launch: (of[RecordEvent], of[WaitEvent]) for launch, of in calls.items()}
        self.submit_ticks = ticks(device.host.submit_s)
        self.launch_ticks = {"live": 0, "graph": ticks(device.host.graph_launch_s)}
        self._cuts: dict[tuple[object, ...], _Cut] = {}
        self._common: dict[tuple[object, ...], tuple[int, int]] = {}
        self._in_chunks: dict[int, LowerBounds] = {}  # where launches belong to items

    def __call__(self, config: Config) -> int:
        """Return a lower bound on the makespan of ``config``, in ticks."""
        if (workload := self._workload.in_chunks(config.chunks)) is not self._workload:
            if config.chunks not in self._in_chunks:
                self._in_chunks[config.chunks] = LowerBounds(workload, self._device)
            return self._in_chunks[config.chunks](config)
        loop = loop_of(config.order, config.buffers is not None, self._stages)
        cut = self._cut(config, loop)
        if cut.has_gaps or not cut.kinds:
            engines = [self._work(cut, engine) for engine in set(self._engine_of) - {NOT_AN_ENGINE}]
            return max(engines + [cut.work] * bool(cut.kinds))  # every chunk has something to issue
        across = config.hands_buffers_over
        slots = config.slots if across or loop.roles else None
        key = (config.order, config.chunks, slots, config.memory, config.launch)
        common = self._common.get(key)
        if common is None:
            common = self._common[key] = self._of_cut(cut, config, loop)
        bound, start = common
        if loop.roles:
            return bound
        chain = self._stream(cut, config.streams, self._again(cut, loop, config.streams, 0))
        if config.slots is not None:
            event = self._event if across and config.launch == "live" else 0
            chain = max(chain, self._stream(cut, config.slots, self._again(cut, loop, config.slots, event)))
        return max(bound, start + chain)

    def _of_cut(self, cut: _Cut, config: Config, loop: Loop) -> tuple[int, int]:
        """Return the largest of the engines', link's and host's bounds, and the tick when the first op can start."""
        calls = _Calls(self, cut, config, loop)
        bounds = [at + onwards for at, onwards in zip(calls.last, cut.sizes[-1].onwards, strict=True)]
        bounds += [self._engine(cut, calls, engine) for engine in set(self._engine_of) - {NOT_AN_ENGINE}]
        if self._device.copy_engines.count == 2 and {H2D, D2H} <= set(cut.kinds):
            bounds.append(self._link(cut, calls))
        return max(bounds), calls.first[0]

    def _engine(self, cut: _Cut, calls: _Calls, engine: int) -> int:
        own = self._own(cut, engine)
        if not own:
            return self._work(cut, engine)
        head, tail = calls.head(own[0]), _tail(cut, own[-1])
        if self._copied_once(cut, engine):
            head, tail = min(head, calls.begins), 0
        return head + self._work(cut, engine) + tail

    def _own(self, cut: _Cut, engine: int) -> list[int]:
        """Return the numbers of a chunk's ops that an engine runs."""
        return [k for k, kind in enumerate(cut.kinds) if self._engine_of[kind] == engine]

    def _copied_once(self, cut: _Cut, engine: int) -> list[OpCost]:
        return [op for kind, ops in cut.once.items() if self._engine_of[kind] == engine for op in ops]

    def _work(self, cut: _Cut, engine: int) -> int:
        """Return the ticks of an engine's work, without waits."""
        own = self._own(cut, engine)
        once = sum(op.busy for op in self._copied_once(cut, engine))
        one_by_one = sum(size.many * size.ops[k].busy for size in cut.sizes for k in own)
        if self._most > 1 and all(cut.kinds[k] == KERNEL for k in own):
            area = sum(size.many * size.ops[k].busy * size.ops[k].fill for size in cut.sizes for k in own)
            return once + max(-(-area // FULL_CARD), -(-one_by_one // self._most))
        return once + one_by_one

    def _link(self, cut: _Cut, calls: _Calls) -> int:
        there, back = ([k for k, kind in enumerate(cut.kinds) if kind == one] for one in (H2D, D2H))
        head = calls.head(there[0])
        idle = (_tail(cut, there[-1]), calls.head(back[0]) - head)
        flows = (_flow(cut, own, more) for own, more in zip((there, back), idle, strict=True))
        return head + math.floor(duplex_bound(*flows))

    def _stream(self, cut: _Cut, every: int, again: int) -> int:
        """Return the ticks of chunks 0, ``every``, 2 ``every``, ... in turn, and ``again`` between two of them."""
        total = first = chunks = 0
        for size in cut.sizes:
            chunks += size.many
            upto = -(-chunks // every)
            total += (upto - first) * size.onwards[0]  # so many of them are of this size
            first = upto
        return total + (first - 1) * again

    def _again(self, cut: _Cut, loop: Loop, every: int, event: int) -> int:
        """Return the ticks of hand-overs that one more chunk, ``every`` chunks later, adds to those in its chain.

        Depth-first, the hand-over is that from its last op to the next chunk's first op. Breadth-first, a stage of one
        chunk follows the same stage of another, and the hand-overs from stage to stage come only once.
        """
        if not loop.is_by_chunk:
            shortest = dict[int, int]()
            for size in cut.sizes:
                for kind, op in zip(cut.kinds, size.ops, strict=True):
                    shortest[kind] = min(op.duration, shortest.get(kind, op.duration))
            waits = sum(self._crossing(kind, kind) for kind, least in shortest.items() if least > cut.calls_between)
            return waits - max(size.between for size in cut.sizes)
        calls = every * (cut.calls_between + max(size.work for size in cut.sizes))
        waits = min(size.ops[-1].duration for size in cut.sizes) > calls
        return (self._crossing(cut.kinds[-1], cut.kinds[0]) + event) * waits

    def _crossing(self, before: int, after: int) -> int:
        """Return the ticks of the hand-over from an op to the next op of its stream, by their kinds."""
        return crossing(self._hand_over, before, after, 0)

    def _cut(self, config: Config, loop: Loop) -> _Cut:
        most = self._calls_between(config, loop)
        key = config.chunks, config.memory, config.launch, most
        cut = self._cuts.get(key)
        if cut is None:
            costs = ChunkCosts(self._workload, self._device, self._calls, config.is_pageable)
            parts = self._workload.cut(config.chunks)
            in_graph = config.launch == "graph"
            sizes = tuple(self._size(part, _least_ops(costs, part, in_graph), most) for part in parts)
            once = {kind: [shape for shape in costs.once() if shape.kind == kind] for kind in (H2D, D2H)}
            gaps = not all(all(part.inputs + part.outputs) for part in parts)
            cut = self._cuts[key] = _Cut(config.chunks, sizes, self._kinds, once, gaps, most)
        return cut

    def _calls_between(self, config: Config, loop: Loop) -> int:
        """Return the most ticks of the host between the calls for an op and for the next op of its chunk."""
        if config.is_blocking or config.is_pageable or self._device.compute.kernel_signal == "run":
            return NEVER  # the host may wait, or ops for many others
        calls = self._most_calls[config.launch]
        if not loop.is_by_chunk:
            workload, chunks = self._workload, config.chunks
            return chunks * (calls + ticks(workload.host_work_s) + workload.has_host_work) + ticks(workload.host_load_s)
        return calls

    def _size(self, part: Part, ops: tuple[OpCost, ...], most: int) -> _Size:
        gaps = [self._crossing(kind, follower) for kind, follower in pairwise(self._kinds)]
        gaps = [gap if op.duration > most else 0 for op, gap in zip(ops, gaps, strict=False)]
        before, now = [], 0
        for op, gap in zip(ops, (*gaps, 0), strict=False):
            before.append(now)
            now += op.duration + gap
        work = ticks(self._workload.host_s(part))
        onwards = tuple(now - ticks_before for ticks_before in before)
        between = sum(gap for gap, (a, b) in zip(gaps, pairwise(self._kinds), strict=True) if a != b)
        return _Size(part.many, work, ops, tuple(before), onwards, between)


def _least_ops(costs: ChunkCosts, part: Part, in_graph: bool) -> tuple[OpCost, ...]:
    """Return the least costs of a chunk's ops.

    In a graph, the chunk's first kernel may run directly behind a kernel of another chunk; its other kernels run
    directly behind one of its own.
    """
    ops = costs.chunk(part)
    if not in_graph:
        return tuple(ops)
    behind = costs.chunk(part, "graph")
    first = len(part.inputs)
    return (*ops[:first], *map(_lesser, ops[first : first + 1], behind[first:]), *behind[first + 1 :])


def _lesser(one: OpCost, other: OpCost) -> OpCost:
    """Return a shape that takes at most as much as either shape, in every respect."""
    works, drain = min(one.busy, other.busy), min(one.drain, other.drain)
    return one._replace(duration=works + drain, drain=drain, fill=min(one.fill, other.fill))


def _most_calls(workload: Workload, ops: int, launch: Launch, device: Device, calls: Calls) -> int:
    """Return the most ticks of all calls for a chunk of ``ops`` ops: each as slow as can be, with all events."""
    slowest = max(cost for kind, cost in calls.items() if kind != Synchronize)
    events = (2 + len(workload.h2d_once) + len(workload.d2h_once)) * (calls[RecordEvent] + calls[WaitEvent])
    more = surcharges_of(launch, device)
    return (ops + 1) * (slowest + sum(more) + events + 4 * more.turn)


def _stage_calls(kinds: Sequence[int], launched: Sequence[str], calls: Calls) -> dict[Stage, list[int]]:
    """Return the ticks up to each call of each stage of a chunk; ``launched``: the names of its launches."""
    ticks_of = {KERNEL: [kernel_call(calls, name) for name in launched]}
    ticks_of |= {kind: [calls[Copy]] * kinds.count(kind) for kind in (H2D, D2H)}
    return {stage: list(accumulate(ticks_of[kind] or [0])) for stage, kind in KIND_OF_STAGE.items()}


class _Calls:
    """The earliest ticks at which ops can be on the card, as the host makes its calls one after another.

    ``first[k]``, ``last[k]``: op number k of the first and of the last chunk, if no call waits. ``begins``: the
    earliest tick of any op.
    """

    def __init__(self, bounds: LowerBounds, cut: _Cut, config: Config, loop: Loop) -> None:
        self._cut, self._turns = cut, config.turns
        self.begins = bounds.submit_ticks + bounds.launch_ticks[config.launch]
        self._event_calls = bounds.event_ticks[config.launch]
        self._calls = bounds.call_ticks[config.launch]
        self.first, self.last = (self._of_chunk(loop, chunk) for chunk in (0, cut.chunks - 1))

    def _of_chunk(self, loop: Loop, chunk: int) -> list[int]:
        """Return the earliest tick of each op of a chunk."""
        found: list[int] = []
        now = self.begins
        for bodies in loop.passes:
            for k, body in enumerate(bodies):
                issued = now + self._before(bodies, k, chunk)
                for step in body.steps:
                    if isinstance(step, Issue):
                        found += [issued + upto for upto in self._calls[step.stage]]
                        issued = found[-1]
                    else:
                        issued += self._ticks(step, chunk + 1) - self._ticks(step, chunk)
            if bodies is not loop.passes[-1]:
                now += sum(self._ticks(step, self._cut.chunks) for body in bodies for step in body.steps)
        return found

    def _before(self, bodies: Pass, own: int, chunk: int) -> int:
        """Return the ticks of a pass before its body number ``own`` comes to a chunk."""
        behind = self._turns.ahead
        rounds, found = chunk + behind * bodies[own].follows, 0
        for k, body in enumerate(bodies):
            chunks = min(rounds + (k < own) - behind * body.follows, self._cut.chunks)
            if chunks > 0:
                found += sum(self._ticks(step, chunks) for step in body.steps)
        return found

    def _ticks(self, step: Step, chunks: int) -> int:
        """Return the ticks of a step's calls for the first ``chunks`` chunks."""
        if isinstance(step, Issue):
            return chunks * self._calls[step.stage][-1]
        if isinstance(step, Prepare):
            return self._work(chunks) if self._cut.work else 0
        record, wait = self._event_calls
        if isinstance(step, Record):
            return record * min(chunks, self._turns.recorded(step))
        return wait * self._turns.waits(step, chunks)

    def _work(self, chunks: int) -> int:
        """Return the ticks of the host's own work for the first ``chunks`` chunks."""
        found = 0
        for size in self._cut.sizes:
            many = min(size.many, chunks)
            found, chunks = found + many * size.work, chunks - many
        return found

    def head(self, op: int) -> int:
        """Return the tick before which op number ``op`` of no chunk can start."""
        return max(self.first[op], self.first[0] + min(size.before[op] for size in self._cut.sizes))


def _tail(cut: _Cut, op: int) -> int:
    """Return the shortest chain behind op number ``op`` of a chunk, from the end of its work on."""
    return min(size.onwards[op] - size.ops[op].busy for size in cut.sizes)


def _flow(cut: _Cut, own: Sequence[int], idle: int) -> Flow:
    """Return the copies of one direction as a flow over the link; ``idle``: ticks that it cannot use."""
    copies = [(size.ops[k], size.many) for size in cut.sizes for k in own]
    rate = copies[0][0].rate
    alone = sum(op.units * count for op, count in copies) / rate.alone
    return Flow(
        latency=idle + sum(op.rate.latency[0] * count for op, count in copies),
        alone=alone,
        loss=1 - rate.shared / rate.alone,
        immune=alone if rate.shared == rate.alone else 0.0,
    )
