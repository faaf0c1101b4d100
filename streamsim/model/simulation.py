"""The event loop: host, engines and link on one SimPy environment."""

from array import array

import simpy

from streamsim.model.crowd import Crowd
from streamsim.model.engines import ComputeEngine, Engine, LinkedCopyEngines, SerialEngine
from streamsim.model.host import Host
from streamsim.model.program import FULL_CARD, KERNEL, NOTHING, Program
from streamsim.model.queues import NONE, IssueOrder, OneQueue, Queues, ReadyOrder, SameQueueFirst

NEVER = -1


class Simulation:
    """One run of a program. After ``run`` the arrays hold the ticks of every op, indexed like its schedule."""

    def __init__(self, program: Program) -> None:
        n = len(program.kind)
        self.program = program
        self._kind, self._after, self._also = program.kind, program.after, program.also
        self._hand_over = program.hand_over
        self._submit = program.submit
        self.env = simpy.Environment(initial_time=0)
        self.pending = array("i", program.pending)  # how many things each op still waits for
        self.issued = array("q", [NEVER]) * n  # the host's call begins ...
        self.returned = array("q", [NEVER]) * n  # ... and returns
        self.ready = array("q", [0]) * n
        self.start = array("q", [NEVER]) * n
        self.end = array("q", [NEVER]) * n
        self.behind: dict[int, int] | array[int] = {}  # the op behind this one in its hardware queue
        self.touched: list[Engine] = []  # engines that may be able to start something at this tick
        feels = any(shape.rate.feels_crowds for shape in program.shapes)
        self.crowd = Crowd(program, self.returned) if feels else None
        self.host = Host(self)
        lanes = [lane for engine in _build_engines(self) for lane in engine.lanes]
        self._lane_of_kind = [lanes[k] for k in program.engine_of[:NOTHING]]

    def run(self) -> None:
        """Run until every op has ended."""
        self.host.resume(self.program.launch)
        self.dispatch(0)
        self.env.run()

    def release(self, op: int, ready: int) -> None:
        """One of the things that ``op`` waits for has come; it cannot start before the tick ``ready``."""
        if ready > self.ready[op]:
            self.ready[op] = ready
        left = self.pending[op] - 1
        self.pending[op] = left
        if not left:
            self.arrive(op)

    def arrive(self, op: int) -> None:
        """All that ``op`` waits for has come, or will at a known tick: it is a candidate in its queue."""
        ready = self.returned[op] + self._submit
        if ready > self.ready[op]:
            self.ready[op] = ready
        else:
            ready = self.ready[op]
        lane = self._lane_of_kind[self._kind[op]]
        lane.arrive(op, ready)
        if lane.op == NONE:
            self.touched.append(lane.engine)

    def started(self, op: int, now: int) -> int:
        """An engine has taken ``op``: it starts now, or when it will be ready. Returns the tick."""
        start = self.ready[op]
        if start < now:
            start = now
        self.start[op] = start
        if self.behind:
            behind = self.behind[op]
            if behind >= 0:
                self.release(behind, 0)
        return start

    def ended(self, op: int, now: int) -> None:
        """``op`` has ended: release what waits for it."""
        self.end[op] = now
        if self.crowd is not None and self._kind[op] != KERNEL:
            for f in [self._after[op], *self._also.get(op, ())]:
                if f in self.crowd._copies_of:
                    self.crowd.copy_ended(f)
        after = self._after[op]
        if after >= 0:
            kind = self._kind
            self.release(after, now + self._hand_over[kind[op]][kind[after]])
        if op in self._also:
            self._release_others(op, now)
        if self.host.is_waiting:
            self.host.ended(op, now)

    def _release_others(self, op: int, now: int) -> None:
        ops, kind, hand_over = self.program.schedule.ops, self._kind, self._hand_over[self._kind[op]]
        for other in self._also[op]:
            event = self.program.event if ops[other].stream != ops[op].stream else 0
            self.release(other, now + hand_over[kind[other]] + event)

    def dispatch(self, now: int) -> None:
        """Let the engines choose, when everything that ends at this tick has ended."""
        for engine in self.touched:
            engine.dispatch(now)
        self.touched.clear()


def _build_engines(simulation: Simulation) -> list[Engine]:
    """The engines that a program needs: the simplest ones that do what its device does."""
    program, device = simulation.program, simulation.program.device
    ops_of: list[list[int]] = [[] for _ in program.engine_names]
    for op, kind in enumerate(program.kind):
        if kind != NOTHING:
            ops_of[program.engine_of[kind]].append(op)
    linked = len(program.engine_names) == 3 and any(
        shape.rate.shared < shape.rate.alone or shape.rate.duplex_latency != shape.rate.latency
        for shape in program.shapes
    )
    rule = device.copy_engines.arbitration
    ahead = not linked and simulation.crowd is None
    copies = [_queues(simulation, ops, rule, ahead) for ops in ops_of[: len(ops_of) - 1 or 1]]
    engines: list[Engine]
    if linked:
        engines = [LinkedCopyEngines(simulation, (copies[0], copies[1]))]
    else:
        engines = [SerialEngine(simulation, queues) for queues in copies]
    if len(ops_of) > 1:
        engines.append(_compute_engine(simulation, ops_of[-1]))
    return engines


def _compute_engine(simulation: Simulation, kernels: list[int]) -> Engine:
    compute = simulation.program.device.compute
    if compute.concurrent_kernels > 1 and any(shape.width < FULL_CARD for shape in simulation.program.shapes):
        queues = _queues(simulation, kernels, compute.arbitration, one_by_one=False)
        return ComputeEngine(simulation, queues, compute.concurrent_kernels)
    return SerialEngine(simulation, _queues(simulation, kernels, compute.arbitration, simulation.crowd is None))


def _queues(simulation: Simulation, ops: list[int], rule: str, one_by_one: bool = True) -> Queues:
    """The hardware queues in front of an engine, with the arbitration ``rule`` among their heads."""
    queue = simulation.program.queue
    used = {queue[op] for op in ops}
    if len(used) <= 1 and one_by_one:
        return OneQueue(ops, simulation.pending)
    if not simulation.behind:
        simulation.behind = array("i", [-1]) * len(queue)
    last: dict[int, int] = {}
    for op in ops:
        ahead = last.get(queue[op], -1)
        if ahead >= 0:
            simulation.behind[ahead] = op
            simulation.pending[op] += 1
        last[queue[op]] = op
    if rule == "issue-order":
        return IssueOrder()
    if rule == "ready-order":
        return ReadyOrder()
    return SameQueueFirst(queue)
