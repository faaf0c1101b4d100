"""How crowded a card is: kernels that wait in several hardware queues make every copy begin later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.model.program import CROWD, KERNEL, Program, Rate

if TYPE_CHECKING:
    from collections.abc import Sequence


class Crowd:
    """Counts the kernels that the card has and has not started, as time goes on.

    They wait in at most as many hardware queues as the kernels of the program use.
    """

    def __init__(self, program: Program, returned: Sequence[int]) -> None:
        self._kernels = [op for op, kind in enumerate(program.kind) if kind == KERNEL]
        self._most = min(CROWD, len({program.queue[op] for op in self._kernels}))
        self._returned, self._submit = returned, program.submit
        self._arrived = self._started = self._started_before = 0
        self._tick = -1  # of the latest start

    def kernel_started(self, now: int) -> None:
        """A kernel starts: from the next tick on it does not wait."""
        if now > self._tick:
            self._tick, self._started_before = now, self._started
        self._started += 1

    def latency(self, rate: Rate, duplex: bool, now: int) -> int:
        """Ticks before the bytes flow of a copy that starts now."""
        quiet, crowded = (
            (rate.duplex_latency, rate.crowded_duplex_latency) if duplex else (rate.latency, rate.crowded_latency)
        )
        queues = min(self._most, self._waiting(now)) - 1
        if queues <= 0:
            return quiet
        return quiet + (2 * (crowded - quiet) * queues + CROWD - 1) // (2 * (CROWD - 1))

    def _waiting(self, now: int) -> int:
        kernels, returned, arrived = self._kernels, self._returned, self._arrived
        while arrived < len(kernels) and 0 <= returned[kernels[arrived]] <= now - self._submit:
            arrived += 1
        self._arrived = arrived
        return arrived - (self._started_before if self._tick == now else self._started)


def matters(program: Program) -> bool:
    """Whether anything in the program can crowd the card, and any copy would feel it."""
    if len({program.queue[op] for op, kind in enumerate(program.kind) if kind == KERNEL}) < 2:
        return False
    rates = (shape.rate for shape in program.shapes)
    return any((r.latency, r.duplex_latency) != (r.crowded_latency, r.crowded_duplex_latency) for r in rates)
