"""Changes that pay only together: the shortest list of them that comes within 1 % of what ``best`` finds.

More chunks may be slower in one order of issue and faster in another: then neither the other order nor the other number
of chunks need gain much by itself. A coarse grid says whether there is more to gain than by a single change; only then
``best`` is asked what the optimum is.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.analysis.advice import WORTH
from streamsim.analysis.causes import Together
from streamsim.rules.clock import TICKS_PER_S, ticks
from streamsim.search.best import best
from streamsim.search.best_first import NEAR_PERCENT, within
from streamsim.search.evaluate import evaluate_ticks
from streamsim.search.grid import Grid
from streamsim.transform.scenario import Scenario

if TYPE_CHECKING:
    from streamsim.analysis.explanation import Explanation
    from streamsim.device.profile import Device
    from streamsim.program.config import Config, Order
    from streamsim.transform.scenario import Source

CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
STREAMS = (1, 2, 3, 4, 6, 8)
MOST_CALLS = 50_000  # of all programs of the coarse grid


def together(source: Source, device: Device, explanation: Explanation) -> Together | None:
    """The shortest list of changes, or None where a single one gains as much, to within 3 % of the makespan.

    ``explanation``: of the program that ``source`` makes on ``device``.
    """
    workload, config = source.workload, source.config
    best_s = explanation.best.gain_alone_s if explanation.best else 0.0
    enough = ticks((1 - WORTH) * explanation.makespan_s - best_s)
    if min(_coarse(source, device).values(), default=enough) >= enough:
        return None
    grid = replace(Grid(), order=_orders(source), buffers=_buffers(config), memory=config.memory)
    found = best(workload, device, replace(grid, launch=(config.launch,)))
    tried = _coarse(source, device, (found.best.config, found.simplest.config))
    shortest = min(ticks(found.best.makespan_s), *tried.values())
    near = [way for way, took in tried.items() if within(took, shortest, NEAR_PERCENT)]
    way = min(near, key=lambda way: (len(changes(config, way)), way.simplicity))
    return Together(tuple(changes(config, way)), tried[way] / TICKS_PER_S, Scenario(way.schedule(workload), device))


def _coarse(source: Source, device: Device, more: tuple[Config, ...] = ()) -> dict[Config, int]:
    """Some programs of the grid, and those with the numbers of ``more``, and what they take, in ticks."""
    workload, config = source.workload, source.config
    grid = Grid(
        chunks=tuple({*CHUNKS, *(min(way.chunks, workload.most_chunks) for way in (config, *more))}),
        streams=tuple({*STREAMS, *(way.streams for way in (config, *more))}),
        order=_orders(source),
        buffers=_buffers(config),
        launch=(config.launch,),
        memory=config.memory,
    )
    configs = grid.within(device.memory_bytes).configs(workload)  # the simplest first
    calls = accumulate(way.chunks * workload.calls_of_chunk for way in configs)
    few = [way for way, so_far in zip(configs, calls, strict=True) if so_far <= MOST_CALLS or way in more]
    return dict(zip(few, evaluate_ticks(workload, few, device), strict=True))


def _orders(source: Source) -> tuple[Order, ...]:
    """The order that it has, and those that ``best`` tries; a prefetcher, too, where chunks stay in order."""
    orders: tuple[Order, ...] = (source.config.order, *Grid().order)
    return tuple(dict.fromkeys((*orders, "prefetch") if source.workload.in_order else orders))


def _buffers(config: Config) -> tuple[int | None, ...]:
    return tuple(dict.fromkeys((None, config.buffers)))


def changes(was: Config, now: Config) -> list[str]:
    """What differs, in words: one for each option that has to be changed."""
    was, found = was.fitted(), list[str]()
    if now.order != was.order:
        found.append(f"{now.order} in place of {was.order}")
    if now.chunks != was.chunks:
        found.append(f"{_count(now.chunks, 'chunk')} in place of {was.chunks}")
    if now.streams != was.streams and not now.is_prefetch:
        found.append(f"{_count(now.streams, 'stream')} in place of {was.streams}")
    if now.buffers != was.buffers:
        found.append("device buffers for each chunk" if now.buffers is None else _count(now.buffers, "device buffer"))
    return found


def _count(n: int, name: str) -> str:
    return f"{n} {name}{'s' * (n != 1)}"
