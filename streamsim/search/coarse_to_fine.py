"""Search of a grid: exact, or coarse to fine within a budget.

Without a budget, configurations are simulated in the order of their lower bounds (:mod:`~streamsim.search.best_first`),
up to 10 % above the shortest makespan found. This is the widest margin that results report.

SimPy takes minutes for searches that the compiled twin does in a second. It therefore has a budget, spent in this
order:

1. configurations whose numbers of chunks and streams are a power of two, or three times one;
2. neighbours of the best configurations, as long as they lead to better ones;
3. on as many streams as the best configuration, numbers of chunks a sixteenth apart, and neighbours of the best there;
4. configurations of step 1 that are simpler than the simplest one within the least margin, until one is within it;
5. the exact search.

Configurations whose bounds prove them slower are left out. If the exact search fits into the budget, the result is
exact. Otherwise the bounds of the configurations that are left out still show which margins are known: none of them is
within a margin below their bounds.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter

from streamsim.device import Device
from streamsim.program import Config, Workload
from streamsim.search.best_first import NEAR_PERCENT, Candidates, Progress, Search, within
from streamsim.search.evaluate import evaluate_ticks

Bounded = tuple[int, Config]  # a lower bound on its makespan, in ticks

MARGINS_PERCENT = (NEAR_PERCENT, 5, 10)
BLOCKS = {False: (16, 16), True: (256, 4096)}  # configurations simulated at once: the first block and the largest
CONFIG_OPS = 25  # the fixed cost of simulating a configuration, in ops
BEST_FEW = 4  # the number of best configurations whose neighbours are tried
APART = 1 / 16  # relative distance between numbers of chunks in step 3


@dataclass(frozen=True)
class Searched:
    """The result of a search.

    - ``ticks``: the makespans of the simulated configurations.
    - ``left``: lower bounds, ascending, of the configurations that were left out.
    - ``best``: the fastest configuration; of equally fast ones, the simplest.
    - ``simplest``: the simplest configuration within 1 % of the fastest.
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
        """The ticks that no configuration can beat; equal to ``shortest`` if that is proved the optimum."""
        return min(self.shortest, next(iter(self.left.values()), self.shortest))

    @property
    def is_exact(self) -> bool:
        """True if no configuration that was left out can be as fast as the best one."""
        return self.open_within(0) == 0

    def open_within(self, percent: int) -> int:
        """Return how many configurations that were left out may be within ``percent`` of the best one."""
        shortest = self.shortest
        return sum(1 for _ in takewhile(lambda bound: within(bound, shortest, percent), self.left.values()))


def cost_ops(workload: Workload, config: Config) -> int:
    """Return the cost of simulating a configuration, in ops: about its copies and kernels."""
    return CONFIG_OPS + config.chunks * workload.calls_of_chunk


def search(
    workload: Workload,
    device: Device,
    queue: Sequence[Bounded],
    fast: bool,
    budget_ops: int | None = None,
    progress: Progress | None = None,
) -> Searched:
    """Search a ``queue`` of distinct configurations with their lower bounds, the lowest bound first.

    - ``fast``: as for :func:`evaluate`.
    - ``budget_ops``: the number of ops to simulate (None: no limit, so the search is exact). At least one
      configuration is simulated.
    - ``progress``: a function that is called with the amount done and the total: configurations, or ops of a budget.
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
    if not found.took:  # the budget is less than one simulation needs
        found.evaluate([min((config for _, config in queue), key=lambda config: config.chunks)])
    found.end()
    left = {config: bound for bound, config in queue if config not in found.took}
    return Searched(found.took, left, found.best(), found.simplest())


def _look_where_good_ones_are(found: Search[Config], queue: Sequence[Bounded]) -> None:
    places, seen = _Places(queue), set[Config]()

    def climb() -> None:
        """Try the neighbours of the best few, a step away in chunks, streams or both, until none of these is new."""
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
        """Yield the configurations with the same and the next numbers of chunks and streams, of any other choices."""
        for chunks in _around(self._chunks, config.chunks):
            for streams in _around(self._streams[chunks], min(config.streams, chunks)):
                yield from self._at[chunks][streams]

    def along(self, config: Config) -> Iterator[Bounded]:
        """Yield configurations on as many streams (or the next more, or the most), with chunks a sixteenth apart."""
        latest = 0
        for chunks in self._chunks:
            if chunks >= latest * (1 + APART):
                latest, streams = chunks, self._streams[chunks]
                yield from self._at[chunks][streams[_place(streams, min(config.streams, chunks))]]


def _around(numbers: Sequence[int], number: int) -> Sequence[int]:
    """Return the entry of sorted ``numbers`` at :func:`_place`, with the entries beside it."""
    at = _place(numbers, number)
    return numbers[max(0, at - 1) : at + 2]


def _place(numbers: Sequence[int], number: int) -> int:
    """Return the index of ``number`` in sorted ``numbers``, else of the next larger one, else of the last."""
    return min(bisect_left(numbers, number), len(numbers) - 1)


def _coarse(queue: Sequence[Bounded]) -> Iterator[Bounded]:
    """Yield the configurations whose numbers of chunks and streams are both in :func:`_few`, in the same order."""
    chunks = _few({config.chunks for _, config in queue})
    streams = _few({config.streams for _, config in queue})
    return (item for item in queue if item[1].chunks in chunks and item[1].streams in streams)


def _few(numbers: set[int]) -> set[int]:
    """Return the least of ``numbers`` not below n, for each n = 1, 2, 3, 4, 6, 8, 12, 16, ... up to the largest."""
    known = sorted(numbers)
    series = {1, *(base << k for k in range(known[-1].bit_length()) for base in (2, 3))}
    return {known[bisect_left(known, n)] for n in series if n <= known[-1]}
