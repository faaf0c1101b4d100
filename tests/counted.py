"""Work counted instead of timed: how many lines Python runs. The same on every machine, every time.

Each turn of a loop counts, also of one within a line. What C does for a line (a sort, a copy of a list) counts as one
whatever its size, so a law that counts is for loops in Python.
"""

import sys
from collections.abc import Callable
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """The lines that ``work`` takes, in this thread."""
    count = 0

    def trace(_: Any, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times the steps of ``work(size)`` it takes with twice the size: 2 where they are in proportion."""
    once, twice = work(size), work(2 * size)
    return steps(twice) / steps(once)
