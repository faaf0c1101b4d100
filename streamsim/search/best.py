"""Search of a grid for the best way to cut and issue a workload on a device.

With the compiled model, the result is the one that simulating every configuration of the grid would give. On SimPy, a
budget of simulated ops may end the search early; the result then says what is not known.

If configurations take equally long, the simplest one wins: fewest chunks, then fewest streams, then no ring of buffers
or the smallest ring, depth-first before breadth-first, issued live before a graph.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from pathlib import Path

import msgspec

from streamsim.analysis import predict, work_bound
from streamsim.device import Device, as_device, link_words, written_in
from streamsim.program import Config, Workload, most_streams
from streamsim.rules import TICKS_PER_S
from streamsim.search.best_first import BUDGET_OPS, NEAR_PERCENT, Progress, within
from streamsim.search.coarse_to_fine import MARGINS_PERCENT, Bounded, Searched, search
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.search.grid import Grid
from streamsim.search.pruning_bounds import LowerBounds
from streamsim.search.result import FASTER, RANGE_PERCENT, Best, Flatness, SimulatedProgram, with_one_thing_faster

DEFAULT_CHUNKS, DEFAULT_STREAMS = 4, 4  # the usual numbers of examples and tutorials


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
    - ``budget_ops``: the number of ops that SimPy may simulate (None: no limit). If the budget ends the search, the
      result need not be exact. The compiled twin has no budget.

    Raises InputError for an empty grid, an unknown device or front end, and a kernel without a cost.
    """
    device = written_in(as_device(device), workload.front_end)
    grid = (grid or Grid()).within(device.memory_bytes)
    fast = is_fast() if fast is None else fast
    configs = grid.configs(workload)
    usual = _usual(workload, grid)
    with ThreadPoolExecutor(1) as beside:  # loads the compiled code while the bounds are computed
        usual_ticks = beside.submit(evaluate_ticks, workload, [usual], device, fast)
        queue = _in_order_of_bounds(workload, device, configs)
    found = search(workload, device, queue, fast, None if fast else budget_ops, progress)
    took, shortest = found.ticks, found.shortest
    winner, simplest = found.best, found.simplest
    prediction = predict(winner.schedule(workload), device)
    left_open = found.open_within(max(MARGINS_PERCENT))

    def made(config: Config, ticks: int) -> SimulatedProgram[Config]:
        is_alike = config.memory == winner.memory and (config.chunks == winner.chunks or not workload.host_work_s)
        serial_s = prediction.serial_s if is_alike else predict(config.schedule(workload), device).serial_s
        return SimulatedProgram(config, config.words, ticks / TICKS_PER_S, serial_s, config.device_bytes(workload))

    best, usually = made(winner, shortest), made(usual, usual_ticks.result()[0])
    works = usually.serial_s != best.serial_s and usual.memory == winner.memory
    worked = f" with the host work of {winner.chunks} chunks" if works else ""
    serial_words = f"not cut{worked}, blocking copies"
    serial = SimulatedProgram(None, serial_words, prediction.serial_s, device_bytes=prediction.serial_device_bytes)
    variations = with_one_thing_faster(workload, _with_faster_kernels(workload), device)
    return Best(
        best=best,
        simplest=made(simplest, took[simplest]),
        compared={"serial": serial, "usual": usually},
        work=msgspec.structs.replace(workload, front_end=""),  # the card has the calls of that front end
        card=device,
        link=link_words(device, grid.memory == "pageable"),
        programs=len(configs),
        simulated=len(took),
        left_open=left_open,
        left_open_because=f"SimPy's budget of {budget_ops} simulated ops is spent" if left_open else None,
        exact=found.is_exact,
        simplest_exact=not found.open_within(NEAR_PERCENT),
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
        flatness=_flatness(configs, found, winner),
        left_out_whys=grid.left_out(workload),
        most_chunks=grid.most_chunks(workload),
    )


def _in_order_of_bounds(workload: Workload, device: Device, configs: Sequence[Config]) -> list[Bounded]:
    """Return (lower bound in ticks, config) pairs, the lowest bound first; for equal bounds, the simplest first."""
    bound = LowerBounds(workload, device)
    return sorted(((bound(config), config) for config in configs), key=itemgetter(0))


def _flatness(configs: Sequence[Config], found: Searched, winner: Config) -> Flatness:
    return Flatness(
        share_within={percent: _share_within(found, percent) for percent in MARGINS_PERCENT},
        chunks_within=_chunks_within(configs, found, winner),
    )


def _share_within(found: Searched, percent: int) -> float | None:
    if found.open_within(percent):
        return None
    near = sum(within(ticks, found.shortest, percent) for ticks in found.ticks.values())
    return near / (len(found.ticks) + len(found.left))


def _chunks_within(configs: Sequence[Config], found: Searched, winner: Config) -> tuple[int, int] | None:
    """Return the least and most chunks of the unbroken range around the winner that stays near it; None: unknown."""
    numbers = sorted({config.chunks for config in configs})
    at = numbers.index(winner.chunks)
    ends = []
    for walk in (numbers[at::-1], numbers[at:]):
        end = winner.chunks
        for chunks in walk:
            config = _with_chunks(winner, chunks)
            ticks = found.ticks.get(config, found.left.get(config))  # a config that was not simulated has its bound
            if ticks is None or not within(ticks, found.shortest, RANGE_PERCENT):
                break
            if config in found.left:
                return None
            end = chunks
        ends.append(end)
    return ends[0], ends[1]


def _with_chunks(config: Config, chunks: int) -> Config:
    """Return ``config`` with ``chunks`` chunks, and at most as many streams and buffers, as in the grid."""
    return msgspec.structs.replace(config, chunks=chunks).fitted()


def _usual(workload: Workload, grid: Grid) -> Config:
    chunks = min(DEFAULT_CHUNKS, workload.most_chunks)
    streams = min(DEFAULT_STREAMS, most_streams(workload))
    return Config(chunks=chunks, streams=streams, memory=grid.memory).fitted()


def _with_faster_kernels(workload: Workload) -> Workload:
    kernels = (kernel.scaled(1 / FASTER) if kernel.is_timed else kernel for kernel in workload.kernels)
    return msgspec.structs.replace(workload, kernels=tuple(kernels))
