"""Every execution of a small program, one by one: the third opinion on races, which reasons about nothing.

A machine of threads and streams makes one move at a time. A move is a moment of an op: ``call`` and ``return`` of the
call, ``start`` and ``end`` of what it puts into its stream, ``stage`` and ``staged`` of a copy out of pageable memory,
between which the host reads that memory. What each move must wait for is CUDA's promise, looked up in the state that
the machine is in. All states that any order of moves can reach are visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from streamsim.program import Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent, WaitThread

Moment = tuple[str, int]  # such as ("start", 3)
State = frozenset[Moment]  # the moments that have been
Command = Copy | Kernel | RecordEvent | WaitEvent


class Access(NamedTuple):
    """An op reads or writes ``region`` from the moment ``begins`` until the moment ``ends``."""

    region: Region
    writes: bool
    begins: Moment
    ends: Moment

    def clashes(self, later: Access) -> bool:
        mine, other = self.region, later.region
        apart = mine.offset + mine.bytes <= other.offset or other.offset + other.bytes <= mine.offset
        return mine.buffer == other.buffer and not apart and (self.writes or later.writes)


class Machine:
    """A program and the moves that a state of it allows."""

    def __init__(self, program: Schedule) -> None:
        self.ops: tuple[Op, ...] = program.ops
        self.minds_legacy = {0, *(n for n, kind in enumerate(program.streams, 1) if kind == "blocking")}
        self.pageable = {buffer.name for buffer in program.buffers if buffer.memory == "pageable"}

    def moments(self, i: int) -> tuple[str, ...]:
        if not isinstance(self.ops[i], Command):
            return "call", "return"
        staging = ("stage", "staged") if self.is_staged(i) else ()
        return "call", *staging, "start", "end", "return"

    def is_staged(self, i: int) -> bool:
        """Whether the host reads pageable memory during the call."""
        op = self.ops[i]
        return (
            isinstance(op, Copy) and op.direction == "h2d" and op.host is not None and op.host.buffer in self.pageable
        )

    def holds(self, i: int) -> bool:
        """Whether the call of a copy returns no sooner than the copy ends."""
        op = self.ops[i]
        if not isinstance(op, Copy):
            return False
        if self.is_staged(i):
            return op.blocking and op.stream != 0  # cudaMemcpy returns once all is staged
        return op.blocking or (op.host is not None and op.host.buffer in self.pageable)

    def allows(self, state: State, moment: Moment) -> bool:
        kind, i = moment
        if kind == "call":
            return all(("return", j) in state for j in range(i) if self.ops[j].thread == self.ops[i].thread)
        if ("call", i) not in state:
            return False
        if kind == "stage":  # whatever is in the stream: a small copy is read at once
            return True
        if kind == "staged":
            return ("stage", i) in state
        if kind == "start":
            return self._is_next(state, i) and self._event_has_come(state, i)
        if kind == "end":
            return ("start", i) in state and (not self.is_staged(i) or ("staged", i) in state)
        return self._returns(state, i)

    def _is_next(self, state: State, i: int) -> bool:
        """Whether all commands that stand before op i in its stream have ended."""
        return all(("end", j) in state for j in self._ahead(i, self.ops[i].stream))

    def _ahead(self, i: int, stream: int | None) -> Iterator[int]:
        for j, op in enumerate(self.ops[:i]):
            if isinstance(op, Command):
                both = {op.stream, stream}
                if len(both) == 1 or (0 in both and both <= self.minds_legacy):
                    yield j

    def _event_has_come(self, state: State, i: int) -> bool:
        op = self.ops[i]
        return not isinstance(op, WaitEvent) or all(("end", j) in state for j in self._record(i, op.event))

    def _record(self, i: int, event: int) -> list[int]:
        return [j for j, op in enumerate(self.ops[:i]) if isinstance(op, RecordEvent) and op.event == event][-1:]

    def _returns(self, state: State, i: int) -> bool:
        op = self.ops[i]
        if isinstance(op, WaitThread):
            return all(("return", j) in state for j in range(i) if self.ops[j].thread == op.other)
        if isinstance(op, Synchronize):
            return all(("end", j) in state for j in self._awaited(i, op))
        return (not self.is_staged(i) or ("staged", i) in state) and (not self.holds(i) or ("end", i) in state)

    def _awaited(self, i: int, op: Synchronize) -> list[int]:
        if op.event is not None:
            return self._record(i, op.event)
        if op.stream is not None:
            return list(self._ahead(i, op.stream))
        return [j for j in range(i) if isinstance(self.ops[j], Command)]

    def accesses(self, i: int) -> Iterator[Access]:
        op, on_card = self.ops[i], (("start", i), ("end", i))
        if isinstance(op, Kernel):
            yield from (Access(region, False, *on_card) for region in op.reads)
            yield from (Access(region, True, *on_card) for region in op.writes)
        elif isinstance(op, Copy):
            if op.device is not None:
                yield Access(op.device, op.direction == "h2d", *on_card)
            if op.host is not None:
                span = (("stage", i), ("staged", i)) if self.is_staged(i) else on_card
                yield Access(op.host, op.direction == "d2h", *span)


def states(program: Schedule) -> set[State]:
    """Every state that some execution goes through."""
    machine = Machine(program)
    moves = [(kind, i) for i in range(len(program)) for kind in machine.moments(i)]
    found: set[State] = {frozenset()}
    todo = list(found)
    while todo:
        state = todo.pop()
        for move in moves:
            if move not in state and machine.allows(state, move):
                reached = state | {move}
                if reached not in found:
                    found.add(reached)
                    todo.append(reached)
    assert frozenset(moves) in found, "no program hangs"
    return found


def races(program: Schedule) -> set[tuple[int, int]]:
    """Every pair of ops of which the later one touches bytes while the earlier one may not have done with them."""
    machine = Machine(program)
    pairs = ((i, j) for j in range(len(program)) for i in range(j))
    clashing = {
        (i, j): [(a.ends, b.begins) for a, b in product(machine.accesses(i), machine.accesses(j)) if a.clashes(b)]
        for i, j in pairs
    }
    reached = states(program) if any(clashing.values()) else set()
    return {
        pair
        for pair, spans in clashing.items()
        if any(begins in state and ends not in state for ends, begins in spans for state in reached)
    }
