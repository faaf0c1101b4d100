"""The best way to cut and issue a workload on a device: the optimum of a grid.

With the compiled model all that is reported is what simulating every configuration of the grid would give. On SimPy
that holds as far as a budget of simulated ops goes, and what is not known is said (``search``).

Ties go to the simplest: fewest chunks, then fewest streams, then no ring of buffers or the smallest ring,
depth-first before breadth-first, issued live before a graph.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from streamsim.analysis.bounds import Bound, bound_json
from streamsim.analysis.predict import Prediction, predict
from streamsim.analysis.work_bound import work_bound
from streamsim.device.assumptions import link_words
from streamsim.device.front_ends import written_in
from streamsim.device.library import as_device
from streamsim.device.profile import Device  # noqa: TC001 - msgspec reads it
from streamsim.device.variations import faster
from streamsim.displayed import Result, attributes
from streamsim.program.config import Config, most_streams
from streamsim.program.workload import Workload  # noqa: TC001 - likewise
from streamsim.rules.clock import TICKS_PER_S
from streamsim.search.best_first import BUDGET_OPS, NEAR_PERCENT, within
from streamsim.search.coarse_to_fine import MARGINS_PERCENT, search
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.search.grid import Grid
from streamsim.search.pruning_bounds import LowerBounds
from streamsim.text.quantities import format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamsim.search.best_first import Progress
    from streamsim.search.coarse_to_fine import Bounded, Searched

RANGE_PERCENT = 5
DEFAULT_CHUNKS, DEFAULT_STREAMS = 4, 4  # what examples and tutorials use
FASTER = 1.1


class Found(msgspec.Struct, frozen=True):
    """A configuration and the time that it takes; ``serial_s``: what it gains over, its unchunked program."""

    config: Config
    makespan_s: float
    serial_s: float


class Flatness(msgspec.Struct, frozen=True):
    """How much it matters to hit the optimum. What a search within a budget does not know is None.

    ``share_within``: by margin in per cent, the share (0..1) of the grid's programs no slower than that above the
    optimum. ``chunks_within``: from and to which number of chunks, with the rest of the best configuration
    as it is (no more streams than chunks), every number of chunks of the grid stays within ``range_percent``.
    """

    share_within: dict[int, float | None]
    chunks_within: tuple[int, int] | None
    range_percent: int = RANGE_PERCENT


class Best(Result, msgspec.Struct, frozen=True):
    """The optimum of a grid and what to make of it. Times in seconds.

    ``best``: the optimum. ``simplest``: the configuration within 1 % of it with the fewest chunks, then streams: what
    to use. ``usual``: 4 chunks on 4 streams depth-first, live; ``usual_fits``: whether the memory limit allows it.
    ``serial_fits``: whether it allows the unchunked program with blocking copies, which takes ``serial_s``.
    ``work_bound``: what no way to cut and issue the work beats. ``critical_s``: the optimum's makespan split over what
    its critical path runs through. ``faster_s``: its makespan, the configuration left as it is, with one thing 1.1
    times as fast. ``programs``: distinct programs of the grid, ``simulated`` of them; the others are proved to be more
    than 10 % slower, but for ``left_open`` of them. ``compiled``: whether the compiled twin did it. ``device_bytes``:
    what the optimum holds on the card, of ``memory_bytes`` that it may (None: no limit is known). ``link``: what was
    assumed. ``left_out_whys``: how many distinct programs of the grid were not looked at, by why; beside those of more
    chunks than ``most_chunks``, that the workload can be cut into (None: the grid has no more). ``workload``, ``card``
    and ``grid``: what was searched.

    A search within a budget may leave programs open. ``exact``: whether ``best`` is proved the optimum all the same,
    ``simplest_exact`` the simplest within 1 % of it; if not, they are so among the simulated. ``floor_s``: no
    program of the grid is faster. ``left_open_because``: why, None where none is left open.
    """

    schema_version: ClassVar[int] = Prediction.schema_version
    best: Found
    simplest: Found
    usual: Found
    usual_fits: bool
    serial_fits: bool
    work_bound: Bound
    critical_s: dict[str, float]
    flatness: Flatness
    faster_s: dict[str, float]
    programs: int
    simulated: int
    left_open: int
    left_open_because: str | None
    exact: bool
    simplest_exact: bool
    floor_s: float
    compiled: bool
    device: str
    device_bytes: int
    memory_bytes: int | None
    link: str
    left_out_whys: dict[str, int]
    most_chunks: int | None
    workload: Workload
    card: Device
    grid: Grid

    def __repr__(self) -> str:
        config, took = self.best.config, format_seconds(self.best.makespan_s)
        return short(f"Best({config.words}: {took} on {self.device}, {self.speedup:.2f}x)")

    @property
    def left_out(self) -> int:
        """How many distinct programs of the grid were not looked at."""
        return sum(self.left_out_whys.values())

    @property
    def left_out_why(self) -> str:
        """Why they were not; empty when there are none."""
        whys = self.left_out_whys
        return "; ".join(whys if len(whys) == 1 else (f"{count}: {why}" for why, count in whys.items()))

    @property
    def serial_s(self) -> float:
        """What the optimum gains over."""
        return self.best.serial_s

    @property
    def speedup(self) -> float:
        """Serial time over the optimum's (1 when there is nothing to do)."""
        return self.gain(self.serial_s)

    @property
    def nearness(self) -> float:
        """How much faster than ``best`` a program of the grid may be, as a share of its time; 0 where it is exact."""
        return 1 - self.floor_s / self.best.makespan_s if self.best.makespan_s else 0.0

    def gain(self, seconds: float) -> float:
        """How many times as fast as something that takes ``seconds`` (1 when there is nothing to do)."""
        return seconds / self.best.makespan_s if self.best.makespan_s else 1.0

    def _json(self) -> dict[str, Any]:
        shares = {f"{margin}%": share for margin, share in self.flatness.share_within.items()}
        searched = ("programs", "simulated", "left_open", "left_open_because", "exact", "simplest_exact", "floor_s")
        return {
            **{name: _found_json(getattr(self, name)) for name in ("best", "simplest", "usual")},
            "serial_s": self.serial_s,
            "serial_program": "unchunked",
            **attributes(self, "serial_fits", "usual_fits"),
            "gain_over_usual": self.gain(self.usual.makespan_s),
            **bound_json("work", self.work_bound),
            "critical_path_s": self.critical_s,
            "share_within": shares,
            "chunks_within": _range_json(self.flatness),
            "faster_by": FASTER,
            **attributes(self, "faster_s", "device_bytes", "memory_bytes", "link"),
            **attributes(self, "left_out", "left_out_why", "most_chunks", *searched, "compiled"),
            "inputs": {"device": self.device},
        }


def _range_json(flatness: Flatness) -> dict[str, int] | None:
    if flatness.chunks_within is None:
        return None
    low, high = flatness.chunks_within
    return {"percent": flatness.range_percent, "from": low, "to": high}


def _found_json(found: Found) -> dict[str, Any]:
    speedup = found.serial_s / found.makespan_s if found.makespan_s else 1.0
    return {
        **msgspec.to_builtins(found.config),
        "makespan_s": found.makespan_s,
        "serial_s": found.serial_s,
        "speedup": speedup,
    }


def best(
    workload: Workload,
    device: Device | str | Path,
    grid: Grid | None = None,
    progress: Progress | None = None,
    fast: bool | None = None,
    budget_ops: int | None = BUDGET_OPS,
) -> Best:
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

    def serial_s(config: Config) -> float:
        is_alike = config.memory == winner.memory and (config.chunks == winner.chunks or not workload.host_work_s)
        return prediction.serial_s if is_alike else predict(config.schedule(workload), device).serial_s

    return Best(
        best=Found(winner, shortest / TICKS_PER_S, prediction.serial_s),
        simplest=Found(simplest, took[simplest] / TICKS_PER_S, serial_s(simplest)),
        usual=Found(usual, usual_ticks.result()[0] / TICKS_PER_S, serial_s(usual)),
        usual_fits=grid.has_room(usual.device_bytes(workload)),
        serial_fits=grid.has_room(prediction.serial_device_bytes),
        work_bound=min(
            (work_bound(workload, device, grid.memory, launch) for launch in grid.launches), key=attrgetter("seconds")
        ),
        critical_s=prediction.critical_s,
        flatness=_flatness(configs, found, winner),
        faster_s={
            name: evaluate_ticks(work, [winner], card, fast)[0] / TICKS_PER_S
            for name, (work, card) in _faster(workload, device).items()
        },
        programs=len(configs),
        simulated=len(took),
        left_open=left_open,
        left_open_because=f"SimPy's budget of {budget_ops} simulated ops is spent" if left_open else None,
        exact=found.is_exact,
        simplest_exact=not found.open_within(NEAR_PERCENT),
        floor_s=found.floor / TICKS_PER_S,
        compiled=fast,
        device=device.name,
        device_bytes=winner.device_bytes(workload),
        memory_bytes=grid.memory_limit_bytes,
        link=link_words(device, grid.memory == "pageable"),
        left_out_whys=grid.left_out(workload),
        most_chunks=grid.most_chunks(workload),
        workload=msgspec.structs.replace(workload, front_end=""),  # the card has the calls of that front end
        card=device,
        grid=grid,
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


def _faster(workload: Workload, device: Device) -> dict[str, tuple[Workload, Device]]:
    """The workload and the device with one thing 1.1 times as fast: bandwidths times 1.1, times over 1.1."""
    kernels = tuple(kernel.scaled(1 / FASTER) if kernel.is_timed else kernel for kernel in workload.kernels)
    faster_kernels = msgspec.structs.replace(workload, kernels=kernels)
    return {
        "link": (workload, faster(device, "link", FASTER)),
        "kernel": (faster_kernels, faster(device, "kernel", FASTER)),
        "launch": (workload, faster(device, "launch", FASTER)),
    }
