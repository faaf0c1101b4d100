"""The engines: each takes ops from its hardware queues, runs them and says when they end.

An engine is two functions over its state: ``dispatch(now)`` starts what can start and sets the alarm for when
something ends or can start; ``ring`` hears the alarm and ends what is due. It gives the *lanes* in which ops
come to it: one, or two for the directions of a shared link, where it depends on both when a copy ends.

This is the model's inner loop, where every call and every name looked up on the way shows in
``tests/benchmarks``. Hence functions inside functions, whose names are bound once; hence also entries put on
SimPy's agenda by hand, as ``Environment.schedule`` does. (C901 counts the inner functions as one with the outer.)
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from simpy.events import NORMAL

from streamsim.lowering.costs import FULL_CARD, KERNEL
from streamsim.model.alarm import Alarm
from streamsim.model.queues import FOREVER, NONE, Queues
from streamsim.rules.link import NEVER, Flow, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamsim.lowering.costs import Shape
    from streamsim.model.crowd import Level
    from streamsim.model.simulation import Simulation


class Lane:
    """A place for one op at a time (``op``, or NONE), behind its hardware queues."""

    def __init__(self, queues: Queues | None = None) -> None:
        self.op = NONE
        # A heap of (ready tick, op); None: no need to know who comes, only that someone does.
        self.arriving = None if queues is None else queues.arriving
        self.dispatch: Callable[[int], None]


def in_order_engine(simulation: Simulation, ops: Iterator[int]) -> list[Lane]:
    """One op at a time, each for its fixed time, from a single queue: in issue order, whatever is ready first.

    Nothing can overtake the head of the queue, so it is taken ahead of its time, as soon as that is known.
    """
    env, touched, schedule, ended = simulation.env, simulation.touched, simulation.env.schedule, simulation.ended
    pending, ready, start = simulation.pending, simulation.ready, simulation.start
    shape, durations = simulation.program.shape, [shape.duration for shape in simulation.program.shapes]
    lane = Lane()
    head = next(ops, NONE)

    def dispatch(now: int) -> None:
        nonlocal head
        if head == NONE or pending[head] or lane.op != NONE:
            return
        op = lane.op = head
        head = next(ops, NONE)
        at = ready[op]
        if at < now:
            at = now
        start[op] = at
        schedule(alarm, NORMAL, at - now + durations[shape[op]])

    def ring(_: Alarm) -> None:
        touched.append(dispatch)
        op, lane.op = lane.op, NONE
        ended(op, env._now)  # type: ignore[arg-type]  # the clock counts whole ticks

    alarm = Alarm(env, ring, simulation.choose)
    lane.dispatch = dispatch
    return [lane]


def serial_engine(simulation: Simulation, queues: Queues, level: Level | None = None) -> list[Lane]:
    """One op at a time from several queues, each for a fixed time; for a copy, if the card is not crowded."""
    env, touched, schedule, ended = simulation.env, simulation.touched, simulation.env.schedule, simulation.ended
    started = simulation.note_start()
    take, arriving = queues.take, queues.arriving
    shape, shapes = simulation.program.shape, simulation.program.shapes
    durations = [shape.duration for shape in shapes]
    longer = [[latency - shape.rate.latency[0] for latency in shape.rate.latency] for shape in shapes]
    lane = Lane(queues)
    due = NONE  # the tick that the alarm is set for

    def dispatch(now: int) -> None:
        if lane.op != NONE:
            return
        op = take(now)
        if op == NONE:
            wake(arriving[0][0] if arriving else FOREVER, now)
            return
        lane.op = op
        started(op, now)
        end = now + durations[shape[op]]
        if level:
            end += longer[shape[op]][level(now)]
        wake(end, now)

    def wake(at: int, now: int) -> None:
        nonlocal due
        if at != due and at < FOREVER:
            due = at
            schedule(alarm, NORMAL, at - now)

    def ring(_: Alarm) -> None:
        now: int = env._now  # type: ignore[assignment]
        if now == due:
            touched.append(dispatch)
            if lane.op != NONE:
                op, lane.op = lane.op, NONE
                ended(op, now)

    alarm = Alarm(env, ring, simulation.choose)
    lane.dispatch = dispatch
    return [lane]


class Direction(Lane, Flow):
    """A copy engine on one direction of the link."""

    def __init__(self, queues: Queues, kind: int) -> None:
        Lane.__init__(self, queues)
        Flow.__init__(self)
        self.kind = kind
        self.take, self.arriving, self.waiting = queues.take, queues.arriving, queues.waiting
        self.other = self


def linked_copy_engines(simulation: Simulation, queues: tuple[Queues, Queues]) -> list[Lane]:  # noqa: C901
    """Two copy engines, one for each direction of a link; how long a copy takes depends on both."""
    env, touched, ended = simulation.env, simulation.touched, simulation.ended
    agenda, number = env._queue, env._eid
    started, lookahead, level = simulation.note_start(), simulation.lookahead, simulation.level
    shape, copies = simulation.program.shape, [(shape.units, *shape.rate) for shape in simulation.program.shapes]
    directions = there, back = [Direction(q, kind) for kind, q in enumerate(queues)]
    there.other, back.other = back, there
    link = Link(there, back)
    next_end = link.next_end
    end = FOREVER  # the tick at which the next flow ends; NONE: to be worked out anew
    due = NONE  # the tick that the alarm is set for

    def dispatch(now: int) -> None:  # noqa: C901 (the inner loop)
        nonlocal due, end
        wake = FOREVER
        for direction in directions:
            if direction.op != NONE:
                continue
            if direction.waiting:
                at = now
            else:
                arriving = direction.arriving
                if not arriving:
                    continue
                at = arriving[0][0]
                if at < now:
                    at = now
                elif at > now and not is_known(direction, at, now):
                    if at < wake:
                        wake = at
                    continue
            op = direction.op = direction.take(at)  # closes the lane: the op behind this one need not wake the engine
            started(op, at)
            direction.left, direction.alone, direction.shared, latency, duplex_latency = copies[shape[op]]
            if direction.other.op != NONE:
                latency = duplex_latency
            direction.begins = at + latency[level(at) if level else 0]
            end = NONE
        if end == NONE:  # a flow has started or finished
            end = next_end()
        if wake > end:
            wake = end
        if wake != due and wake < FOREVER:
            due = wake
            heappush(agenda, (wake, NORMAL, next(number), alarm))

    def is_known(direction: Direction, at: int, now: int) -> bool:
        """Whether it is known now what the idle direction will choose at the tick ``at``, and how long that takes.

        It is if no op can become ready before, and the other direction still runs the copy that it runs now.
        """
        nonlocal end
        if at > now + lookahead[direction.kind] or direction.other.op == NONE:
            return False
        if end == NONE:
            end = next_end()
        return at < end

    def ring(_: Alarm) -> None:
        nonlocal end
        now: int = env._now  # type: ignore[assignment]
        if now != due:
            return
        touched.append(dispatch)
        if now == end:
            end = NONE
            link.since = now
            for direction in directions:
                left = direction.left = direction.then
                if left <= 0:
                    op, direction.op = direction.op, NONE
                    direction.begins, direction.left = NEVER, 1
                    ended(op, now)

    alarm = Alarm(env, ring, simulation.choose)
    there.dispatch = back.dispatch = dispatch
    return [there, back]


class Running:
    """A kernel on the card, ``given`` so much of it, at first all it can fill.

    Its work is done at ``end`` unless that changes. ``left`` of it (ticks times width) was to do at the tick ``since``.
    """

    __slots__ = ("end", "given", "left", "op", "shape", "since")

    def __init__(self, op: int, shape: Shape, width: int, work: int, now: int, end: int) -> None:
        self.op = op
        self.shape = shape
        self.given = width
        self.left = work
        self.since = now
        self.end = end

    def give(self, given: int, now: int) -> None:
        """Give the kernel so much of the card from now on."""
        self.left -= self.given * (now - self.since)
        self.since = now
        self.given = given
        self.end = now - -self.left // given


def compute_engine(simulation: Simulation, queues: Queues, most: int) -> list[Lane]:  # noqa: C901
    """Kernels side by side: earlier ones take what they can fill, later ones what is left over.

    The card's schedulers in the large: a later kernel's blocks go where an earlier kernel has no more blocks to put
    ("leftover policy"), and where both have some the older ones go first. Few threads do not keep the whole card busy:
    see ``Shape.given``. A kernel whose work is done leaves the card to others, and ends ``Shape.drain`` ticks later; at
    most ``most`` have work to do. Its lane stays open: a kernel on the card does not close it.
    """
    env, touched, ended = simulation.env, simulation.touched, simulation.ended
    agenda, number = env._queue, env._eid
    started, lookahead = simulation.note_start(), simulation.lookahead
    take, arriving, waiting = queues.take, queues.arriving, queues.waiting
    shape, shapes = simulation.program.shape, simulation.program.shapes
    kernels = [(its, its.width, its.works, its.works * its.width) for its in shapes]
    running: list[Running] = []
    draining: list[tuple[int, int]] = []  # a heap of (end tick, op): kernels whose work is done
    room = FULL_CARD
    due = NONE  # the tick that the alarm is set for

    def dispatch(now: int) -> None:
        nonlocal due, room
        at = now
        idle = not (running or draining or waiting)
        if idle and arriving and now < arriving[0][0] <= now + lookahead[KERNEL]:
            at = arriving[0][0]  # no kernel can become ready before: what it will choose then is known now
        wake = FOREVER
        while room > 0 and len(running) < most:
            if not waiting and (not arriving or arriving[0][0] > at):
                if arriving:
                    wake = arriving[0][0]
                break
            op = take(at)
            started(op, at)
            its, width, works, work = kernels[shape[op]]
            running.append(Running(op, its, width, work, at, at + works))
            if len(running) > 1:
                share(at)
            else:
                room -= width
        for kernel in running:
            if kernel.end < wake:
                wake = kernel.end
        if draining and draining[0][0] < wake:
            wake = draining[0][0]
        if wake != due and wake < FOREVER:
            due = wake
            heappush(agenda, (wake, NORMAL, next(number), alarm))

    def ring(_: Alarm) -> None:
        nonlocal room
        now: int = env._now  # type: ignore[assignment]
        if now != due:
            return
        done = [kernel for kernel in running if kernel.end <= now]
        for kernel in done:
            running.remove(kernel)
        if running and done:
            share(now)
        elif done:
            room = FULL_CARD
        for kernel in done:
            if kernel.shape.drain:
                heappush(draining, (now + kernel.shape.drain, kernel.op))
            else:
                ended(kernel.op, now)
        while draining and draining[0][0] <= now:
            ended(heappop(draining)[1], now)
        if running or draining or arriving or waiting:
            touched.append(dispatch)

    def share(now: int) -> None:
        """Give the card to the earliest of the kernels that can use it."""
        nonlocal room
        room = FULL_CARD
        held = 0  # of the card's threads
        for kernel in running:
            held += kernel.shape.threads
            given = kernel.shape.given(room, held)
            if given != kernel.given:
                kernel.give(given, now)
            room -= given

    alarm = Alarm(env, ring, simulation.choose)
    lane = Lane(queues)
    lane.dispatch = dispatch
    return [lane]
