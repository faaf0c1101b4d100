"""The search for the shortest of many configurations: exact, or exact as far as a budget goes.

**Exact.** Configurations are simulated in ascending order of a lower bound on their makespan (``grid_bounds``),
until the bound of the next one is above 1.10 times the shortest makespan found, 10 % being the widest margin
reported. The shortest makespan found so far is never below the optimum, so every configuration left out has

    makespan >= bound > 1.10 x shortest found >= 1.10 x optimum

and is neither the optimum, nor as good as it, nor within 1, 5 or 10 % of it.

**Within a budget**, of ops to simulate: SimPy takes minutes for what the compiled twin does in a second. First
comes what finds a good configuration soon: those whose numbers of chunks and streams are a power of two or thrice
one, then the neighbours of the best ones for as long as a better one comes of it; then numbers of chunks a sixteenth
apart on as many streams as the best, and the neighbours of what is better there. All leave out what their bounds
prove slower. Then, of the first ones, those that are simpler than the simplest found within the least margin, until
one is within. What is left of the budget goes into the exact search, so a search that fits into it is exact, and one
that does not says of which margins it still is: a bound above a margin proves that nothing left out is within.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from streamsim.search.evaluate import evaluate_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload

    Bounded = tuple[int, Config]  # a lower bound on its makespan, in ticks
    Progress = Callable[[int, int], None]  # done, of all

MARGINS_PERCENT = (1, 5, 10)
BLOCKS = {False: (16, 16), True: (256, 4096)}  # configurations simulated at once: the first block and the largest
# What SimPy simulates in 5 to 14 s. Of 200 random workloads on the default grid none then came out more than 0.8 %
# above the optimum, and three in four were proved to be it: tests/benchmarks/bench_best.py.
BUDGET_OPS = 400_000
CONFIG_OPS = 25  # what a configuration costs beside its ops, in ops
BEST_FEW = 4  # whose neighbours are looked at
APART = 1 / 16  # numbers of chunks on the walk over all of them, relative


@dataclass(frozen=True)
class Searched:
    """What a search knows: the ``ticks`` of what it has simulated, and lower bounds, ascending, of what it left out."""

    ticks: dict[Config, int]
    left: dict[Config, int]

    @cached_property
    def shortest(self) -> int:
        """The shortest makespan found, in ticks."""
        return min(self.ticks.values())

    @property
    def floor(self) -> int:
        """No program is faster than so many ticks; the shortest makespan found where that is proved the optimum."""
        return min(self.shortest, next(iter(self.left.values()), self.shortest))

    @property
    def is_exact(self) -> bool:
        """Whether nothing that was left out is as fast as the shortest found."""
        return self.open_within(0) == 0

    def open_within(self, percent: int) -> int:
        """How many of those left out may be within so many per cent of the shortest makespan found."""
        shortest = self.shortest
        return sum(1 for _ in takewhile(lambda bound: within(bound, shortest, percent), self.left.values()))


def within(ticks: int, shortest: int, percent: int) -> bool:
    """Whether ``ticks`` are at most so many per cent above ``shortest``."""
    return 100 * ticks <= (100 + percent) * shortest


def cost_ops(workload: Workload, config: Config) -> int:
    """What simulating the program costs, in ops: about its copies and kernels."""
    return CONFIG_OPS + config.chunks * workload.calls_of_chunk


def search(
    workload: Workload,
    device: Device,
    queue: Sequence[Bounded],
    fast: bool,
    budget_ops: int | None = None,
    progress: Progress | None = None,
) -> Searched:
    """Search a ``queue`` of configurations with their lower bounds, the lowest bound first, none twice.

    ``fast`` as for :func:`evaluate`. ``budget_ops``: of what is simulated, at least one configuration (None: no limit,
    so the search is exact). ``progress`` is told what is done, of all: configurations or, of a budget, ops.
    """
    found = _Search(workload, device, queue, fast, budget_ops, progress)
    if budget_ops is not None:
        found.simulate(_coarse(queue), 0)
        found.climb()
        found.walk()
        found.climb()
        found.simplify()
    found.simulate(queue, max(MARGINS_PERCENT))
    return found.end()


class _Search:
    def __init__(
        self,
        workload: Workload,
        device: Device,
        queue: Sequence[Bounded],
        fast: bool,
        budget_ops: int | None,
        progress: Progress | None,
    ) -> None:
        self._workload, self._device, self._queue, self._fast = workload, device, queue, fast
        self._budget, self._spent = budget_ops, 0
        self._progress = progress or (lambda _done, _of_all: None)
        self._size, self._largest = BLOCKS[fast]
        self._took: dict[Config, int] = {}
        self._shortest: int | None = None
        self._seen: set[Config] = set()  # those whose neighbours have been looked at

    def simulate(self, some: Iterable[Bounded], percent: int) -> None:
        """Simulate, block by block, what may be within so many per cent of the optimum, as far as the budget goes."""
        worth = self._worth(some, percent)
        while block := list(islice(worth, self._size)):
            self._evaluate(block)
            self._size = min(2 * self._size, self._largest)

    def _worth(self, some: Iterable[Bounded], percent: int) -> Iterator[Config]:
        for bound, config in some:
            if self._shortest is not None and not within(bound, self._shortest, percent):
                continue
            if config not in self._took and self._affords(config):
                yield config

    def _affords(self, config: Config) -> bool:
        if self._budget is None:
            return True
        cost = cost_ops(self._workload, config)
        if self._spent + cost > self._budget:
            return False
        self._spent += cost
        return True

    def _evaluate(self, block: list[Config]) -> None:
        ticks = evaluate_ticks(self._workload, block, self._device, self._fast)
        self._took.update(zip(block, ticks, strict=True))
        self._shortest = min(ticks if self._shortest is None else (self._shortest, *ticks))
        if self._budget is None:
            self._progress(len(self._took), len(self._queue))
        else:
            self._progress(self._spent, self._budget)

    def climb(self) -> None:
        """Look around the best few, until none of them is new: a step in chunks, streams or both."""
        while new := [config for config in self._best(BEST_FEW) if config not in self._seen]:
            self._seen.update(new)
            self.simulate(dict.fromkeys(near for config in new for near in self._places.near(config)), 0)

    def walk(self) -> None:
        """Over all numbers of chunks, on as many streams as the best."""
        for config in self._best(1):
            self.simulate(self._places.along(config), 0)

    @cached_property
    def _places(self) -> _Places:
        return _Places(self._queue)

    def _best(self, few: int) -> list[Config]:
        return nsmallest(few, self._took, key=lambda config: (self._took[config], config.simplicity))

    def simplify(self) -> None:
        """Look for a simpler one within the least margin, the simplest first: few chunks cost few ops."""
        percent = min(MARGINS_PERCENT)
        coarse = sorted(_coarse(self._queue), key=lambda item: item[1].simplicity)
        self.simulate(takewhile(lambda item: self._is_simplest(item[1], percent), coarse), percent)

    def _is_simplest(self, config: Config, percent: int) -> bool:
        """Of all that are within so many per cent of the shortest found, and this one."""
        shortest = self._shortest
        good = (one.simplicity for one, ticks in self._took.items() if within(ticks, shortest or ticks, percent))
        return all(config.simplicity < simplicity for simplicity in good)

    def end(self) -> Searched:
        """What is known now; at least one configuration, even if none fits into the budget."""
        if not self._took:
            self._evaluate([min((config for _, config in self._queue), key=lambda config: config.chunks)])
        if self._budget is None:
            self._progress(len(self._queue), len(self._queue))
        else:
            self._progress(self._budget, self._budget)
        return Searched(self._took, {config: bound for bound, config in self._queue if config not in self._took})


class _Places:
    """Configurations by their numbers of chunks and streams."""

    def __init__(self, queue: Iterable[Bounded]) -> None:
        self._at: dict[int, dict[int, list[Bounded]]] = {}
        for bound, config in queue:
            self._at.setdefault(config.chunks, {}).setdefault(config.streams, []).append((bound, config))
        self._chunks = sorted(self._at)
        self._streams = {chunks: sorted(streams) for chunks, streams in self._at.items()}

    def near(self, config: Config) -> Iterator[Bounded]:
        """Those at the same place and at the next ones, of any order, ring and launch."""
        for chunks in _around(self._chunks, config.chunks):
            for streams in _around(self._streams[chunks], min(config.streams, chunks)):
                yield from self._at[chunks][streams]

    def along(self, config: Config) -> Iterator[Bounded]:
        """Those on as many streams, or else the next more or the most, in numbers of chunks some way apart."""
        latest = 0
        for chunks in self._chunks:
            if chunks >= latest * (1 + APART):
                latest, streams = chunks, self._streams[chunks]
                yield from self._at[chunks][streams[_place(streams, min(config.streams, chunks))]]


def _around(numbers: Sequence[int], number: int) -> Sequence[int]:
    """The one of sorted ``numbers`` that is ``number``, or else the next above it or the last; and those beside it."""
    at = _place(numbers, number)
    return numbers[max(0, at - 1) : at + 2]


def _place(numbers: Sequence[int], number: int) -> int:
    """Where among sorted ``numbers`` stands ``number``, or else the next above it, or the last."""
    return min(bisect_left(numbers, number), len(numbers) - 1)


def _coarse(queue: Sequence[Bounded]) -> Iterator[Bounded]:
    """Those whose numbers of chunks and streams are among a few, in the same order."""
    chunks = _few({config.chunks for _, config in queue})
    streams = _few({config.streams for _, config in queue})
    return (item for item in queue if item[1].chunks in chunks and item[1].streams in streams)


def _few(numbers: set[int]) -> set[int]:
    """For each of 1, 2, 3, 4, 6, 8, 12, 16, ... up to the largest of ``numbers``, the least of them not below it."""
    known = sorted(numbers)
    series = {1, *(base << k for k in range(known[-1].bit_length()) for base in (2, 3))}
    return {known[bisect_left(known, n)] for n in series if n <= known[-1]}
