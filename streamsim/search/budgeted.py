"""Simulations of candidates within a budget, and what they found.

A candidate is one way to issue some work: a configuration of a grid, a placement of layers, or changes of a program.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Generic, TypeVar

Progress = Callable[[int, int], None]  # takes the amount done and the total

C = TypeVar("C")
NEVER = 1 << 62  # ticks
NEAR_PERCENT = 1  # the simplest candidate within this margin of the shortest is the one to use
BUDGET_OPS = 400_000  # SimPy simulates this many ops in 5 to 14 s


def within(ticks: int, shortest: int, percent: int) -> bool:
    """Return True if ``ticks`` are at most ``percent`` above ``shortest``."""
    return 100 * ticks <= (100 + percent) * shortest


class Search(Generic[C]):
    """The simulated candidates of a search.

    - ``took``: the makespans of the simulated candidates, in ticks; ``shortest``: the least of them.
    - ``simulated``: simulates candidates and returns their makespans, in ticks.
    - ``cost_ops``: returns the cost of simulating a candidate, in ops of SimPy.
    - ``simplicity``: returns a sort key, the lowest for the simplest candidate.
    - ``budget_ops``: the ops after which ``simulate`` stops (None: no limit).
    - ``progress``: a function that is called with the ops done and in all, at most the budget.
    - ``block_ops``: the ops that are simulated at once.
    - ``near_percent``: how near the fastest candidate the simplest one is.
    """

    def __init__(
        self,
        simulated: Callable[[Sequence[C]], list[int]],
        cost_ops: Callable[[C], float],
        simplicity: Callable[[C], Any],
        budget_ops: float | None = None,
        progress: Progress | None = None,
        block_ops: float = 0,
        near_percent: int = NEAR_PERCENT,
    ) -> None:
        self._simulated, self._cost_ops, self._simplicity = simulated, cost_ops, simplicity
        self._progress = progress or (lambda _done, _of_all: None)
        self._block_ops, self.near_percent = block_ops, near_percent
        self._budget_ops = math.inf if budget_ops is None else budget_ops
        self.spent_ops = 0.0
        self.total_ops = self._budget_ops  # all that may be simulated, as far as it is known
        self.took: dict[C, int] = {}
        self.shortest = NEVER

    @property
    def left_ops(self) -> float:
        """The ops that are left of the budget."""
        return self._budget_ops - self.spent_ops

    def cost_ops(self, some: Iterable[C]) -> float:
        """Return the cost in ops of simulating all of ``some``."""
        return sum(map(self._cost_ops, some))

    def simulate(self, some: Iterable[C]) -> None:
        """Simulate those candidates that are new and that the budget allows."""
        block, block_ops = dict[C, None](), 0.0
        for candidate in some:
            with_this = block_ops + self._cost_ops(candidate)
            if candidate in self.took or candidate in block or with_this > self.left_ops:
                continue
            block[candidate], block_ops = None, with_this
            if block_ops >= self._block_ops:
                self.evaluate(list(block))
                block, block_ops = {}, 0.0
        self.evaluate(list(block))

    def evaluate(self, some: Sequence[C]) -> None:
        """Simulate all of ``some`` at once, even beyond the budget."""
        if some:
            self.spent_ops += self.cost_ops(some)
            ticks = self._simulated(some)
            self.took.update(zip(some, ticks, strict=True))
            self.shortest = min(self.shortest, *ticks)
            total_ops = self.spent_ops if self.total_ops == math.inf else self.total_ops
            self._progress(round(min(self.spent_ops, total_ops)), round(total_ops))

    def best(self) -> C:
        """Return the fastest simulated candidate; of equally fast ones, the simplest."""
        return min(self.near(0), key=self._simplicity)

    def best_few(self, few: int) -> list[C]:
        """Return the ``few`` fastest simulated candidates; of equally fast ones, the simplest first."""
        return nsmallest(few, self.took, key=lambda one: (self.took[one], self._simplicity(one)))

    def near(self, percent: int) -> list[C]:
        """Return the simulated candidates within ``percent`` of the fastest."""
        return [one for one, ticks in self.took.items() if within(ticks, self.shortest, percent)]

    def simplest(self) -> C:
        """Return the simplest candidate near the fastest, the one to use; of equally simple ones, the fastest."""
        return min(self.near(self.near_percent), key=lambda one: (self._simplicity(one), self.took[one]))
