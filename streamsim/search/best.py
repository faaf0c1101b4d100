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

from msgspec.structs import replace

from streamsim.advice import Trial, Values, advise, what_if
from streamsim.analysis import chunk_bounds, lower_bound, predict, work_bound
from streamsim.device import Device, as_device, link_words, written_in
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
    (winner,), simplest = found.best_few(1), found.simplest()
    streams = min(USUAL, most_streams(workload))
    usual = Config(chunks=min(USUAL, workload.most_chunks), streams=streams, memory=grid.memory).fitted()
    took = {usual: evaluate_ticks(workload, [usual], device, fast)[0], **found.took}
    prediction = predict(winner.schedule(workload), device)
    left_open = len(found.open_within(found.near_percent))

    def result(config: Config) -> searches.SimulatedProgram[Config]:
        serial_s = serial_ticks(workload, config, device, fast) / TICKS_PER_S
        took_s, n_bytes = took[config] / TICKS_PER_S, config.device_bytes(workload)
        return searches.SimulatedProgram(config, config.words, took_s, serial_s, n_bytes)

    worked = f" with the host work of {winner.chunks} chunks" if workload.host_work_s else ""
    serial = searches.SimulatedProgram(None, f"not cut{worked}, blocking copies", prediction.serial_s)
    bounds = (work_bound(workload, device, grid.memory, launch) for launch in grid.launch)
    return searches.Best(
        best=result(winner),
        simplest=result(simplest),
        compared={
            "serial": replace(serial, device_bytes=prediction.serial_device_bytes),
            "usual": result(usual),
        },
        work=replace(workload, front_end=""),  # the card has the calls of that front end
        card=device,
        link=link_words(device, grid.memory == "pageable"),
        programs=len(configs),
        simulated=len(found.took),
        left_open=left_open,
        left_open_because=f"the budget of {budget_ops} simulated ops is spent" if left_open else None,
        exact=not found.open_within(0),
        simplest_exact=not left_open,
        floor_s=min([found.shortest, *map(found.bound, found.open_within(0))]) / TICKS_PER_S,
        work_bound=min(bounds, key=attrgetter("seconds")),
        issued_bound=prediction.issued_bound,
        compiled=fast,
        memory_bytes=grid.memory_limit_bytes,
        grid=grid,
        left_out_whys=left_out,
        most_chunks=grid.most_chunks(workload),
    )


class GridSearch:
    """A search of distinct configurations within a budget.

    - ``took``: the makespans of the simulated configurations, in ticks; ``shortest``: the least of them.
    - ``near_percent``: how near the fastest configuration the simplest one is.
    - ``fast``: as for :func:`evaluate`.
    - ``budget_ops``: the number of ops of SimPy (None: no limit). At least one configuration is simulated.
    - ``progress``: a function that is called with the ops done and in all, at most the budget.
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
        self._workload, self._device, self._fast = workload, device, fast
        self._progress = progress or (lambda _done, _of_all: None)
        self._budget_ops = math.inf if budget_ops is None else budget_ops
        self._spent_ops, self._total_ops = 0.0, self._budget_ops  # all that may be simulated, as far as it is known
        self._costs: dict[Config, float] = {}
        self.took: dict[Config, int] = {}
        self.shortest = searches.NEVER
        self.near_percent = searches.near_percent(device)
        self._at: dict[int, dict[int, list[Config]]] = {}  # by number of chunks and streams
        for config in configs:
            self._at.setdefault(config.chunks, {}).setdefault(config.streams, []).append(config)
        self._numbers = sorted(self._at)  # of chunks
        self._bounds = {
            way: chunk_bounds(workload, device, self._numbers, *way)
            for way in {(config.memory, config.launch) for config in configs}
        }

    @property
    def _left_ops(self) -> float:
        return self._budget_ops - self._spent_ops

    def _cost_ops(self, some: Sequence[Config]) -> float:
        """Return the cost in ops of simulating all of ``some``."""
        new = [one for one in some if one not in self._costs]
        self._costs.update(zip(new, simulation_costs(self._workload, new, self._device, self._fast), strict=True))
        return sum(map(self._costs.__getitem__, some))

    def simulate(self, some: Iterable[Config]) -> None:
        """Simulate those configurations that are new and that the budget allows, in blocks."""
        new = list(dict.fromkeys(one for one in some if one not in self.took))
        self._cost_ops(new)
        block, block_ops = list[Config](), 0.0
        for candidate in new:
            if block_ops + self._costs[candidate] > self._left_ops:
                continue
            block.append(candidate)
            block_ops += self._costs[candidate]
            if block_ops >= BLOCK_OPS:
                self._evaluate(block)
                block, block_ops = [], 0.0
        self._evaluate(block)

    def _evaluate(self, some: Sequence[Config]) -> None:
        """Simulate all of ``some`` at once, even beyond the budget."""
        if some:
            self._spent_ops += self._cost_ops(some)
            found = evaluate_ticks(self._workload, some, self._device, self._fast)
            self.took.update(zip(some, found, strict=True))
            self.shortest = min(self.shortest, *found)
            total_ops = self._spent_ops if self._total_ops == math.inf else self._total_ops
            self._progress(round(min(self._spent_ops, total_ops)), round(total_ops))

    def best_few(self, few: int) -> list[Config]:
        """Return the ``few`` fastest simulated configurations; of equally fast ones, the simplest first."""
        return nsmallest(few, self.took, key=lambda one: (self.took[one], one.simplicity))

    def simplest(self) -> Config:
        """Return the simplest configuration near the fastest, the one to use; of equally simple ones, the fastest."""
        near = [one for one, ticks in self.took.items() if searches.within(ticks, self.shortest, self.near_percent)]
        return min(near, key=lambda one: (one.simplicity, self.took[one]))

    def run(self) -> None:
        """Simulate all that may be near the best, or as much as the budget allows."""
        for ratio in RATIOS:
            some = self.open_within(self.near_percent, self._coarse(ratio))
            if self._cost_ops(some) > self._left_ops / 2:
                break
            self.simulate(some)
        rest = self.open_within(self.near_percent)
        if (cost := self._cost_ops(rest)) <= self._left_ops:
            self._total_ops = min(self._total_ops, self._spent_ops + cost)
            self.simulate(rest)
            return
        if not self.took:  # the budget is less than a few simulations need
            self._evaluate([min(rest, key=attrgetter("chunks"))])
        self._climb()

    def _climb(self) -> None:
        """Try the neighbours of the best few and the simplest, a step in chunks, streams or both, while any is new."""
        seen = set[Config]()
        while new := [config for config in (*self.best_few(BEST_FEW), self.simplest()) if config not in seen]:
            seen.update(new)
            near = (near for config in new for near in self._near(config))
            self.simulate(self.open_within(self.near_percent, near))

    def bound(self, config: Config) -> int:
        """Return ticks that no program of as many chunks beats."""
        return self._bounds[config.memory, config.launch][config.chunks]

    def open_within(self, percent: int, some: Iterable[Config] | None = None) -> list[Config]:
        """Return the configurations, of all or of ``some``, that are not simulated and may be this near the best."""
        if some is None:
            least = {chunks: min(bounds[chunks] for bounds in self._bounds.values()) for chunks in self._numbers}
            near = [
                self._at[chunks] for chunks, bound in least.items() if searches.within(bound, self.shortest, percent)
            ]
            some = (config for by_streams in near for configs in by_streams.values() for config in configs)
        return [
            one for one in some if one not in self.took and searches.within(self.bound(one), self.shortest, percent)
        ]

    def _coarse(self, ratio: float) -> Iterator[Config]:
        """Yield the configurations whose numbers of chunks and streams both lie ``ratio`` apart or more."""
        for chunks in _apart(self._numbers, ratio):
            for streams in _apart(sorted(self._at[chunks]), ratio):
                yield from self._at[chunks][streams]

    def _near(self, config: Config) -> Iterator[Config]:
        """Yield the configurations with the same and the next numbers of chunks and streams, of any other choices."""
        for chunks in _around(self._numbers, config.chunks):
            for streams in _around(sorted(self._at[chunks]), min(config.streams, chunks)):
                yield from self._at[chunks][streams]


def _apart(numbers: Sequence[int], ratio: float) -> Iterator[int]:
    """Yield the first of sorted ``numbers``, and then each that is at least ``ratio`` times the latest."""
    latest = 0
    for number in numbers:
        if number >= latest * ratio:
            latest = number
            yield number


def _around(numbers: Sequence[int], number: int) -> Sequence[int]:
    """Return the entry of sorted ``numbers`` that is ``number``, else the next larger or the last, and those beside."""
    at = min(bisect_left(numbers, number), len(numbers) - 1)
    return numbers[max(0, at - 1) : at + 2]


STREAMS, DEPTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 4)
NEAR = 1.01  # times the time of the best: fewer changes that take no more are the ones to use


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
    near = [trial for trial in found if trial.takes_s <= NEAR * best.takes_s]
    use = min(near, key=lambda trial: trial.simplicity)
    strong = min((trial for trial in advice.trials if trial.is_strong), key=lambda trial: trial.takes_s, default=best)
    return searches.Best(
        best=_result(best, steps),
        simplest=_result(use, steps),
        compared={"before": _result(advice.before, steps)},
        work=schedule,
        card=device,
        link=link_words(device),
        programs=len(advice.trials) + 1,
        simulated=len(advice.trials) + 1,
        lists_all=False,
        left_open_because="only some numbers of chunks, streams and steps ahead are tried",
        exact=False,
        simplest_exact=False,
        floor_s=0.0,
        issued_bound=lower_bound(*best.work[:2]),
        compiled=is_fast(),
        changes=what_if(schedule, device, use.changes, independent=True) if use.changes else None,
        not_tried=(strong.words(advice.known_within),) if strong.takes_s * NEAR < best.takes_s else (),
    )


def _result(trial: Trial, steps: int) -> searches.SimulatedProgram[Trial]:
    """Return the result of a trial; the unchanged program has ``steps`` chunks."""
    chunks = next((int(change.option.split()[1]) for change in trial.changes if change.kind == "--chunks"), steps)
    options = " ".join(trial.options)
    more = {**trial.to_json(), "options": trial.options, "chunks": chunks}
    words = options or ("the program unchanged" if not trial.changes else trial.text)
    return searches.SimulatedProgram(trial, words, trial.takes_s, more=more)
