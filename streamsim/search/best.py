"""Search of a grid for the best way to cut and issue a workload on a device.

Programs are simulated from coarse to fine:

1. those whose numbers of chunks and streams lie a fixed ratio apart, with ever smaller ratios down to all programs, as
   long as half of the budget that is left allows it, or for all programs the whole;
2. neighbours of the best programs and of the simplest one near the best, as long as they lead to better ones.

Programs of as many chunks share a bound: no way to issue them is faster (:mod:`streamsim.analysis.bounds`). What its
bound shows to be slower than the best by more than the simplest may be is not simulated. If the budget allows all
others, which is usual with the compiled twin, the result is that of simulating the whole grid. Otherwise the bounds of
what was left out show what is known.

If configurations take equally long, the simplest one wins: fewest chunks, then fewest streams, then no ring of buffers
or the smallest ring, depth-first before breadth-first, issued live before a graph.

Candidates of an existing program are lists of changes, made and simulated as :func:`streamsim.advice.advise` does. The
program's host work and the costs of its calls are therefore part of each prediction. The unchanged program is a
candidate too, so the result is never slower.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path

from msgspec.structs import asdict, replace

from streamsim.advice import Trial, Values, advise
from streamsim.analysis import chunk_bounds, lower_bound, predict, work_bound
from streamsim.device import Device, as_device, written_in
from streamsim.program import Config, Schedule, Workload, check_schedule, most_streams
from streamsim.rules import TICKS_PER_S
from streamsim.search import searches
from streamsim.search.grid import Grid, evaluate_ticks, is_fast, serial_ticks, simulation_costs
from streamsim.transform import chunk_count

USUAL = 4  # chunks and streams of examples and tutorials
RATIOS = (4.0, 1.5, 1.12)  # of numbers in step 1
BLOCK_OPS = 8_000  # simulated at once: some tenths of a second
BEST_FEW = 4  # the number of best programs whose neighbours are tried


def best(
    workload: Workload,
    device: Device | str | Path,
    grid: Grid | None = None,
    progress: searches.Progress | None = None,
    fast: bool | None = None,
    budget_ops: int | None = searches.BUDGET_OPS,
) -> searches.Best[Config]:
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
    configs, left_out = grid.parted(workload)
    found = GridSearch(workload, device, configs, fast, budget_ops, progress)
    found.run()
    (winner,), still_open = found.best_few(1), found.open()
    streams = min(USUAL, most_streams(workload))
    usual = Config(chunks=min(USUAL, workload.most_chunks), streams=streams, memory=grid.memory).fitted()
    took = {usual: evaluate_ticks(workload, [usual], device, fast)[0], **found.took}
    prediction = predict(winner.schedule(workload), device)

    def result(config: Config) -> searches.SimulatedProgram[Config]:
        serial_s = serial_ticks(workload, config, device, fast) / TICKS_PER_S
        took_s = took[config] / TICKS_PER_S
        options, gain = tuple(_options(config)), serial_s / took_s if took_s else 1.0
        n_bytes = config.device_bytes(workload)
        return searches.SimulatedProgram(config, config.words, took_s, options, gain, device_bytes=n_bytes)

    worked = f" with the host work of {winner.chunks} chunks" if workload.host_work_s else ""
    words, n_bytes = f"not cut{worked}, blocking copies", prediction.serial_device_bytes
    serial = searches.SimulatedProgram(None, words, prediction.serial_s, device_bytes=n_bytes)
    bounds = (work_bound(workload, device, grid.memory, launch) for launch in grid.launch)
    return searches.Best(
        best=result(winner),
        simplest=result(found.simplest()),
        compared={"serial": serial, "usual": result(usual)},
        work=replace(workload, front_end=""),  # the card has the calls of that front end
        card=device,
        programs=len(configs),
        simulated=len(found.took),
        exact=not still_open,
        floor_s=min([found.shortest, *map(found.bounds.__getitem__, still_open)]) / TICKS_PER_S,
        work_bound=min(bounds, key=attrgetter("seconds")),
        issued_bound=prediction.issued_bound,
        memory_bytes=grid.memory_limit_bytes,
        grid=grid,
        left_out=left_out,
    )


class GridSearch:
    """A search of distinct configurations within a budget.

    - ``took``: the makespans of the simulated configurations, in ticks; ``shortest``: the least of them.
    - ``bounds``: for each configuration, ticks that no program of as many chunks beats.
    - ``near_percent``: how near the fastest configuration the simplest one is.
    - ``fast``: as for :func:`evaluate`.
    - ``budget_ops``: the number of ops of SimPy (None: no limit). At least one configuration is simulated.
    - ``progress``: a function that is called with the numbers of configurations simulated and in all.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        configs: Sequence[Config],
        fast: bool,
        budget_ops: int | None = None,
        progress: searches.Progress | None = None,
    ) -> None:
        self._workload, self._device, self._fast, self._progress = workload, device, fast, progress
        self._costs_ops = dict(zip(configs, simulation_costs(workload, configs, device, fast), strict=True))
        self._left_ops = math.inf if budget_ops is None else budget_ops
        self.took: dict[Config, int] = {}
        self.shortest = searches.NEVER
        self.near_percent = searches.near_percent(device)
        self._at: dict[int, dict[int, list[Config]]] = {}  # by number of chunks and streams
        for config in configs:
            self._at.setdefault(config.chunks, {}).setdefault(config.streams, []).append(config)
        bounds = {
            way: chunk_bounds(workload, device, self._at, *way)
            for way in {(config.memory, config.launch) for config in configs}
        }
        self.bounds = {config: bounds[config.memory, config.launch][config.chunks] for config in configs}

    def run(self) -> None:
        """Simulate all that may be near the best, or as much as the budget allows."""
        for ratio in RATIOS:
            some = self.open(self._coarse(ratio))
            if self._cost_ops(some) > self._left_ops / 2:
                break
            self._simulate(some)
        rest = self.open()
        if self._cost_ops(rest) <= self._left_ops:
            self._simulate(rest)
            return
        if not self.took:  # the budget is less than a few simulations need
            self._evaluate([min(rest, key=attrgetter("chunks"))])
        seen = set[Config]()
        while new := [config for config in (*self.best_few(BEST_FEW), self.simplest()) if config not in seen]:
            seen.update(new)
            self._simulate(self.open(near for config in new for near in self._near(config)))

    def open(self, some: Iterable[Config] | None = None) -> list[Config]:
        """Return the configurations, of all or of ``some``, that are not simulated and may be near the best."""
        return [
            one
            for one in dict.fromkeys(self.bounds if some is None else some)
            if one not in self.took and searches.within(self.bounds[one], self.shortest, self.near_percent)
        ]

    def best_few(self, few: int) -> list[Config]:
        """Return the ``few`` fastest simulated configurations; of equally fast ones, the simplest first."""
        return nsmallest(few, self.took, key=lambda one: (self.took[one], one.simplicity))

    def simplest(self) -> Config:
        """Return the simplest configuration near the fastest, the one to use; of equally simple ones, the fastest."""
        near = [one for one, ticks in self.took.items() if searches.within(ticks, self.shortest, self.near_percent)]
        return min(near, key=lambda one: (one.simplicity, self.took[one]))

    def _cost_ops(self, some: Iterable[Config]) -> float:
        return sum(map(self._costs_ops.__getitem__, some))

    def _simulate(self, some: Iterable[Config]) -> None:
        """Simulate those of ``some`` that the budget allows, in blocks."""
        block, left_ops = list[Config](), self._left_ops
        for one in some:
            if self._costs_ops[one] <= left_ops:
                left_ops -= self._costs_ops[one]
                block.append(one)
            if self._left_ops - left_ops >= BLOCK_OPS:
                self._evaluate(block)
                block, left_ops = [], self._left_ops
        if block:
            self._evaluate(block)

    def _evaluate(self, some: Sequence[Config]) -> None:
        """Simulate all of ``some`` at once, even beyond the budget."""
        found = evaluate_ticks(self._workload, some, self._device, self._fast)
        self.took.update(zip(some, found, strict=True))
        self.shortest = min(self.shortest, *found)
        self._left_ops -= self._cost_ops(some)
        if self._progress is not None:
            self._progress(len(self.took), len(self.bounds))

    def _coarse(self, ratio: float) -> Iterator[Config]:
        """Yield the configurations whose numbers of chunks and streams both lie ``ratio`` apart or more."""
        for chunks in _apart(self._at, ratio):
            for streams in _apart(self._at[chunks], ratio):
                yield from self._at[chunks][streams]

    def _near(self, config: Config) -> Iterator[Config]:
        """Yield the configurations with the same and the next numbers of chunks and streams, of any other choices."""
        for chunks in _around(self._at, config.chunks):
            for streams in _around(self._at[chunks], min(config.streams, chunks)):
                yield from self._at[chunks][streams]


def _apart(numbers: Iterable[int], ratio: float) -> Iterator[int]:
    """Yield the least of ``numbers``, and then each that is at least ``ratio`` times the latest."""
    latest = 0
    for number in sorted(numbers):
        if number >= latest * ratio:
            latest = number
            yield number


def _around(numbers: Iterable[int], number: int) -> Sequence[int]:
    """Return the entry of ``numbers`` that is ``number``, else the next larger or the last, and those beside."""
    ordered = sorted(numbers)
    at = min(bisect_left(ordered, number), len(ordered) - 1)
    return ordered[max(0, at - 1) : at + 2]


def _options(config: Config) -> Iterator[str]:
    """Yield the options of ``predict`` for the values that are not the usual ones."""
    usual = asdict(Config())
    for name, value in asdict(config).items():
        if value != usual[name]:
            yield from (f"--{name}", str(value))


STREAMS, DEPTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 4)


def best_program(
    schedule: Schedule,
    device: Device | str | Path,
    independent: bool = False,
    most_chunks: int = 256,
    most_streams: int = 32,
    budget_ops: int = searches.BUDGET_OPS,
) -> searches.Best[Trial]:
    """Find the best numbers of chunks, streams and steps copied ahead of a program.

    Where overlap needs them, pinned memory, asynchronous copies and the removal of host waits come with a candidate.

    - ``device``: a Device, or the name or file of one.
    - ``independent``: True if the steps do not depend on each other and can be cut. Otherwise, streams and other
      numbers of chunks are only searched if the schedule shows that they are possible.
    - ``most_chunks``, ``most_streams``: the most to try.
    - ``budget_ops``: the number of ops to simulate.

    Raises InputError for a program without chunks.
    """
    check_schedule("schedule", schedule)
    steps, device = chunk_count(schedule), as_device(device)
    streams = tuple(count for count in STREAMS if count <= most_streams)
    depths = tuple(depth for depth in DEPTHS if depth < steps)
    values = Values(streams=streams, depths=depths, most_chunks=most_chunks, in_pairs=True)
    advice = advise(schedule, device, None, independent, values, budget_ops)
    found = [advice.before, *(trial for trial in advice.trials if not trial.is_strong)]
    best = min(found, key=lambda trial: (trial.takes_s, len(trial.changes)))
    near = 1 + searches.NEAR_PERCENT / 100  # times the best: fewer changes that take no more are the ones to use
    use = min((trial for trial in found if trial.takes_s <= near * best.takes_s), key=lambda trial: trial.simplicity)
    strong = min((trial for trial in advice.trials if trial.is_strong), key=lambda trial: trial.takes_s, default=best)
    return searches.Best(
        best=_result(best),
        simplest=_result(use),
        compared={"before": _result(advice.before)},
        work=schedule,
        card=device,
        programs=len(advice.trials) + 1,
        simulated=len(advice.trials) + 1,
        exact=False,
        floor_s=0.0,
        issued_bound=lower_bound(*best.work[:2]),
        not_tried=strong.words(advice.known_within) if near * strong.takes_s < best.takes_s else "",
    )


def _result(trial: Trial) -> searches.SimulatedProgram[Trial]:
    words = trial.text or "the program unchanged"
    return searches.SimulatedProgram(trial, words, trial.takes_s, trial.options, trial.gain, trial.condition)
