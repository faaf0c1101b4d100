"""The event loop: host, engines and link on one SimPy environment."""

from array import array

import simpy

from streamsim.model.engines import IDLE, ComputeEngine, CopyEngine, Engine
from streamsim.model.host import Host
from streamsim.model.link import link
from streamsim.model.program import FULL_CARD, KERNEL, Program
from streamsim.model.queues import IssueOrder, OneQueue, Queues, ReadyOrder, SameQueueFirst

NEVER = -1


class Simulation:
    """One run of a program. After ``run`` the arrays hold the ticks of every op, indexed like its schedule."""

    def __init__(self, program: Program) -> None:
        n = len(program.kind)
        self.program = program
        self.env = simpy.Environment(initial_time=0)
        self.pending = list(program.pending)  # what each op still waits for
        self.issued = array("q", [NEVER]) * n  # the host's call begins ...
        self.returned = array("q", [NEVER]) * n  # ... and returns
        self.ready = array("q", [0]) * n
        self.start = array("q", [NEVER]) * n
        self.end = array("q", [NEVER]) * n
        self._behind = array("i", [-1]) * n  # the op behind this one in its hardware queue
        self.engines = _build_engines(self)
        self.touched: list[Engine] = []  # engines that may be able to start something at this tick
        self._host = Host(self)

    def run(self) -> None:
        """Run until every op has ended."""
        self._host.resume(self.program.start)
        self._dispatch(0)
        self.env.run()

    def release(self, op: int, ready: int) -> None:
        """One of the things that ``op`` waits for has come; it cannot start before the tick ``ready``."""
        if ready > self.ready[op]:
            self.ready[op] = ready
        left = self.pending[op] - 1
        self.pending[op] = left
        if left == 0:
            engine = self.engines[self.program.engine[op]]
            engine.queues.arrive(op, self.ready[op])
            if engine.op == IDLE:
                self.touched.append(engine)

    def started(self, op: int, now: int) -> int:
        """An engine takes ``op``: from now, or from when it is ready. Returns the tick of its start."""
        start = self.start[op] = max(now, self.ready[op])
        behind = self._behind[op]
        if behind >= 0:
            self.release(behind, 0)
        return start

    def ended(self, op: int, now: int) -> None:
        """``op`` has ended: release what waits for it."""
        self.end[op] = now
        program = self.program
        kind, after = program.kind, program.after[op]
        hand_over = program.hand_over[kind[op]]
        if after >= 0:
            self.release(after, now + hand_over[kind[after]])
        if op in program.also:
            ops = program.schedule.ops
            for other in program.also[op]:
                event = program.event if ops[other].stream != ops[op].stream else 0
                self.release(other, now + hand_over[kind[other]] + event)
        if self._host.is_waiting:
            self._host.ended(op, now)

    def end_of_ring(self, now: int) -> None:
        """An alarm has rung. The engines choose only when everything that ends at this tick has ended."""
        if self.env.peek() > now:
            self._dispatch(now)

    def _dispatch(self, now: int) -> None:
        touched = self.touched
        for engine in touched:
            engine.dispatch(now)
        touched.clear()

    def put_behind(self, op: int, ahead: int) -> None:
        """``op`` comes after ``ahead`` in its hardware queue: it cannot be dispatched before it."""
        self._behind[ahead] = op
        self.pending[op] += 1


def _build_engines(simulation: Simulation) -> list[Engine]:
    program = simulation.program
    ops_of: list[list[int]] = [[] for _ in program.engine_names]
    for op, engine in enumerate(program.engine):
        if engine >= 0:
            ops_of[engine].append(op)
    flows = link()
    engines: list[Engine] = []
    for index, ops in enumerate(ops_of):
        if program.engine_names[index] == "compute":
            engines.append(_compute_engine(simulation, ops))
        else:
            queues = _queues(simulation, ops, program.device.copy_engines.arbitration)
            shared = len(program.engine_names) == 3 and _share_link(program)
            engine = CopyEngine(simulation, queues, flows[index]) if shared else Engine(simulation, queues, program.duration)
            engines.append(engine)
    for engine, other in ((engines[0], engines[1]), (engines[1], engines[0])) if len(engines) == 3 else ():
        if isinstance(engine, CopyEngine) and isinstance(other, CopyEngine):
            engine.other = other
    return engines


def _compute_engine(simulation: Simulation, kernels: list[int]) -> Engine:
    program, compute = simulation.program, simulation.program.device.compute
    side_by_side = compute.concurrent_kernels > 1 and any(program.width[op] < FULL_CARD for op in kernels)
    queues = _queues(simulation, kernels, compute.arbitration, one_by_one=not side_by_side)
    if side_by_side:
        return ComputeEngine(simulation, queues, compute.concurrent_kernels)
    return Engine(simulation, queues, program.duration)


def _share_link(program: Program) -> bool:
    """Whether any direction is slower while the other is busy; otherwise a copy's time is known in advance."""
    return any(rate.shared < rate.alone for rate in program.rates.values())


def _queues(simulation: Simulation, ops: list[int], rule: str, one_by_one: bool = True) -> Queues:
    """The queues in front of one engine, with the arbitration ``rule`` among their heads."""
    queue = simulation.program.queue
    used = {queue[op] for op in ops}
    if len(used) <= 1 and one_by_one:
        return OneQueue(ops, simulation.pending)
    last: dict[int, int] = {}
    for op in ops:
        if queue[op] in last:
            simulation.put_behind(op, last[queue[op]])
        last[queue[op]] = op
    if rule == "issue-order":
        return IssueOrder()
    if rule == "ready-order":
        return ReadyOrder()
    return SameQueueFirst(queue, simulation.returned, simulation.program.submit, max(used) + 1)
