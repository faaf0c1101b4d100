"""What lies in the bound itself: how evenly the work of a schedule loads its engines, and its streams each engine."""

from collections import Counter
from typing import NamedTuple

from streamsim.analysis import counterfactual as without
from streamsim.analysis.causes import LIMITS, Key
from streamsim.device import Device
from streamsim.lowering import D2H, ENGINES, H2D, KERNEL
from streamsim.program import Copy, Kernel
from streamsim.rules import S_PER_TICK
from streamsim.transform import Scenario


class _Work(NamedTuple):
    """The bare work of an op on its engine: ``busy`` of the engine's time, ``alone`` by itself, in seconds."""

    engine: str
    stream: int
    busy: float
    alone: float


def engines_of(device: Device) -> tuple[str, str, str]:
    """Return the names of the engines of copies in, copies back and kernels."""
    names, engine_of = ENGINES[device.copy_engines.count]
    return names[engine_of[H2D]], names[engine_of[D2H]], names[engine_of[KERNEL]]


def _bare_work(scenario: Scenario) -> list[_Work]:
    """The work of every copy and kernel at the rates of pinned memory, with no latencies."""
    there, back, compute = engines_of(scenario.device)
    schedule, device = without.without_latencies(scenario)
    found = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            link, engine = (device.h2d, there) if op.direction == "h2d" else (device.d2h, back)
            seconds = op.bytes / link.bandwidth_bytes_per_s
            found.append(_Work(engine, op.stream, seconds, seconds))
        elif isinstance(op, Kernel):
            alone, share, *_ = device.occupancy(op)
            found.append(_Work(compute, op.stream, alone * share, alone))
    return found


class Load(NamedTuple):
    """What an engine has to do, and its busiest stream's part of it, in seconds."""

    busy: float
    busiest: float


def loads_of(scenario: Scenario) -> dict[str, Load]:
    """The load of each engine that is used."""
    busy: Counter[str] = Counter()
    of_stream: Counter[tuple[str, int]] = Counter()
    for work in _bare_work(scenario):
        busy[work.engine] += work.busy  # type: ignore[assignment]  # a Counter of seconds
        of_stream[work.engine, work.stream] += work.alone  # type: ignore[assignment]
    return {
        engine: Load(seconds, min(seconds, max(s for (e, _), s in of_stream.items() if e == engine)))
        for engine, seconds in busy.items()
        if seconds
    }


def limits_of(loads: dict[str, Load], floor: int) -> tuple[int, dict[Key, int]]:
    """The ticks of a perfectly even load, and what raises the bound from there to ``floor``."""
    parts: dict[Key, int] = dict.fromkeys(LIMITS, 0)
    if len(loads) > 1:
        mean = sum(load.busy for load in loads.values()) / len(loads)
        parts["unbalanced"] = max(0, floor - round(mean / S_PER_TICK))
    for engine, load in loads.items():
        key: Key = "full-kernels" if engine == "compute" else "same-direction"
        parts[key] += round((load.busy - load.busiest) / len(loads) / S_PER_TICK)
    return floor - sum(parts.values()), parts
