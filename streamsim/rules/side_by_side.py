"""Kernels side by side: earlier ones take what they can fill, later ones what is left over, or all by their warps.

The card's schedulers in the large: a later kernel's blocks go where an earlier kernel has no more blocks to put
("leftover policy"), and where both have some the older ones go first. A kernel whose work is done leaves the card to
others, and ends a drain later.

So it is with kernels that need all threads of the card to keep it busy. Of matrix products and their like a few warps a
multiprocessor do: blocks of several are there at once, and the schedulers, which issue from any warp that is ready,
divide themselves among the warps, whichever came first. While the threads of all fit, each of such kernels has its
share of the threads in use, and what one cannot use goes to the others.
"""

from collections.abc import Sequence

FULL_CARD = 1 << 20
PACES = 8  # steps in which the pace of a card is known between no thread and all
PACE = FULL_CARD // PACES  # threads in a step


def idle_with(idle: Sequence[int], held: int) -> int:
    """How much of the card is idle with so many threads of such kernels.

    ``idle``: the same with 0 to ``PACES`` steps of the card's threads; between them on a line.
    """
    step, rest = held // PACE, held % PACE
    more, less = idle[step], idle[step + 1]
    return more - (more - less) * rest // PACE


def warps(threads: int, held: int) -> int:
    """The threads, of the card's, for which there is room beside ``held`` of others; the last to come has some."""
    return max(1, min(threads, FULL_CARD - held))


def suffices(width: int, threads: int, room: int, held: int) -> bool:
    """Whether a kernel's share by its warps, ``threads`` of ``held`` that share ``room``, is all that it can use."""
    return width * held <= room * threads


def by_warps(threads: int, room: int, held: int) -> int:
    """How much of the card a kernel is given of ``room`` that kernels with ``held`` threads share by their warps."""
    return max(1, room * threads // held)


def given(width: int, threads: int, idle: Sequence[int], room: int, held: int) -> int:
    """How much of the card a kernel is given: of ``room`` that earlier kernels leave, at most its ``width``.

    They and it hold so many threads. Until those are all of the card's, the card does not go at its full pace: a later
    kernel has what others leave of that, and no less than its own ``threads`` add.
    """
    if threads < held < FULL_CARD:
        others = idle_with(idle, held)
        room = min(room, max(room, idle_with(idle, held - threads)) - others)
    return max(1, min(width, room))
