"""What work that takes long tells of itself: (what is being done, how much of it is, of how much in all)."""

from collections.abc import Callable

OnStep = Callable[[str, int, int], None]


def quietly(_what: str, _done: int, _of_all: int) -> None:
    """Say nothing of it."""
