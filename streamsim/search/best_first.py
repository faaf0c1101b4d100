"""Best-first search: the shortest of many candidates, exact or as far as a budget goes.

A candidate is one way to issue some work: a configuration of a grid, a placement of layers, changes of a program. The
search knows four things of a candidate: a lower bound on its makespan, what its simulation costs, how simple it is, and
how to simulate it.

**Exact.** Candidates are simulated in the order of their bounds, until the bound of the next one is more than a margin
above the shortest makespan found. That makespan is never below the optimum, so every candidate left out has

    makespan >= bound > (1 + margin) x shortest found >= (1 + margin) x optimum

and is neither the optimum nor within the margin of it.

**Within a budget** of simulated ops, a search looks first where good candidates are likely, and then in the order of
the bounds. No candidate is faster than ``floor``: the lowest bound of those left out, or the shortest makespan found.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Progress = Callable[[int, int], None]  # done, of all

C = TypeVar("C")
NEVER = 1 << 62  # ticks
NEAR_PERCENT = 1  # the simplest candidate within this margin of the shortest is the one to use
# SimPy simulates this many ops in 5 to 14 s. Of 200 random workloads on the default grid, none then came out more than
# 0.8 % above the optimum, and three in four were proved to be it: tests/benchmarks/bench_best.py.
BUDGET_OPS = 400_000


def within(ticks: int, shortest: int, percent: int) -> bool:
    """Whether ``ticks`` are at most ``percent`` above ``shortest``."""
    return 100 * ticks <= (100 + percent) * shortest


@dataclass(frozen=True)
class Candidates(Generic[C]):
    """What a search knows of candidates besides their bounds.

    ``ticks``: simulates some. ``cost_ops``: the ops that simulating one costs. ``simplicity``: a key, the lowest for
    the simplest.
    """

    ticks: Callable[[Sequence[C]], list[int]]
    cost_ops: Callable[[C], int]
    simplicity: Callable[[C], Any]


class Search(Generic[C]):
    """A search over candidates. ``took``: the ticks of those simulated; ``shortest``: the fewest of these.

    ``budget_ops``: ``simulate`` and ``finish`` stop there (None: no limit). ``progress`` is told what is
    done, of all: ops of a budget, else candidates of ``count``. ``blocks``: how many candidates are simulated at once,
    first and at most.
    """

    def __init__(
        self,
        candidates: Candidates[C],
        budget_ops: int | None = None,
        progress: Progress | None = None,
        count: int = 0,
        blocks: tuple[int, int] = (1, 1),
    ) -> None:
        self._candidates, self._budget, self._spent = candidates, budget_ops, 0
        self._progress, self._count = progress or (lambda _done, _of_all: None), count
        self._size, self._largest = blocks
        self.took: dict[C, int] = {}
        self.shortest = NEVER
        self._least_left = NEVER

    @property
    def floor(self) -> int:
        """No candidate is faster than this many ticks, provided that the search has been offered all of them."""
        return min(self.shortest, self._least_left)

    def simulate(self, some: Iterable[tuple[int, C]], percent: int | None = 0) -> None:
        """Simulate, block by block, what may be within ``percent`` of the optimum, as far as the budget goes.

        ``some``: bounds and candidates. ``percent``: None: only what may be faster than all found before.
        """
        worth = self._worth(some, percent)
        while block := list(islice(worth, self._size)):
            self._run(block)
            self._size = min(2 * self._size, self._largest)

    def finish(self, ascending: Iterable[tuple[int, C]], percent: int | None) -> None:
        """Simulate candidates, the lowest bound first, until one is not worth it or more than the budget pays for."""
        self.simulate(self._open(ascending, percent), percent)

    def evaluate(self, some: Sequence[C]) -> None:
        """Simulate all of ``some`` at once, whatever the budget."""
        if some:
            self._spent += sum(map(self._cost, some))
            self._run(some)

    def _run(self, some: Sequence[C]) -> None:
        ticks = self._candidates.ticks(some)
        self.took.update(zip(some, ticks, strict=True))
        self.shortest = min(self.shortest, *ticks)
        if self._budget is None:
            self._progress(len(self.took), max(self._count, len(self.took)))
        else:
            self._progress(min(self._spent, self._budget), self._budget)

    def end(self) -> None:
        """Tell the progress that the search has ended."""
        done = self._count if self._budget is None else self._budget
        self._progress(done, done)

    def _open(self, ascending: Iterable[tuple[int, C]], percent: int | None) -> Iterator[tuple[int, C]]:
        for bound, candidate in ascending:
            if candidate in self.took:
                continue
            if not (self._is_worth(bound, percent) and self.affords(candidate)):
                self._least_left = min(self._least_left, bound)
                return
            yield bound, candidate

    def _worth(self, some: Iterable[tuple[int, C]], percent: int | None) -> Iterator[C]:
        for bound, candidate in some:
            if candidate in self.took or not self._is_worth(bound, percent):
                continue
            if self.affords(candidate):
                self._spent += self._cost(candidate)
                yield candidate
            else:
                self._least_left = min(self._least_left, bound)

    def _is_worth(self, bound: int, percent: int | None) -> bool:
        return bound < self.shortest if percent is None else within(bound, self.shortest, percent)

    def affords(self, candidate: C) -> bool:
        """Whether the budget pays for simulating ``candidate``."""
        return self._budget is None or self._spent + self._cost(candidate) <= self._budget

    def _cost(self, candidate: C) -> int:
        return 0 if self._budget is None else self._candidates.cost_ops(candidate)

    def best(self) -> C:
        """Return the shortest that was simulated, of equals the simplest."""
        return min(self.near(0), key=self._candidates.simplicity)

    def best_few(self, few: int) -> list[C]:
        """Return the ``few`` shortest that were simulated, of equals the simplest first."""
        return nsmallest(few, self.took, key=lambda one: (self.took[one], self._candidates.simplicity(one)))

    def near(self, percent: int = NEAR_PERCENT) -> list[C]:
        """Return those that were simulated and are within ``percent`` of the shortest."""
        return [one for one, ticks in self.took.items() if within(ticks, self.shortest, percent)]

    def simplest(self) -> C:
        """Return the simplest of those near the shortest: the one to use; of equals the shortest."""
        return min(self.near(), key=lambda one: (self._candidates.simplicity(one), self.took[one]))

    def is_simplest(self, candidate: C) -> bool:
        """Whether ``candidate`` would be simpler than all that are near the shortest."""
        simplicity = self._candidates.simplicity
        return all(simplicity(candidate) < simplicity(one) for one in self.near())
