"""Search of a grid for the best way to cut and issue a workload on a device.

Programs are simulated from coarse to fine:

1. those whose numbers of chunks and streams lie a fixed ratio apart, with ever smaller ratios down to all programs, as
   long as half of the budget that is left allows it, or for all programs the whole;
2. neighbours of the best programs and of the simplest one near the best, as long as they lead to better ones;
3. on as many streams as the best program, numbers of chunks a sixteenth apart, and neighbours of the best there.

Programs of as many chunks share a bound: no way to issue them is faster (:mod:`streamsim.analysis.work_bound`). What is
more than 10 % slower by its bound is not simulated; this is the widest margin that results report. If the budget allows
all others, which is usual with the compiled twin, the result is that of simulating the whole grid. Otherwise the bounds
of what was left out show which margins are known.

If configurations take equally long, the simplest one wins: fewest chunks, then fewest streams, then no ring of buffers
or the smallest ring, depth-first before breadth-first, issued live before a graph.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

from streamsim.analysis import chunk_bounds, predict, work_bound
from streamsim.device import Device, as_device, link_words, written_in
from streamsim.program import Config, Workload, most_streams
from streamsim.rules import TICKS_PER_S
from streamsim.search.evaluate import evaluate_ticks, is_fast, simulation_costs
from streamsim.search.grid import Grid
from streamsim.search.searches import (
    BUDGET_OPS,
    FASTER,
    NEAR_PERCENT,
    RANGE_PERCENT,
    Best,
    Flatness,
    Progress,
    Search,
    SimulatedProgram,
    near_percent,
    with_one_thing_faster,
    within,
)

DEFAULT_CHUNKS, DEFAULT_STREAMS = 4, 4  # the usual numbers of examples and tutorials
MARGINS_PERCENT = (NEAR_PERCENT, 5, 10)
BLOCK_OPS = 8_000  # simulated at once: some tenths of a second
RATIOS = (4.0, 1.5, 1.12)  # of numbers in step 1
APART = 1 / 16  # relative distance between numbers of chunks in step 3
BEST_FEW = 4  # the number of best programs whose neighbours are tried


def best(
    workload: Workload,
    device: Device | str | Path,
    grid: Grid | None = None,
    progress: Progress | None = None,
    fast: bool | None = None,
    budget_ops: int | None = BUDGET_OPS,
) -> Best[Config]:
    """Find the optimum of ``grid`` for ``workload`` on ``device``.

    - ``device``: a Device, or the name or file of one. Its calls are those of the workload's front end, unless the
      device has those of another one.
    - ``grid``: default 1 to 256 chunks and 1 to 32 streams, depth-first and breadth-first.
    - ``progress``: a function that is called with the amount done and the total.
    - ``fast``: as for :func:`evaluate`.
    - ``budget_ops``: the number of ops that SimPy may simulate (None: no limit); the compiled twin may simulate over a
      hundred times as many. If the budget ends the search, the result need not be exact.

    Raises InputError for an empty grid, an unknown device or front end, and a kernel without a cost.
    """
    device = written_in(as_device(device), workload.front_end)
    grid = (grid or Grid()).within(device.memory_bytes)
    fast = is_fast() if fast is None else fast
    (configs, left_out), usual = grid.parted(workload), _usual(workload, grid)
    found = GridSearch(workload, device, configs, fast, budget_ops, progress)
    found.run()
    winner, simplest = found.best(), found.simplest()
    usual_ticks = found.took.get(usual) or evaluate_ticks(workload, [usual], device, fast)[0]
    left_open = len(found.open_within(found.widest_percent))
    prediction = predict(winner.schedule(workload), device)
    shares = {
        percent: None if found.open_within(percent) else len(found.near(percent)) / len(configs)
        for percent in MARGINS_PERCENT
    }

    def result(config: Config, ticks: int) -> SimulatedProgram[Config]:
        is_alike = config.memory == winner.memory and (config.chunks == winner.chunks or not workload.host_work_s)
        serial_s = prediction.serial_s if is_alike else predict(config.schedule(workload), device).serial_s
        return SimulatedProgram(config, config.words, ticks / TICKS_PER_S, serial_s, config.device_bytes(workload))

    best, usually = result(winner, found.shortest), result(usual, usual_ticks)
    works = usually.serial_s != best.serial_s and usual.memory == winner.memory
    worked = f" with the host work of {winner.chunks} chunks" if works else ""
    serial_words = f"not cut{worked}, blocking copies"
    serial = SimulatedProgram(None, serial_words, prediction.serial_s, device_bytes=prediction.serial_device_bytes)
    kernels = (kernel.scaled(1 / FASTER) if kernel.is_timed else kernel for kernel in workload.kernels)
    shorter = msgspec.structs.replace(workload, kernels=tuple(kernels))
    variations = with_one_thing_faster(workload, shorter, device)
    return Best(
        best=best,
        simplest=result(simplest, found.took[simplest]),
        compared={"serial": serial, "usual": usually},
        work=msgspec.structs.replace(workload, front_end=""),  # the card has the calls of that front end
        card=device,
        link=link_words(device, grid.memory == "pageable"),
        programs=len(configs),
        simulated=len(found.took),
        left_open=left_open,
        left_open_because=f"the budget of {budget_ops} simulated ops is spent" if left_open else None,
        exact=not found.open_within(0),
        simplest_exact=not found.open_within(found.near_percent),
        floor_s=found.floor / TICKS_PER_S,
        work_bound=min(
            (work_bound(workload, device, grid.memory, launch) for launch in grid.launch), key=attrgetter("seconds")
        ),
        issued_bound=prediction.issued_bound,
        critical_s=prediction.critical_s,
        faster_s={
            name: evaluate_ticks(work, [winner], card, fast)[0] / TICKS_PER_S
            for name, (work, card) in variations.items()
        },
        compiled=fast,
        memory_bytes=grid.memory_limit_bytes,
        grid=grid,
        flatness=Flatness(shares, _chunks_within(found, winner)),
        left_out_whys=left_out,
        most_chunks=grid.most_chunks(workload),
    )


class GridSearch(Search[Config]):
    """A search of distinct configurations within a budget.

    - ``fast``: as for :func:`evaluate`.
    - ``budget_ops``: the number of ops of SimPy (None: no limit). At least one configuration is simulated.
    - ``progress``: a function that is called with the ops done and the ops in all.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        configs: Sequence[Config],
        fast: bool,
        budget_ops: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(
            lambda some: evaluate_ticks(workload, some, device, fast),
            lambda some: simulation_costs(workload, some, device, fast),
            attrgetter("simplicity"),
            budget_ops,
            progress,
            BLOCK_OPS,
            near_percent(device),
        )
        self.places, self.widest_percent = _Places(configs), max(*MARGINS_PERCENT, self.near_percent)
        self._bounds = {
            way: chunk_bounds(workload, device, self.places.numbers, *way)
            for way in {(config.memory, config.launch) for config in configs}
        }

    def run(self) -> None:
        """Simulate all that may be within the widest margin, or as much as the budget allows."""
        for ratio in RATIOS:
            some = self.open_within(self.widest_percent, self.places.coarse(ratio))
            if self.cost_ops(some) > self.left_ops / 2:
                break
            self.simulate(some)
        rest = self.open_within(self.widest_percent)
        if (cost := self.cost_ops(rest)) <= self.left_ops:
            self.total_ops = min(self.total_ops, self.spent_ops + cost)
            self.simulate(rest)
            return
        if not self.took:  # the budget is less than a few simulations need
            self.evaluate([min(rest, key=attrgetter("chunks"))])
        self._climb()
        self.simulate(self.open_within(0, self.places.along(self.best())))
        self._climb()

    def _climb(self) -> None:
        """Try the neighbours of the best few and the simplest, a step in chunks, streams or both, while any is new."""
        seen = set[Config]()
        while new := [config for config in (*self.best_few(BEST_FEW), self.simplest()) if config not in seen]:
            seen.update(new)
            near = (near for config in new for near in self.places.near(config))
            self.simulate(self.open_within(self.near_percent, near))

    def bound(self, config: Config) -> int:
        """Return ticks that no program of as many chunks beats."""
        return self._bounds[config.memory, config.launch][config.chunks]

    def open_within(self, percent: int, some: Iterable[Config] | None = None) -> list[Config]:
        """Return the configurations, of all or of ``some``, that are not simulated and may be this near the best."""
        if some is None:
            least = (min(bounds[chunks] for bounds in self._bounds.values()) for chunks in self.places.numbers)
            at = zip(self.places.numbers, least, strict=True)
            some = self.places.of([chunks for chunks, bound in at if within(bound, self.shortest, percent)])
        return [one for one in some if one not in self.took and within(self.bound(one), self.shortest, percent)]

    @property
    def floor(self) -> int:
        """Ticks that no configuration beats."""
        return min([self.shortest, *map(self.bound, self.open_within(0))])


class _Places:
    """Configurations by their numbers of chunks and streams."""

    def __init__(self, configs: Iterable[Config]) -> None:
        self._at: dict[int, dict[int, list[Config]]] = {}
        for config in configs:
            self._at.setdefault(config.chunks, {}).setdefault(config.streams, []).append(config)
        self.numbers = sorted(self._at)  # of chunks
        self._streams = {chunks: sorted(streams) for chunks, streams in self._at.items()}

    def of(self, numbers: Iterable[int]) -> Iterator[Config]:
        """Yield the configurations with these numbers of chunks."""
        return (config for chunks in numbers for some in self._at[chunks].values() for config in some)

    def __contains__(self, config: Config) -> bool:
        return config in self._at.get(config.chunks, {}).get(config.streams, ())

    def coarse(self, ratio: float) -> Iterator[Config]:
        """Yield the configurations whose numbers of chunks and streams both lie ``ratio`` apart or more."""
        for chunks in _apart(self.numbers, ratio):
            for streams in _apart(self._streams[chunks], ratio):
                yield from self._at[chunks][streams]

    def near(self, config: Config) -> Iterator[Config]:
        """Yield the configurations with the same and the next numbers of chunks and streams, of any other choices."""
        for chunks in _around(self.numbers, config.chunks):
            for streams in _around(self._streams[chunks], min(config.streams, chunks)):
                yield from self._at[chunks][streams]

    def along(self, config: Config) -> Iterator[Config]:
        """Yield configurations on as many streams (or the next more, or the most), with chunks a sixteenth apart."""
        for chunks in _apart(self.numbers, 1 + APART):
            streams = self._streams[chunks]
            yield from self._at[chunks][streams[_place(streams, min(config.streams, chunks))]]


def _apart(numbers: Sequence[int], ratio: float) -> Iterator[int]:
    """Yield the first of sorted ``numbers``, and then each that is at least ``ratio`` times the latest."""
    latest = 0
    for number in numbers:
        if number >= latest * ratio:
            latest = number
            yield number


def _around(numbers: Sequence[int], number: int) -> Sequence[int]:
    """Return the entry of sorted ``numbers`` at :func:`_place`, with the entries beside it."""
    at = _place(numbers, number)
    return numbers[max(0, at - 1) : at + 2]


def _place(numbers: Sequence[int], number: int) -> int:
    """Return the index of ``number`` in sorted ``numbers``, else of the next larger one, else of the last."""
    return min(bisect_left(numbers, number), len(numbers) - 1)


def _chunks_within(found: GridSearch, winner: Config) -> tuple[int, int] | None:
    """Return the least and most chunks of the unbroken range around the winner that stays near it; None: unknown."""
    numbers = found.places.numbers
    at = numbers.index(winner.chunks)
    ends = []
    for walk in (numbers[at::-1], numbers[at:]):
        end = winner.chunks
        for chunks in walk:
            config = msgspec.structs.replace(winner, chunks=chunks).fitted()  # at most as many streams, as in the grid
            ticks = found.took.get(config, found.bound(config))
            if config not in found.places or not within(ticks, found.shortest, RANGE_PERCENT):
                break
            if config not in found.took:
                return None
            end = chunks
        ends.append(end)
    return ends[0], ends[1]


def _usual(workload: Workload, grid: Grid) -> Config:
    chunks = min(DEFAULT_CHUNKS, workload.most_chunks)
    streams = min(DEFAULT_STREAMS, most_streams(workload))
    return Config(chunks=chunks, streams=streams, memory=grid.memory).fitted()
