"""How crowded a card is: while kernels wait for copies in several hardware queues, copies begin later."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import compress, count
from typing import TYPE_CHECKING

from streamsim.lowering.costs import COPIES, CROWD, KERNEL
from streamsim.model.queues import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.lowering.lowered import Lowered

CopyEnded = Callable[[int], None]  # a function of the kernel that has waited for the copy
Level = Callable[[int], int]  # a function of a tick


def crowd(program: Lowered, returned: Sequence[int]) -> tuple[CopyEnded, Level]:  # noqa: C901 (five functions)
    """Make ``copy_ended(kernel)`` and ``level(now)``: they count the kernels on the card that wait for a copy.

    A kernel is on the card ``program.submit`` ticks after its call has ``returned``, and it waits for as long as
    one of its copies, on another engine, has not ended. Kernels come to the card in issue order, and wait in at most
    as many hardware queues as they come through.
    """
    copies_of = waiting_for_copies(program)
    kernels = array("i", compress(count(), copies_of))
    most = min(CROWD, len({program.queue[op] for op in kernels}))
    here = waiting = 0  # so many kernels have come, and so many of those wait
    latest = comes = -1  # when the last one of them came, and when the next one will, if that is known

    def copy_ended(kernel: int) -> None:
        """One of the copies that ``kernel`` waits for has ended."""
        nonlocal waiting
        left = copies_of[kernel] = copies_of[kernel] - 1
        if not left and here and kernel <= kernels[here - 1]:
            waiting -= 1

    def level(now: int) -> int:
        """0 (nobody waits, or in one queue only) to ``CROWD - 1`` at the tick ``now``."""
        if comes <= now:
            come(now)
        then = waiting if latest <= now else waiting_at(now)
        if then <= 1:
            return 0
        return (then if then < most else most) - 1

    def come(now: int) -> None:
        """Count the kernels that have come by the tick ``now``."""
        nonlocal here, waiting, latest, comes
        comes = arrival(here)
        while 0 <= comes <= now:
            waiting += copies_of[kernels[here]] > 0
            here += 1
            latest, comes = comes, arrival(here)

    def arrival(place: int) -> int:
        """When a kernel comes, or -1 if its call has not been made yet."""
        if place == len(kernels):
            return FOREVER
        at = returned[kernels[place]]
        return at + program.submit if at >= 0 else -1

    def waiting_at(now: int) -> int:
        """How many waited at a tick, when another engine has looked further ahead."""
        then, place = waiting, here
        while place and arrival(place - 1) > now:
            place -= 1
            then -= copies_of[kernels[place]] > 0
        return then

    return copy_ended, level


def waiting_for_copies(program: Lowered) -> array[int]:
    """For how many copies on another engine every op waits, if it is a kernel."""
    kind, after, engine_of = program.kind, program.after, program.engine_of
    waits = array("i", [0]) * len(kind)
    elsewhere = [copy in COPIES and engine_of[copy] != engine_of[KERNEL] for copy in range(256)]
    is_copy = kind.translate(bytes(elsewhere))
    for follower in compress(after, is_copy):
        if follower >= 0 and kind[follower] == KERNEL:
            waits[follower] += 1
    for op, others in program.also.items():
        for other in others if is_copy[op] else ():
            waits[other] += kind[other] == KERNEL
    return waits
