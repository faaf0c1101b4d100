"""The search of a grid: exact, or coarse to fine within a budget.

Without a budget, configurations are simulated in the order of their lower bounds (:mod:`~streamsim.search.best_first`),
up to 10 % above the shortest makespan found: the widest margin reported.

SimPy takes minutes for what the compiled twin does in a second, so it has a budget. First come the configurations whose
numbers of chunks and streams are a power of two or thrice one. Then come the neighbours of the best ones, for as long
as a better one comes of it; then numbers of chunks a sixteenth apart on as many streams as the best, and the neighbours
of what is better there. Configurations whose bounds prove them slower are left out. Then come, of the first ones, those
that are simpler than the simplest found within the least margin, until one is within. What is left of the budget goes
into the exact search. So a search that fits into the budget is exact, and one that does not says of which margins it
still is: a bound above a margin proves that nothing left out is within.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from streamsim.program.config import Config
from streamsim.search.best_first import NEAR_PERCENT, Candidates, Search, within
from streamsim.search.evaluate import evaluate_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.workload import Workload
    from streamsim.search.best_first import Progress

    Bounded = tuple[int, Config]  # a lower bound on its makespan, in ticks

MARGINS_PERCENT = (NEAR_PERCENT, 5, 10)
BLOCKS = {False: (16, 16), True: (256, 4096)}  # configurations simulated at once: the first block and the largest
CONFIG_OPS = 25  # what a configuration costs beside its ops, in ops
BEST_FEW = 4  # whose neighbours are looked at
APART = 1 / 16  # numbers of chunks on the walk over all of them, relative


@dataclass(frozen=True)
class Searched:
    """What a search knows: the ``ticks`` of what it has simulated, and lower bounds, ascending, of what it left out.

    ``best``: the shortest, of equals the simplest; ``simplest``: the simplest within 1 % of it.
    """

    ticks: dict[Config, int]
    left: dict[Config, int]
    best: Config
    simplest: Config

    @property
    def shortest(self) -> int:
        """The shortest makespan found, in ticks."""
        return self.ticks[self.best]

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
    candidates = Candidates(
        lambda block: evaluate_ticks(workload, block, device, fast),
        lambda config: cost_ops(workload, config),
        attrgetter("simplicity"),
    )
    found = Search(candidates, budget_ops, progress, len(queue), BLOCKS[fast])
    if budget_ops is not None:
        _look_where_good_ones_are(found, queue)
    found.simulate(queue, max(MARGINS_PERCENT))
    if not found.took:  # the budget pays for none
        found.evaluate([min((config for _, config in queue), key=lambda config: config.chunks)])
    found.end()
    left = {config: bound for bound, config in queue if config not in found.took}
    return Searched(found.took, left, found.best(), found.simplest())


def _look_where_good_ones_are(found: Search[Config], queue: Sequence[Bounded]) -> None:
    places, seen = _Places(queue), set[Config]()

    def climb() -> None:
        """Look around the best few, until none of them is new: a step in chunks, streams or both."""
        while new := [config for config in found.best_few(BEST_FEW) if config not in seen]:
            seen.update(new)
            found.simulate(dict.fromkeys(near for config in new for near in places.near(config)))

    coarse = list(_coarse(queue))
    found.simulate(coarse)
    climb()
    for config in found.best_few(1):
        found.simulate(places.along(config))
    climb()
    coarse.sort(key=lambda item: item[1].simplicity)  # few chunks cost few ops
    found.simulate(takewhile(lambda item: found.is_simplest(item[1]), coarse), NEAR_PERCENT)


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
