"""How crowded the card is: the kernels on it that wait for copies, which make copies begin later."""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from streamsim.lowering.costs import COPIES, KERNEL
from streamsim.rules.link import level

if TYPE_CHECKING:
    from streamsim.lowering.lowered import Lowered


class Crowd:
    """Counts the kernels on the card that wait for a copy on another engine.

    A kernel waits from the tick at which the card has it for as long as one of its copies has not ended.
    """

    def __init__(self, lowered: Lowered) -> None:
        # Whether any copy begins later for it: otherwise there is nothing to count.
        self.matters = len(lowered.engine_names) > 1 and any(shape.rate.feels_crowds for shape in lowered.shapes)
        if not self.matters:
            return
        self._after, self._also = lowered.after, lowered.also.by_op()
        self._copies = copies_waited_for(lowered)  # by kernel: for how many copies it still waits
        self._queues = len({lowered.queue[op] for op, copies in enumerate(self._copies) if copies})
        self._coming: list[tuple[int, int]] = []  # a heap of (tick, kernel): those that the card will have
        self._here: set[int] = set()  # kernels that have come and wait

    def comes(self, kernel: int, on_card: int) -> None:
        """The card will have ``kernel`` at the tick ``on_card``."""
        if self._copies[kernel]:
            heappush(self._coming, (on_card, kernel))

    def copy_ended(self, copy: int) -> None:
        """What waits for ``copy`` waits for one copy less."""
        after = self._after[copy]
        if after >= 0:
            self._waits_less(after)
        if copy in self._also:
            for op in self._also[copy]:
                self._waits_less(op)

    def _waits_less(self, op: int) -> None:
        if self._copies[op]:
            self._copies[op] -= 1
            if not self._copies[op]:
                self._here.discard(op)

    def level(self, now: int) -> int:
        """How crowded the card is at the tick ``now``: see :mod:`streamsim.rules.link`."""
        if not self.matters:
            return 0
        while self._coming and self._coming[0][0] <= now:
            _, kernel = heappop(self._coming)
            if self._copies[kernel]:
                self._here.add(kernel)
        return level(len(self._here), self._queues)


def copies_waited_for(lowered: Lowered) -> array[int]:
    """For how many copies on another engine every op waits, if it is a kernel."""
    kind, engine_of = lowered.kind, lowered.engine_of
    waits = array("i", [0]) * len(kind)
    elsewhere = [its in COPIES and engine_of[its] != engine_of[KERNEL] for its in range(len(engine_of))]
    for op, after in enumerate(lowered.after):
        if after >= 0 and kind[after] == KERNEL:
            waits[after] += elsewhere[kind[op]]
    for before, op in zip(*lowered.also, strict=True):
        waits[op] += kind[op] == KERNEL and elsewhere[kind[before]]
    return waits
