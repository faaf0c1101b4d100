"""Changes that pay only together: the shortest list of changes that comes within 1 % of what ``best`` finds.

More chunks may be slower in one issue order and faster in another. Then neither the other order nor the other number of
chunks need gain much alone. A coarse grid shows whether there is more to gain than by a single change. Only then,
``best`` is asked for the optimum. The changes and their words are those of :mod:`streamsim.transform.changes`.
"""

from contextlib import suppress
from itertools import accumulate

from msgspec.structs import replace

from streamsim.analysis import WORTH, Explanation, Together
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import PREFETCH_BUFFERS, Config, Order
from streamsim.rules import TICKS_PER_S, ticks
from streamsim.search.best import best
from streamsim.search.budgeted import NEAR_PERCENT, within
from streamsim.search.evaluate import evaluate_ticks
from streamsim.search.grid import COARSE_CHUNKS, Grid
from streamsim.transform import Case, Change, Source, changed_by
from streamsim.transform import changes as make

MOST_CALLS = 50_000  # of all programs of the coarse grid
STREAMS = (1, 2, 3, 4, 6, 8)


def together(source: Source, device: Device, explanation: Explanation) -> Together | None:
    """Return the shortest list of changes; None if a single change gains as much, to within 3 % of the makespan.

    ``explanation``: that of the program that ``source`` makes on ``device``.
    """
    workload, config = source.workload, source.config.fitted()
    best_s = explanation.best.gain_alone_s if explanation.best else 0.0
    enough = ticks((1 - WORTH) * explanation.makespan_s - best_s)
    if min(_coarse(source, device).values(), default=enough) >= enough:
        return None
    grid = replace(Grid(), order=_orders(source), buffers=_buffers(source.config), memory=config.memory)
    found = best(workload, device, replace(grid, launch=(config.launch,)))
    tried = _coarse(source, device, (found.best.config, found.simplest.config))
    shortest = min(ticks(found.best.makespan_s), *tried.values())
    near = [way for way, took in tried.items() if within(took, shortest, NEAR_PERCENT)]
    case = Case(config.schedule(workload), device, Source(workload, config))
    for way in sorted(near, key=lambda way: (len(changes(config, way)), way.simplicity)):
        with suppress(InputError):  # the table has no changes that lead there
            made = changed_by(changes(config, way), case)
            if made.case.pipeline is not None:
                return Together(made.words, tried[way] / TICKS_PER_S, made.case.scenario)
    return None


def _coarse(source: Source, device: Device, more: tuple[Config, ...] = ()) -> dict[Config, int]:
    """Return the makespans in ticks of a coarse grid that includes the chunks and streams of ``more``."""
    workload, config = source.workload, source.config
    grid = Grid(
        chunks=tuple({*COARSE_CHUNKS, *(min(way.chunks, workload.most_chunks) for way in (config, *more))}),
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
    """Return the program's order and those that ``best`` tries; also a prefetcher if chunks stay in order."""
    orders: tuple[Order, ...] = (source.config.order, *Grid().order)
    return tuple(dict.fromkeys((*orders, "prefetch") if source.workload.in_order else orders))


def _buffers(config: Config) -> tuple[int | None, ...]:
    return tuple(dict.fromkeys((None, config.buffers)))


def changes(was: Config, now: Config) -> list[Change]:
    """Return the changes that lead from one configuration to another, in the order in which they are made."""
    found: list[Change] = []
    if was.is_blocking and not now.is_blocking:
        found.append(make.make_async())
    if now.is_prefetch and not was.is_prefetch:
        found.append(make.prefetch((now.slots or PREFETCH_BUFFERS) - 1))
    if now.chunks != was.chunks:
        found.append(make.chunks(now.chunks))
    if not now.is_prefetch and (was.is_prefetch or now.streams != min(was.streams, now.chunks)):
        found.append(make.streams(now.streams))
    if now.buffers is None and was.slots is not None:
        found.append(make.buffers(0))
    if now.order != was.order and not now.is_prefetch:
        found.append(make.order(now.order))
    return found
