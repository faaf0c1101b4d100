"""Kernels side by side: earlier ones take what they can fill, later ones what is left over.

The card's schedulers in the large: a later kernel's blocks go where an earlier kernel has no more blocks to put
("leftover policy"), and where both have some the older ones go first. A kernel whose work is done leaves the card to
others, and ends a drain later.
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


def given(width: int, threads: int, idle: Sequence[int], room: int, held: int) -> int:
    """How much of the card a kernel is given: of ``room`` that earlier kernels leave, at most its ``width``.

    They and it hold so many threads. Until those are all of the card's, the card does not go at its full pace: a later
    kernel has what others leave of that, and no less than its own ``threads`` add.
    """
    if threads < held < FULL_CARD:
        others = idle_with(idle, held)
        room = min(room, max(room, idle_with(idle, held - threads)) - others)
    return max(1, min(width, room))
