"""The event loop: host, engines and link on one SimPy environment."""

from array import array
from collections.abc import Callable, Iterator
from heapq import heappush
from itertools import compress, count

import simpy

from streamsim.lowering.costs import FULL_CARD, KERNEL, NOTHING
from streamsim.lowering.lowered import Lowered
from streamsim.model.alarm import Alarm
from streamsim.model.crowd import CopyEnded, Level, crowd
from streamsim.model.engines import Lane, compute_engine, in_order_engine, linked_copy_engines, serial_engine
from streamsim.model.host import Host
from streamsim.model.queues import FOREVER, NONE, IssueOrder, Queues, ReadyOrder, SameQueueFirst

NEVER = -1
OpAt = Callable[[int, int], None]  # a function of an op and a tick


class Simulation:
    """One run of a program. After ``run`` the arrays hold the ticks of every op, indexed like its schedule.

    ``release``, ``ended`` and ``choose`` are called for every op: closures, whose names are bound once.
    """

    def __init__(self, program: Lowered) -> None:
        n = len(program.kind)
        self.program = program
        self.env = simpy.Environment(initial_time=0)
        self.pending = array("i", program.pending)  # how many things each op still waits for
        self.issued = array("q", [NEVER]) * n  # the host's call begins ...
        self.returned = array("q", [NEVER]) * n  # ... and returns
        self.ready = array("q", [0]) * n
        self.start = array("q", [NEVER]) * n
        self.end = array("q", [NEVER]) * n
        self.behind: dict[int, int] | array[int] = {}  # the op behind this one in its hardware queue
        self.touched: list[Callable[[int], None]] = []  # what to call for engines that may be able to start something
        self.lookahead = [0] * NOTHING  # for how many ticks an idle engine knows all ops of a kind that become ready
        self.copy_ended: CopyEnded | None = None  # what counts the kernels that wait, if that matters for any copy
        self.level: Level | None = None
        if _feels_crowds(program):
            self.copy_ended, self.level = crowd(program, self.returned)
        self.host = Host(self)
        self.lanes: list[Lane] = []  # by kind
        self.release, self.ended = _hand_over(self)
        self.choose = _choose(self)
        lanes = _build_engines(self)
        self.lanes += [lanes[k] for k in program.engine_of[:NOTHING]]

    def run(self) -> None:
        """Run until every op has ended."""
        self.host.resume(self.program.launch)
        self.choose(Alarm(self.env))
        self.env.run()

    def note_start(self) -> OpAt:
        """What an engine with several queues calls when it starts an op."""
        return self._started if self.behind else self.start.__setitem__

    def _started(self, op: int, now: int) -> None:
        """Note the start of ``op``: the one behind it becomes the head of its queue."""
        self.start[op] = now
        behind = self.behind[op]
        if behind >= 0:
            self.release(behind, 0)

    def all_issued(self) -> None:
        """The host has issued its last op: from now on ops become ready only when others end.

        Of an end on another engine they hear a hand-over later at the earliest. So an idle engine knows what it will
        choose from for as long as the shortest of them, and need not be woken to choose.
        """
        shortest = self.program.shortest_crossings()
        for kind in range(NOTHING):
            self.lookahead[kind] = min((ticks for (_, b), ticks in shortest.items() if b == kind), default=FOREVER)


def _feels_crowds(program: Lowered) -> bool:
    """Whether it matters for any copy how many kernels wait for copies; where both take turns, nobody waits."""
    return program.device.copy_engines.count > 0 and any(shape.rate.feels_crowds for shape in program.shapes)


def _hand_over(simulation: Simulation) -> tuple[OpAt, OpAt]:  # noqa: C901 (three functions)
    """Make ``release(op, ready)`` and ``ended(op, now)`` for a simulation."""
    program, lanes, touched, host = simulation.program, simulation.lanes, simulation.touched, simulation.host
    pending, returned, ready_at, end = simulation.pending, simulation.returned, simulation.ready, simulation.end
    kind, after, also, submit = program.kind, program.after, program.also, program.submit
    awaited, copy_ended = host.waits_for, simulation.copy_ended
    hands_over, crossing = program.hands_over(), program.crossing

    def release(op: int, ready: int) -> None:
        """One of the things that ``op`` waits for has come; it cannot start before the tick ``ready``."""
        known = ready_at[op]
        if known > ready:
            ready = known
        pending[op] -= 1
        if pending[op]:
            ready_at[op] = ready
            return
        on_card = returned[op] + submit  # all has come, or will at a known tick: it joins its queue
        if on_card > ready:
            ready = on_card
        ready_at[op] = ready
        lane = lanes[kind[op]]
        if lane.arriving is not None:
            heappush(lane.arriving, (ready, op))
        if lane.op == NONE:
            touched.append(lane.dispatch)

    def ended(op: int, now: int) -> None:
        """``op`` has ended: release what waits for it."""
        end[op] = now
        follower = after[op]
        if follower >= 0:
            to = kind[follower]
            if copy_ended and to == KERNEL and kind[op] != KERNEL:
                copy_ended(follower)
            ready = now + hands_over[op]
            if pending[follower] > 1:
                release(follower, ready)
            else:  # what release() does then, without the call: most ops come this way
                pending[follower] = 0
                known, on_card = ready_at[follower], returned[follower] + submit
                if known > ready:
                    ready = known
                if on_card > ready:
                    ready = on_card
                ready_at[follower] = ready
                lane = lanes[to]
                if lane.arriving is not None:
                    heappush(lane.arriving, (ready, follower))
                if lane.op == NONE:
                    touched.append(lane.dispatch)
        if op in also:
            release_others(op, now)
        if op in awaited:
            host.ended(op, now)

    def release_others(op: int, now: int) -> None:
        for other in also[op]:
            if copy_ended and kind[other] == KERNEL and kind[op] != KERNEL:
                copy_ended(other)
            release(other, now + crossing(op, other))

    return release, ended


def _choose(simulation: Simulation) -> Callable[[Alarm], None]:
    """Make what is called after every ring of an alarm."""
    env, touched = simulation.env, simulation.touched
    agenda = env._queue  # SimPy's heap of what is to come: the first of it says when

    def choose(alarm: Alarm) -> None:
        """Let the engines choose, when everything that ends at this tick has ended."""
        alarm.callbacks = alarm.calls
        now: int = env._now  # type: ignore[assignment]  # the clock counts whole ticks
        if touched and (not agenda or agenda[0][0] > now):
            for dispatch in touched:
                dispatch(now)
            touched.clear()

    return choose


def _build_engines(simulation: Simulation) -> list[Lane]:
    """The engines that a program needs: the simplest ones that do what its device does."""
    program, device = simulation.program, simulation.program.device
    copy_engines = device.copy_engines.count
    linked = copy_engines == 2 and any(shape.rate.feels_the_other_direction for shape in program.shapes)
    rule = device.copy_engines.arbitration
    if linked:
        there, back = (_queues(simulation, _Ops(program, engine), rule) for engine in (0, 1))
        lanes = linked_copy_engines(simulation, (there, back))
    else:
        lanes = [
            lane
            for engine in range(copy_engines or 1)
            for lane in _serial_engine(simulation, engine, rule, simulation.level)
        ]
    return lanes + _compute_engine(simulation, copy_engines) if copy_engines else lanes


def _compute_engine(simulation: Simulation, engine: int) -> list[Lane]:
    compute = simulation.program.device.compute
    most, shapes = compute.concurrent_kernels, simulation.program.shapes
    # Even one at a time, the next kernel may start before one whose work is done has ended.
    if any(shape.drain or (most > 1 and shape.width < FULL_CARD) for shape in shapes):
        queues = _queues(simulation, _Ops(simulation.program, engine), compute.arbitration)
        return compute_engine(simulation, queues, most)
    return _serial_engine(simulation, engine, compute.arbitration)


def _serial_engine(simulation: Simulation, engine: int, rule: str, level: Level | None = None) -> list[Lane]:
    """An engine of one op at a time: the simplest one that will do; ``level``: for copies on a card that can be full.

    How crowded the card will be when a copy starts is not known ahead of time.
    """
    ops = _Ops(simulation.program, engine)
    if len(ops.queues()) <= 1 and level is None:
        return in_order_engine(simulation, iter(ops))
    return serial_engine(simulation, _queues(simulation, ops, rule), level)


class _Ops:
    """The ops of an engine, in issue order."""

    def __init__(self, program: Lowered, engine: int) -> None:
        self._program = program
        self._own = program.kind.translate(bytes(its == engine for its in program.engine_of).ljust(256))

    def __iter__(self) -> Iterator[int]:
        return compress(count(), self._own)

    def queues(self) -> set[int]:
        """The hardware queues that they come through."""
        return set(compress(self._program.queue, self._own))

    def streams(self) -> set[tuple[int | None, int]]:
        """The streams that they are in, with their queues: a stream that has lost its queue uses another one."""
        ops, queue = self._program.schedule.ops, self._program.queue
        return {(op.stream, its) for op, its in compress(zip(ops, queue, strict=True), self._own)}


def _queues(simulation: Simulation, ops: _Ops, rule: str) -> Queues:
    """The hardware queues in front of an engine, with the arbitration ``rule`` among their heads.

    In a queue of one stream every op waits for the one ahead of it anyway.
    """
    queue = simulation.program.queue
    if len(ops.streams()) > len(ops.queues()):
        _stand_behind(simulation, ops)
    if rule == "issue-order":
        return IssueOrder()
    if rule == "ready-order":
        return ReadyOrder()
    return SameQueueFirst(queue)


def _stand_behind(simulation: Simulation, ops: _Ops) -> None:
    """Every op waits until the one ahead of it in its queue has started."""
    queue = simulation.program.queue
    if not simulation.behind:
        simulation.behind = array("i", [-1]) * len(queue)
    last: dict[int, int] = {}
    for op in ops:
        ahead = last.get(queue[op], -1)
        if ahead >= 0:
            simulation.behind[ahead] = op
            simulation.pending[op] += 1
        last[queue[op]] = op
