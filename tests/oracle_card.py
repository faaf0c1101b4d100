"""The card of the oracle, tick by tick: what it says of every op of a schedule."""

from fractions import Fraction

import oracle
from oracle_queues import crowd_of, queues_of

from streamsim.device import Device
from streamsim.program import Copy, HostWork, Kernel, Schedule, Synchronize, WaitThread

ENGINE_ORDER = ("h2d", "d2h", "copy", "gpu", "compute")  # in which they choose at a tick


class Card:
    """One run. At every tick: what ends, ends; then the host calls; then the engines choose; then a tick passes."""

    def __init__(self, schedule: Schedule, device: Device) -> None:
        self.schedule, self.device, self.ops = schedule, device, schedule.ops
        self.order = oracle.cuda_order(schedule, device)
        self.waits = oracle.dependences(schedule, device, self.order)
        self.need = [
            oracle.need_of(schedule, device, i) if oracle.is_work(op) else oracle.Need()
            for i, op in enumerate(self.ops)
        ]
        self.left = [
            n.works * n.share if isinstance(op, Kernel) else Fraction(n.bytes)
            for op, n in zip(self.ops, self.need, strict=True)
        ]
        n = len(self.ops)
        self.t = oracle.Times([-1] * n, [-1] * n, [-1] * n, [-1] * n, [-1] * n)
        self.arrived = [-1] * n  # on the card
        self.running: dict[str, list[int]] = {}
        self.draining: dict[int, int] = {}  # kernels whose work is done, and when they end
        # Of each engine the ops in line, by queue; one that stands in none is a line, by its run's queue and itself.
        self.queues: dict[str, dict[tuple[int, int], list[int]]] = {}
        queues, latest = queues_of(schedule, device), dict[int, int]()
        for i, op in enumerate(self.ops):
            if isinstance(op, Copy | Kernel):
                latest[op.stream] = queues.get(i, latest.get(op.stream, -1))
                line = latest[op.stream], -1 if i in queues else i
                self.queues.setdefault(oracle.engine_name(op, device), {}).setdefault(line, []).append(i)
        self.turn = dict.fromkeys(self.queues, -1)  # the queue served last
        self.delay = [0] * n  # ticks from a copy's start until its bytes flow
        self.calls = oracle.calls(schedule, device)
        threads = {op.thread for op in self.ops}
        self.to_call = {thread: [i for i, op in enumerate(self.ops) if op.thread == thread] for thread in threads}
        self.free = dict.fromkeys(
            threads, oracle.launch_ticks(schedule, device)
        )  # when each thread's latest call is done
        self.held: dict[int, int] = {}  # by thread the call that holds it

    def run(self) -> oracle.Times:
        now = 0
        while any(self.to_call.values()) or self.held or any(self.queues_left()) or self.busy():
            self.end_what_is_done(now)
            while any(self.host_call(thread, now) for thread in self.to_call):
                pass
            for engine in sorted(self.queues, key=ENGINE_ORDER.index):
                while self.choose(engine, now):
                    pass
            self.pass_a_tick(now)
            now += 1
            assert now < 20_000, "the oracle is stuck"
        for i, op in enumerate(self.ops):
            if not oracle.is_work(op):
                done = max([self.t.returned[i], *self.heard(i)])
                self.t.ready[i] = self.t.start[i] = self.t.end[i] = done
        return self.t

    def busy(self) -> bool:
        return any(self.running.values()) or bool(self.draining)

    def heard(self, i: int) -> list[int]:
        """When an event is on the card, and when it hears of each op that it stands for: later of another stream's."""
        if isinstance(self.ops[i], Synchronize | HostWork | WaitThread):
            return []  # done when its call has returned
        hand_over = self.device.hand_over
        other = 0 if self.schedule.launch == "graph" else oracle.in_ticks(hand_over.event_s)
        found = [self.t.returned[i] + oracle.in_ticks(self.device.host.submit_s)]
        for j in self.order.works[i]:
            crossing = other + oracle.in_ticks(getattr(hand_over, f"{oracle.kind_of(self.ops[j])}_to_kernel_s"))
            is_late = self.ops[j].stream == self.ops[i].stream or found[0] >= self.t.end[j]
            found.append(self.t.end[j] + (0 if is_late else crossing))
        return found

    def queues_left(self) -> list[bool]:
        return [bool(queue) for queues in self.queues.values() for queue in queues.values()]

    def end_what_is_done(self, now: int) -> None:
        for running in self.running.values():
            for i in [i for i in running if self.left[i] <= 0]:
                running.remove(i)
                self.draining[i] = now + self.need[i].drain
        for i in [i for i, end in self.draining.items() if end == now]:
            self.t.end[i] = self.draining.pop(i)

    def host_call(self, thread: int, now: int) -> bool:
        """A thread does one thing at this tick, if it can: return from a call that waited, or make a call."""
        held = self.held.get(thread)
        if held is not None:
            back = self.back_at(held)
            if back is None or back > now:
                return False
            self.t.returned[held] = self.free[thread] = back
            del self.held[thread]
            return True
        if self.free[thread] > now or not self.to_call[thread]:
            return False
        i = self.to_call[thread].pop(0)
        self.t.issued[i] = now
        self.free[thread] = now + self.calls[i]
        self.arrived[i] = self.free[thread] + oracle.in_ticks(self.device.host.submit_s)
        if self.order.awaited[i] or isinstance(self.ops[i], WaitThread):
            self.held[thread] = i
        else:
            self.t.returned[i] = self.free[thread]
        return True

    def back_at(self, i: int) -> int | None:
        """When the call of op i, which waits, returns; None if that is not known yet."""
        op, done = self.ops[i], self.t.issued[i] + self.calls[i]
        if isinstance(op, WaitThread):
            others = [self.t.returned[j] for j in range(i) if self.ops[j].thread == op.other]
            return None if -1 in others else max([done, *others])
        ends = [self.t.end[j] for j in self.order.awaited[i]]
        return None if -1 in ends else max([done, *(end + oracle.in_ticks(self.device.host.wake_s) for end in ends)])

    def ready_at(self, i: int) -> int | None:
        """When the card had op i and everything it depends on; None if it has not yet."""
        if self.arrived[i] < 0 or any(self.t.end[j] < 0 for j in self.waits[i]):
            return None
        came, ends = self.arrived[i], self.t.end
        return max([came, *(ends[j] + ticks for j, ticks in self.waits[i].items() if came < ends[j])])

    def choose(self, engine: str, now: int) -> bool:
        """Start one op, if there is room and one can go."""
        running = self.running.setdefault(engine, [])
        most = self.device.compute.concurrent_kernels if engine == "compute" else 1
        if len(running) >= most or self.taken(running) >= 1:
            return False
        heads = {line: ops[0] for line, ops in self.queues[engine].items() if ops}
        can_go = {line: i for line, i in heads.items() if (at := self.ready_at(i)) is not None and at <= now}
        if not can_go:
            return False
        line = self.pick(engine, can_go)
        self.turn[engine], i = line[0], can_go[line]
        self.queues[engine][line].pop(0)
        self.t.start[i], self.t.ready[i] = now, self.ready_at(i) or 0
        self.delay[i] = self.delay_of(engine, i)
        running.append(i)
        return True

    def pick(self, engine: str, can_go: dict[tuple[int, int], int]) -> tuple[int, int]:
        part = self.device.compute if engine == "compute" else self.device.copy_engines
        if part.arbitration == "issue-order":
            return min(can_go, key=lambda line: can_go[line])
        if part.arbitration == "ready-order":
            return min(can_go, key=lambda line: (self.ready_at(can_go[line]), can_go[line]))
        numbers = sorted({queue for queue, _ in can_go})
        queue = next((number for number in numbers if number >= self.turn[engine]), numbers[0])
        return min((line for line in can_go if line[0] == queue), key=lambda line: can_go[line])

    def delay_of(self, engine: str, i: int) -> int:
        """What a copy costs before its bytes flow: more beside one the other way."""
        if engine == "compute":
            return 0
        other = {"h2d": "d2h", "d2h": "h2d"}.get(engine, "")
        need, now = self.need[i], self.t.start[i]
        beside = bool(self.running.get(other))
        quiet, crowded = (
            (need.duplex_latency, need.crowded_duplex_latency) if beside else (need.latency, need.crowded_latency)
        )
        crowd = crowd_of(self.schedule, self.device, self.order, self.arrived, self.t, now)
        return int(quiet + crowd * (crowded - quiet) + oracle.HALF)

    def given(self, running: list[int]) -> dict[int, Fraction]:
        """Earlier kernels take what they can fill, later ones what is left over; a copy takes its engine.

        With few threads held the card does not go at its full pace: to a later kernel what others leave of its pace is
        left, or what its own threads add to that if it is more. Where fewer threads keep the card busy, its pace is
        divided among those on it, in whole parts; who needs the least of what it would get is served first.
        """
        if self.by_warps(running):
            return self.divided(running)
        room, held, given = Fraction(1), Fraction(0), {}
        for i in running:
            need, left = self.need[i], room
            held += need.threads
            if need.threads < held < 1:
                paced = need.pace(held) - (1 - room)
                left = min(room, max(paced, need.pace(held) - need.pace(held - need.threads)))
            given[i] = max(Fraction(1, oracle.PARTS), min(need.share, left))
            room -= given[i]
        return given

    def by_warps(self, running: list[int]) -> bool:
        """Whether a kernel is there that fewer threads than the card's keep busy."""
        return any(self.resident(i) for i in running)

    def resident(self, i: int) -> Fraction:
        """Of the card's threads those of a kernel whose whole launch keeps more of it busy than they are; else 0."""
        op, card = self.ops[i], self.device.compute.resident_threads
        if not isinstance(op, Kernel) or op.duration_s is None or not op.fill or not card or not op.threads:
            return Fraction(0)
        if Fraction(op.threads) / Fraction(op.share) >= Fraction(op.fill) * card:
            return Fraction(0)
        return Fraction(round(Fraction(op.threads, card) * oracle.PARTS), oracle.PARTS)

    def taken(self, running: list[int]) -> Fraction:
        """Of the card's pace, or where fewer threads keep it busy, of its threads."""
        return sum((self.warps if self.by_warps(running) else self.given)(running).values(), Fraction(0))

    def warps(self, running: list[int]) -> dict[int, Fraction]:
        """The threads of each, of which the last to come finds room for a part at least."""
        found: dict[int, Fraction] = {}
        for i in running:
            free = 1 - sum(found.values(), Fraction(0))
            found[i] = max(Fraction(1, oracle.PARTS), min(self.resident(i) or self.need[i].threads, free))
        return found

    def divided(self, running: list[int]) -> dict[int, Fraction]:
        warps, given = self.warps(running), {}
        room, all_warps = Fraction(1), sum(warps.values(), Fraction(0))
        hungry = sorted(running, key=lambda i: self.need[i].share / warps[i])
        while hungry and self.need[hungry[0]].share * all_warps <= room * warps[hungry[0]]:
            i = hungry.pop(0)
            given[i] = self.need[i].share
            room, all_warps = room - given[i], all_warps - warps[i]
        for i in hungry:
            given[i] = Fraction(max(1, room * warps[i] * oracle.PARTS // all_warps), oracle.PARTS)
        return given

    def pass_a_tick(self, now: int) -> None:
        moving = {
            i
            for running in self.running.values()
            for i in running
            if isinstance(self.ops[i], Copy) and self.t.start[i] + self.delay[i] <= now
        }
        for running in self.running.values():
            given = self.given(running)
            for i in running:
                if isinstance(self.ops[i], Kernel) and self.t.start[i] + self.delay[i] <= now:
                    # Alone on an engine that runs one op at a time, a kernel takes its time whatever its share.
                    self.left[i] -= given[i]
                elif i in moving:
                    self.left[i] -= self.need[i].shared if len(moving) > 1 else self.need[i].alone


def tick_by_tick(schedule: Schedule, device: Device) -> oracle.Times:
    """When everything happens, by brute force."""
    return Card(schedule, device).run()
