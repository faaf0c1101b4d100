"""Long measurements: rounds in shuffled order, and what they report of their progress."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

OnStep = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much in all
T = TypeVar("T")


def quietly(_what: str, _done: int, _of_all: int) -> None:
    """Report nothing."""


def shuffled_rounds(
    items: Sequence[T], rounds: int, rng: random.Random, what: str, on_step: OnStep
) -> Iterator[tuple[int, T]]:
    """Yield the number of the round, from 0 on, and each item of it: all items in every round, in shuffled order."""
    order = list(items)
    for turn in range(rounds):
        rng.shuffle(order)
        for i, item in enumerate(order, turn * len(order)):
            on_step(what, i, rounds * len(order))
            yield turn, item
