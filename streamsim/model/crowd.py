"""How crowded a card is: kernels that wait for copies in several hardware queues make every copy begin later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.model.program import COPIES, CROWD, KERNEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.model.program import Program


class Crowd:
    """Counts the kernels that the card has and that wait for a copy on another engine, as time goes on.

    They wait in at most as many hardware queues as they come through. Kernels come to the card in issue order.
    """

    def __init__(self, program: Program, returned: Sequence[int]) -> None:
        self._copies_of = waiting_for_copies(program)
        self._kernels = sorted(self._copies_of)
        self._place = {op: place for place, op in enumerate(self._kernels)}
        self._most = min(CROWD, len({program.queue[op] for op in self._kernels}))
        self._returned, self._submit = returned, program.submit
        self._here = 0  # so many of them have come
        self._waiting = 0  # and so many of those wait

    def copy_ended(self, kernel: int) -> None:
        """One of the copies that ``kernel`` waits for has ended."""
        left = self._copies_of[kernel] = self._copies_of[kernel] - 1
        if not left and self._place[kernel] < self._here:
            self._waiting -= 1

    def level(self, now: int) -> int:
        """0 (nobody waits, or in one queue only) to ``CROWD - 1`` at the tick ``now``."""
        kernels, returned, latest = self._kernels, self._returned, now - self._submit
        while self._here < len(kernels) and 0 <= returned[kernels[self._here]] <= latest:
            self._waiting += self._copies_of[kernels[self._here]] > 0
            self._here += 1
        waiting, place = self._waiting, self._here
        while place and returned[kernels[place - 1]] > latest:  # another engine has looked further ahead
            place -= 1
            waiting -= self._copies_of[kernels[place]] > 0
        return max(0, min(self._most, waiting) - 1)


def waiting_for_copies(program: Program) -> dict[int, int]:
    """The kernels that wait for copies on another engine, and for how many."""
    kind, engine_of = program.kind, program.engine_of
    found: dict[int, int] = {}
    followers = [(op, after) for op, after in enumerate(program.after) if after >= 0]
    followers += [(op, other) for op, others in program.also.items() for other in others]
    for op, after in followers:
        if kind[after] == KERNEL and kind[op] in COPIES and engine_of[kind[op]] != engine_of[KERNEL]:
            found[after] = found.get(after, 0) + 1
    return found
