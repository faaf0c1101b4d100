"""The best way to cut and issue a workload on a device: the optimum of a grid.

With the compiled model all that is reported is what simulating every configuration of the grid would give. On SimPy
that holds as far as a budget of simulated ops goes, and what is not known is said (``search``).

Ties go to the simplest: fewest chunks, then fewest streams, then no ring of buffers or the smallest ring,
depth-first before breadth-first, issued live before a graph.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import msgspec

from streamsim.analysis.predict import predict
from streamsim.analysis.work_bound import work_bound
from streamsim.device.assumptions import link_words
from streamsim.device.front_ends import written_in
from streamsim.device.library import as_device
from streamsim.program.config import Config, most_streams
from streamsim.rules.clock import TICKS_PER_S
from streamsim.search.best_first import BUDGET_OPS, NEAR_PERCENT, within
from streamsim.search.coarse_to_fine import MARGINS_PERCENT, search
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.search.found import FASTER, RANGE_PERCENT, Best, Flatness, Found, with_one_thing_faster
from streamsim.search.grid import Grid
from streamsim.search.pruning_bounds import LowerBounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim.program.workload import Workload
    from streamsim.search.best_first import Progress
    from streamsim.search.coarse_to_fine import Bounded, Searched

DEFAULT_CHUNKS, DEFAULT_STREAMS = 4, 4  # what examples and tutorials use


def best(
    workload: Workload,
    device: Device | str | Path,
    grid: Grid | None = None,
    progress: Progress | None = None,
    fast: bool | None = None,
    budget_ops: int | None = BUDGET_OPS,
) -> Best[Config]:
    """Find the optimum of ``grid`` (1..256 chunks, 1..32 streams, both orders) for ``workload`` on ``device``.

    ``progress`` is told what is done, of all. ``fast`` as for :func:`evaluate`. ``budget_ops``: what SimPy may
    simulate, in ops; beyond it the result need not be exact (None: no limit; the compiled twin has none). The calls are
    those of the workload's front end, unless the device has another's. Raises InputError when the grid is empty, or the
    device or the front end is unknown, or there is no cost for a kernel.
    """
    device = written_in(as_device(device), workload.front_end)
    grid = (grid or Grid()).within(device.memory_bytes)
    fast = is_fast() if fast is None else fast
    configs = grid.configs(workload)
    usual = _usual(workload, grid)
    with ThreadPoolExecutor(1) as beside:  # compiled code is loaded while the bounds are worked out
        usual_ticks = beside.submit(evaluate_ticks, workload, [usual], device, fast)
        queue = _in_order_of_bounds(workload, device, configs)
    found = search(workload, device, queue, fast, None if fast else budget_ops, progress)
    took, shortest = found.ticks, found.shortest
    winner, simplest = found.best, found.simplest
    prediction = predict(winner.schedule(workload), device)
    left_open = found.open_within(max(MARGINS_PERCENT))

    def made(config: Config, ticks: int) -> Found[Config]:
        is_alike = config.memory == winner.memory and (config.chunks == winner.chunks or not workload.host_work_s)
        serial_s = prediction.serial_s if is_alike else predict(config.schedule(workload), device).serial_s
        return Found(config, config.words, ticks / TICKS_PER_S, serial_s, config.device_bytes(workload))

    best, usually = made(winner, shortest), made(usual, usual_ticks.result()[0])
    works = usually.serial_s != best.serial_s and usual.memory == winner.memory
    worked = f" with the host work of {winner.chunks} chunks" * works
    serial_words = f"not cut{worked}, blocking copies"
    serial = Found(None, serial_words, prediction.serial_s, device_bytes=prediction.serial_device_bytes)
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
            (work_bound(workload, device, grid.memory, launch) for launch in grid.launches), key=attrgetter("seconds")
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
    """(bound, config), the lowest bound first; of equals the simplest."""
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
    """The ends of the unbroken range around the winner, over the grid's numbers of chunks; None: not known."""
    numbers = sorted({config.chunks for config in configs})
    at = numbers.index(winner.chunks)
    ends = []
    for walk in (numbers[at::-1], numbers[at:]):
        end = winner.chunks
        for chunks in walk:
            config = _with_chunks(winner, chunks)
            ticks = found.ticks.get(config, found.left.get(config))  # the bound of what was left out
            if ticks is None or not within(ticks, found.shortest, RANGE_PERCENT):
                break
            if config in found.left:
                return None
            end = chunks
        ends.append(end)
    return ends[0], ends[1]


def _with_chunks(config: Config, chunks: int) -> Config:
    """The same with another number of chunks, and no more streams or buffers than that, as the grid has it."""
    return msgspec.structs.replace(config, chunks=chunks).fitted()


def _usual(workload: Workload, grid: Grid) -> Config:
    chunks = min(DEFAULT_CHUNKS, workload.most_chunks)
    streams = min(DEFAULT_STREAMS, most_streams(workload))
    return Config(chunks=chunks, streams=streams, memory=grid.memory).fitted()


def _with_faster_kernels(workload: Workload) -> Workload:
    kernels = (kernel.scaled(1 / FASTER) if kernel.is_timed else kernel for kernel in workload.kernels)
    return msgspec.structs.replace(workload, kernels=tuple(kernels))
