"""Kernels side by side: how much of the card each gets.

Most kernels need all threads of the card to keep it busy. Among them, the one that started first takes what it can use,
and a later one gets what is left ("leftover policy"). A kernel whose work is done gives its share to others, and ends a
drain later.

Kernels such as matrix products keep the card busy with a few warps on each multiprocessor. Blocks of several such
kernels are there at once, and the schedulers issue from any warp that is ready, whichever kernel came first. So each
kernel gets its share of the threads in use. What one cannot use goes to the others.
"""

from collections.abc import Sequence

FULL_CARD = 1 << 20
PACES = 8  # steps from no thread to all threads, at which the card's pace is known
PACE = FULL_CARD // PACES  # threads in a step


def idle_with(idle: Sequence[int], held: int) -> int:
    """Return how much of the card is idle with ``held`` threads in use.

    ``idle``: how much is idle with 0 to ``PACES`` steps of the card's threads. Values between them lie on a line.
    """
    step, rest = held // PACE, held % PACE
    more, less = idle[step], idle[step + 1]
    return more - (more - less) * rest // PACE


def warps(threads: int, held: int) -> int:
    """Return how many of a kernel's ``threads`` have room beside ``held`` others: one at least."""
    return max(1, min(threads, FULL_CARD - held))


def suffices(width: int, threads: int, room: int, held: int) -> bool:
    """Tell whether a kernel with ``threads`` of the ``held`` threads that share ``room`` gets all that it can use."""
    return width * held <= room * threads


def by_warps(threads: int, room: int, held: int) -> int:
    """Return a kernel's part of ``room``, which kernels with ``held`` threads share by their warps."""
    return max(1, room * threads // held)


def given(width: int, threads: int, idle: Sequence[int], room: int, held: int) -> int:
    """Return how much of the card a kernel gets of the ``room`` that earlier kernels leave: at most its ``width``.

    ``held``: the threads of this kernel and the earlier ones. While they are not all of the card's threads, the card
    does not work at its full pace. Then a later kernel gets what others leave of that pace, and at least the pace that
    its own ``threads`` add.
    """
    if threads < held < FULL_CARD:
        others = idle_with(idle, held)
        room = min(room, max(room, idle_with(idle, held - threads)) - others)
    return max(1, min(width, room))
