"""The best way to cut and issue a workload on a device: exactly the optimum of a grid.

Configurations are simulated in ascending order of a lower bound on their makespan (``grid_bounds``), until
the bound of the next one is above 1.10 times the shortest makespan found, 10 % being the widest margin
reported. That keeps the result exact: the shortest makespan found so far is never below the optimum, so
every configuration left out has

    makespan >= bound > 1.10 x shortest found >= 1.10 x optimum

and is neither the optimum, nor as good as it, nor within 1, 5 or 10 % of it. All that is reported, the
shares of the grid among it, is therefore what simulating every configuration would give.

Ties go to the simplest: fewest chunks, then fewest streams, then no ring of buffers or the smallest ring,
depth-first before breadth-first, issued live before a graph.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from streamsim.assumptions import link_words
from streamsim.grid import Config, Grid, evaluate, is_fast
from streamsim.grid_bounds import LowerBounds
from streamsim.quantities import format_bytes
from streamsim.report import SCHEMA_VERSION, predict
from streamsim.timeline import S_PER_TICK
from streamsim.variations import with_faster_calls, with_faster_link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamsim.device import Device, KernelCost
    from streamsim.workload import Workload, WorkloadKernel

    Progress = Callable[[int, int], None]  # configurations settled, of all

MARGINS_PERCENT = (1, 5, 10)
SIMPLEST_PERCENT, RANGE_PERCENT = 1, 5
DEFAULT_CHUNKS, DEFAULT_STREAMS = 4, 4  # what examples and tutorials use
FASTER = 1.1
SHORTEST_S = 1e-9  # of a kernel
BLOCKS = {False: (16, 16), True: (256, 4096)}  # configurations simulated at once: the first block and the largest


class Found(msgspec.Struct, frozen=True):
    """A configuration and the time that it takes."""

    config: Config
    makespan_s: float


class Flatness(msgspec.Struct, frozen=True):
    """How much it matters to hit the optimum.

    ``share_within``: by margin in per cent, the share (0..1) of the grid's programs no slower than that above the
    optimum. ``chunks_within``: from and to which number of chunks, with the rest of the best configuration
    as it is (no more streams than chunks), every number of chunks of the grid stays within ``range_percent``.
    """

    share_within: dict[int, float]
    chunks_within: tuple[int, int]
    range_percent: int = RANGE_PERCENT


class Best(msgspec.Struct, frozen=True):
    """The optimum of a grid and what to make of it. Times in seconds.

    ``best``: the optimum. ``simplest``: the configuration within 1 % of it with the fewest chunks, then streams:
    what to use. ``usual``: 4 chunks on 4 streams depth-first, live; ``usual_fits``: whether the memory limit
    allows it. ``serial_s``: the unchunked program, blocking copies. ``bound_by``: what sets ``lower_bound_s`` for the
    best one. ``critical_s``: its makespan split over what its critical path runs through. ``faster_s``: its makespan,
    the configuration left as it is, with one thing 1.1 times as fast. ``programs``: distinct programs of the
    grid, ``simulated`` of them; the others are proved to be more than 10 % slower. ``compiled``: whether the
    compiled twin did it. ``device_bytes``: what the optimum holds on the card, of ``memory_bytes`` that it may (None:
    no limit is known). ``link``: what link was assumed. ``left_out``: distinct programs of the grid with no room.
    """

    best: Found
    simplest: Found
    usual: Found
    usual_fits: bool
    serial_s: float
    lower_bound_s: float
    bound_by: str
    critical_s: dict[str, float]
    flatness: Flatness
    faster_s: dict[str, float]
    programs: int
    simulated: int
    compiled: bool
    device: str
    device_bytes: int
    memory_bytes: int | None
    link: str
    left_out: int

    @property
    def left_out_why(self) -> str:
        """Why ``left_out`` programs of the grid were not looked at; empty when there are none."""
        limit = self.memory_bytes
        return "" if not self.left_out or limit is None else f"they need more than {format_bytes(limit)} on the card"

    @property
    def speedup(self) -> float:
        """Serial time over the optimum's (1 when there is nothing to do)."""
        return self.gain(self.serial_s)

    def gain(self, seconds: float) -> float:
        """How many times as fast as something that takes ``seconds`` (1 when there is nothing to do)."""
        return seconds / self.best.makespan_s if self.best.makespan_s else 1.0

    def to_json(self, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plain numbers and strings; units are in the names. ``inputs``: what was asked."""
        return {
            "schema_version": SCHEMA_VERSION,
            **{name: _found_json(getattr(self, name), self.serial_s) for name in ("best", "simplest", "usual")},
            "serial_s": self.serial_s,
            "serial_program": "unchunked",
            "usual_fits": self.usual_fits,
            "gain_over_usual": self.gain(self.usual.makespan_s),
            "lower_bound_s": self.lower_bound_s,
            "bound_by": self.bound_by,
            "critical_path_s": self.critical_s,
            "share_within": {f"{margin}%": share for margin, share in self.flatness.share_within.items()},
            "chunks_within": {
                "percent": self.flatness.range_percent,
                "from": self.flatness.chunks_within[0],
                "to": self.flatness.chunks_within[1],
            },
            "faster_by": FASTER,
            "faster_s": self.faster_s,
            "device_bytes": self.device_bytes,
            "memory_bytes": self.memory_bytes,
            "link": self.link,
            "left_out": self.left_out,
            "left_out_why": self.left_out_why,
            "programs": self.programs,
            "simulated": self.simulated,
            "compiled": self.compiled,
            "inputs": inputs or {"device": self.device},
        }


def _found_json(found: Found, serial_s: float) -> dict[str, Any]:
    speedup = serial_s / found.makespan_s if found.makespan_s else 1.0
    return {**msgspec.to_builtins(found.config), "makespan_s": found.makespan_s, "speedup": speedup}


def find_best(
    workload: Workload,
    device: Device,
    grid: Grid | None = None,
    progress: Progress | None = None,
    fast: bool | None = None,
) -> Best:
    """Find the optimum of ``grid`` (1..256 chunks, 1..32 streams, both orders) for ``workload`` on ``device``.

    ``progress`` is told how many of the grid's programs are settled. ``fast`` as for :func:`evaluate`. Raises
    InputError when the grid is empty or the device has no cost for a kernel.
    """
    grid = (grid or Grid()).within(device.memory_bytes)
    fast = is_fast() if fast is None else fast
    configs = grid.configs(workload)
    usual = _usual(workload, grid)
    with ThreadPoolExecutor(1) as beside:  # compiled code is loaded while the bounds are worked out
        usual_ticks = beside.submit(evaluate, workload, [usual], device, fast)
        queue = _in_order_of_bounds(workload, device, configs)
    took = _search(workload, device, queue, progress, fast)
    shortest = min(took.values())
    winner = next(config for config in configs if took.get(config) == shortest)  # configs: the simplest first
    simplest = next(
        config for config in configs if config in took and _within(took[config], shortest, SIMPLEST_PERCENT)
    )
    prediction = predict(winner.schedule(workload), device)
    return Best(
        best=Found(winner, shortest * S_PER_TICK),
        simplest=Found(simplest, took[simplest] * S_PER_TICK),
        usual=Found(usual, usual_ticks.result()[0] * S_PER_TICK),
        usual_fits=grid.memory_limit_bytes is None or usual.device_bytes(workload) <= grid.memory_limit_bytes,
        serial_s=prediction.serial_s,
        lower_bound_s=prediction.lower_bound_s,
        bound_by=prediction.bound_by,
        critical_s=prediction.critical_s,
        flatness=_flatness(configs, took, winner),
        faster_s={
            name: evaluate(work, [winner], card, fast)[0] * S_PER_TICK
            for name, (work, card) in _faster(workload, device).items()
        },
        programs=len(configs),
        simulated=len(took),
        compiled=fast,
        device=device.name,
        device_bytes=winner.device_bytes(workload),
        memory_bytes=grid.memory_limit_bytes,
        link=link_words(device, grid.memory == "pageable"),
        left_out=grid.too_large(workload),
    )


def _in_order_of_bounds(workload: Workload, device: Device, configs: Sequence[Config]) -> list[tuple[int, Config]]:
    """(bound, config), the lowest bound first; of equals the simplest."""
    bound = LowerBounds(workload, device)
    return sorted(((bound(config), config) for config in configs), key=itemgetter(0))


def _search(
    workload: Workload, device: Device, queue: Sequence[tuple[int, Config]], progress: Progress | None, fast: bool
) -> dict[Config, int]:
    """Ticks of every config that may be within the widest margin of the optimum, and of some others."""
    took: dict[Config, int] = {}
    shortest: int | None = None
    size, largest = BLOCKS[fast]
    while True:
        coming = queue[len(took) : len(took) + size]
        block = [config for bound, config in coming if shortest is None or _may_count(bound, shortest)]
        if not block:
            break
        took.update(zip(block, evaluate(workload, block, device, fast), strict=True))
        shortest = min(took.values())
        size = min(2 * size, largest)
        if progress is not None:
            progress(len(took), len(queue))
    if progress is not None:
        progress(len(queue), len(queue))
    return took


def _may_count(bound: int, shortest: int) -> bool:
    """Whether a config with this bound can be within the widest margin of the optimum (see above)."""
    return _within(bound, shortest, max(MARGINS_PERCENT))


def _within(ticks: int, shortest: int, percent: int) -> bool:
    return 100 * ticks <= (100 + percent) * shortest


def _flatness(configs: Sequence[Config], took: dict[Config, int], winner: Config) -> Flatness:
    shortest = took[winner]
    return Flatness(
        share_within={
            percent: sum(_within(ticks, shortest, percent) for ticks in took.values()) / len(configs)
            for percent in MARGINS_PERCENT
        },
        chunks_within=_chunks_within(configs, took, winner),
    )


def _chunks_within(configs: Sequence[Config], took: dict[Config, int], winner: Config) -> tuple[int, int]:
    """The ends of the unbroken range around the winner, over the grid's numbers of chunks."""
    numbers = sorted({config.chunks for config in configs})
    good = [
        _within(took.get(_with_chunks(winner, chunks), 2 * took[winner] + 1), took[winner], RANGE_PERCENT)
        for chunks in numbers
    ]
    low = high = numbers.index(winner.chunks)
    while low and good[low - 1]:
        low -= 1
    while high + 1 < len(good) and good[high + 1]:
        high += 1
    return numbers[low], numbers[high]


def _with_chunks(config: Config, chunks: int) -> Config:
    """The same with another number of chunks, and no more streams or buffers than that, as the grid has it."""
    buffers = None if config.buffers is None else min(config.buffers, chunks)
    return msgspec.structs.replace(config, chunks=chunks, streams=min(config.streams, chunks), buffers=buffers)


def _usual(workload: Workload, grid: Grid) -> Config:
    chunks = min(DEFAULT_CHUNKS, workload.most_chunks)
    return Config(chunks=chunks, streams=min(DEFAULT_STREAMS, chunks), memory=grid.memory)


def _faster(workload: Workload, device: Device) -> dict[str, tuple[Workload, Device]]:
    """The workload and the device with one thing 1.1 times as fast: bandwidths times 1.1, times over 1.1."""
    costs = tuple(map(_faster_cost, device.compute.kernels))
    compute = msgspec.structs.replace(device.compute, kernels=costs)
    kernels = tuple(map(_faster_kernel, workload.kernels))
    return {
        "link": (workload, with_faster_link(device, FASTER)),
        "kernel": (
            msgspec.structs.replace(workload, kernels=kernels),
            msgspec.structs.replace(device, compute=compute),
        ),
        "launch": (workload, with_faster_calls(device, FASTER)),
    }


def _faster_kernel(kernel: WorkloadKernel) -> WorkloadKernel:
    return kernel.scaled(1 / FASTER) if kernel.is_timed else kernel


def _faster_cost(cost: KernelCost) -> KernelCost:
    if min(cost.duration_s) < SHORTEST_S * FASTER:
        return cost
    return msgspec.structs.replace(cost, duration_s=tuple(seconds / FASTER for seconds in cost.duration_s))
