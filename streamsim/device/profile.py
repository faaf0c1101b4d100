"""Device profiles: a card, its link and its host.

A profile is a TOML file (``streamsim devices show h200``). ``[sources]`` gives the origin of every number:
``measured: ...``, ``published: ...`` or ``assumed: ...``. The ideal device has every effect switched off.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from streamsim import errors
from streamsim.device import tables
from streamsim.program import Kernel
from streamsim.text import format_bytes

SOURCE_KINDS = ("measured", "published", "assumed")
LIMITED = "what the memory limit allows"  # the source of a card's memory if a limit makes it smaller

# Numbers that profiles in kept records have. Measured runs do not need their effects: docs/tried.md.
RETIRED = ("h2d.crowded_bytes", "d2h.crowded_bytes", "host.graph_edge_s")


class Occupancy(NamedTuple):
    """The time of a kernel and the shares of the card that it uses.

    - ``alone_s``: seconds with the card to itself. For a part of a launch see :func:`part_s`.
    - ``share``: the share of the card that it keeps busy, averaged over ``alone_s``, 0 to 1. ``alone_s * share`` is its
      work: the seconds that it takes of the whole card.
    - ``drain_s``: seconds at its end in which the card is free for others. It is a whole number of nanoseconds, and
      leaves at least one for the work, which then keeps more of the card busy. For a kernel with a duration it is the
      kernel floor. It is 0 if the card's threads are unknown, or if copies and kernels share one engine.
    - ``threads``: the share of the card's threads that it holds. For a kernel with a duration, or if the card's threads
      are unknown, it equals ``share``.
    - ``resident``: the share of the card's threads that it holds, if the kernel gives both its threads and a fill above
      the share that these threads fill; else 0.
    """

    alone_s: float
    share: float
    drain_s: float
    threads: float
    resident: float = 0.0


class Device(tables.ProfileTable, frozen=True):
    """A device profile: a card, its link and its host.

    - ``h2d``, ``d2h``, ``copy_engines``, ``compute``, ``hand_over``, ``host``: tables of numbers and rules.
    - ``connections``: hardware queues in front of the compute engine, if ``copy_engines.count`` is not 0.
    - ``sources``: the origin of each number, by dotted name: "measured: ...", "published: ..." or "assumed: ...".
    - ``spread``: the relative standard deviation of a number, by dotted name (``compute.kernels``: of all kernel times
      together). :mod:`streamsim.analysis.intervals` draws from it.
    - ``memory_bytes``: the card's memory (None: unknown, so no schedule is too large).
    - ``link``: words for the connection of card and host, such as ``PCIe gen 4 x16``.
    - ``front_ends``: call times of array libraries on this host, by name (:mod:`streamsim.device.library`).

    Raises InputError naming the field, its value and the expected values.
    """

    name: str
    description: str
    connections: Annotated[int, tables.FieldSpec(least=1, most=tables.MOST_CONNECTIONS)]
    h2d: tables.LinkDirection
    d2h: tables.LinkDirection
    copy_engines: tables.CopyEngines
    compute: tables.Compute
    hand_over: tables.HandOver
    host: tables.Host
    sources: dict[str, str]
    spread: dict[str, float] = msgspec.field(default_factory=dict)
    schema_version: Literal[1] = 1
    memory_bytes: errors.Bytes | None = None
    link: str = ""
    front_ends: dict[str, tables.FrontEnd] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        tables.ProfileTable.__post_init__(self)
        if not self.name.strip() or "," in self.name:
            raise errors.InputError(
                f"name = {errors.shown(self.name)}: expected a name without commas, which stand between devices"
            )
        for name, calls in self.front_ends.items():
            errors.check_is(f"front_ends.{name}", calls, tables.FrontEnd)
            _check_source(f"front_ends.{name}.source", calls.source)
        _check_sources(self)

    def source(self, name: str) -> tuple[str, str]:
        """Return the source of the number ``name`` (dotted): "measured", "published" or "assumed", and the details.

        Both are empty if the profile does not say where the number is from.
        """
        kind, _, text = self.sources.get(name, self.sources.get(name.rpartition(".")[0], "")).partition(":")
        return kind, text.strip()

    def has_room(self, n_bytes: int) -> bool:
        """Return True if device buffers of ``n_bytes`` fit, or if the card's memory is unknown."""
        return self.memory_bytes is None or n_bytes <= self.memory_bytes

    def check_room(self, n_bytes: int, remedy: str = "use a ring of few buffers and more chunks") -> None:
        """Raise NoRoomError, whose message ends in ``remedy``, if device buffers of ``n_bytes`` do not fit."""
        if self.memory_bytes is not None and not self.has_room(n_bytes):
            limit = "the memory limit is" if self.source("memory_bytes")[1] == LIMITED else f"{self.name} has room for"
            raise errors.NoRoomError(
                f"device buffers of {n_bytes} bytes ({format_bytes(n_bytes)}): {limit} {self.memory_bytes}"
                f" ({format_bytes(self.memory_bytes)}); {remedy}"
            )

    def with_connections(self, connections: int) -> "Device":
        """Return the device with this many hardware queues in front of each engine (CUDA_DEVICE_MAX_CONNECTIONS)."""
        copy_engines = msgspec.structs.replace(self.copy_engines, connections=connections)
        return msgspec.structs.replace(self, connections=connections, copy_engines=copy_engines)

    def occupancy(self, kernel: Kernel, has_floor: bool = True) -> Occupancy:
        """Return the time of ``kernel`` and its shares of the card.

        ``has_floor``: False if the kernel may take less than the profile's ``floor_s``.

        Raises InputError if the kernel has no duration and the profile has no cost for it.
        """
        full, side_by_side = self.compute.resident_threads, self.runs_side_by_side
        floor_s = self.compute.floor_s if has_floor else 0.0
        if kernel.duration_s is None:
            cost = self.cost_of(kernel)
            alone_s = max(cost.at(kernel.elements), floor_s)
            drain_s = _drain_s(cost.drain_s(kernel.elements, full, floor_s), alone_s) if side_by_side else 0.0
            work_s = alone_s - drain_s  # the work fills at most the whole card for this long
            share = _share(min(kernel.elements * cost.s_per_element, work_s), alone_s)
            return Occupancy(alone_s, share, drain_s, min(1.0, kernel.elements / full) if full else share)
        whole_s = kernel.duration_s / kernel.share
        waves = (kernel.threads or kernel.elements) / kernel.share / full if full else 0.0  # of threads; 0: unknown
        alone_s = part_s(whole_s, kernel.share, waves, floor_s, kernel.parts)
        launch_s = floor_s if side_by_side else 0.0  # others may use the card meanwhile
        idle_s = constant_s(whole_s, waves, floor_s, kernel.parts) if side_by_side else 0.0
        fill = kernel.fill or min(1.0, waves or 1.0)  # share of the card that the whole launch keeps busy
        share = _share(max(0.0, kernel.duration_s - kernel.share * idle_s) * fill, alone_s)
        few = full > 0 and waves < (kernel.fill or 0.0)  # the threads fill less of the card than they keep busy
        resident = kernel.threads / full if few else 0.0
        return Occupancy(alone_s, share, _drain_s(launch_s, alone_s), share, resident)

    def kernel_paces(self, kernel: Kernel, steps: int) -> tuple[float, ...]:
        """Return the card's pace with 0, 1, ... ``steps`` ``steps``-ths of its threads in use by kernels such as this.

        A pace is a share of the card's full pace, 0 to 1. For a kernel with a duration, or if the card's threads are
        unknown, the pace is the share of threads in use: :func:`even_paces`.
        """
        full = self.compute.resident_threads
        if kernel.duration_s is not None or full < steps:
            return even_paces(steps)
        return (0.0, *tables.paces(self.cost_of(kernel), full, self.compute.floor_s, steps))

    @property
    def runs_side_by_side(self) -> bool:
        """True if kernels may use the card while another one drains: its threads are known and it has copy engines."""
        return self.compute.resident_threads > 0 and self.copy_engines.count > 0

    def cost_of(self, kernel: Kernel) -> tables.KernelCost:
        """Return the measured cost of a kernel by its name and parameter. Raises InputError if the profile has none."""
        for cost in self.compute.kernels:
            if (cost.name, cost.parameter) == (kernel.name, kernel.parameter):
                return cost
        known = ", ".join(f"{c.name}({c.parameter})" for c in self.compute.kernels) or "none"
        raise errors.InputError(
            f"kernel {kernel.name!r} with parameter {kernel.parameter}: device {self.name!r} has no cost for it"
            f" (it knows: {known}); give the kernel a duration_s"
        )


@cache
def even_paces(steps: int) -> tuple[float, ...]:
    """Return the paces 0, 1 / ``steps``, ... 1: the pace grows with the threads in use."""
    return tuple(step / steps for step in range(steps + 1))


def _drain_s(left_s: float, alone_s: float) -> float:
    """Return ``left_s``, rounded to whole nanoseconds, and at most ``alone_s`` rounded less one nanosecond.

    The model's clock counts nanoseconds, half of one rounded up. Without the rounding, the kernel's work would differ
    from that of its rounded time.
    """
    left_ns, alone_ns = (math.floor(seconds * 1e9 + 0.5) for seconds in (left_s, alone_s))
    return max(0, min(left_ns, alone_ns - 1)) * 1e-9


def _share(work_s: float, alone_s: float) -> float:
    return min(1.0, work_s / alone_s) if alone_s > 0 else 1.0


def number_names(device: Device) -> set[str]:
    """Return the dotted names of the numbers in a profile (kernel costs count as one number)."""
    values: dict[str, Any] = {name: getattr(table, field.name) for name, table, field in declared(device)}
    values |= {"connections": device.connections, "memory_bytes": device.memory_bytes}
    return {name for name, value in values.items() if type(value) in (int, float) or (value and type(value) is tuple)}


def tables_of(device: Device) -> dict[str, tables.ProfileTable]:
    """Return the tables of a profile, by name."""
    parts = {name: getattr(device, name) for name in device.__struct_fields__}
    return {name: part for name, part in parts.items() if isinstance(part, tables.ProfileTable)}


def declared(device: Device) -> Iterator[tuple[str, tables.ProfileTable, tables.Field]]:
    """Yield the dotted name of every field of the tables, its table, and its declaration."""
    for name, table in tables_of(device).items():
        for field in tables.fields_of(type(table)):
            yield f"{name}.{field.name}", table, field


def _check_source(name: str, source: str) -> None:
    kind, _, text = source.partition(":")
    if kind not in SOURCE_KINDS or not text.strip():
        raise errors.InputError(f"{name} = {source!r}: expected 'measured: ...', 'published: ...' or 'assumed: ...'")


def _check_sources(device: Device) -> None:
    known = number_names(device)
    sections = {name.rpartition(".")[0] for name in known}
    for table, own in (("sources", known | sections), ("spread", known)):
        for name, value in getattr(device, table).items():
            if name not in own:
                raise errors.InputError(f"{table}.{name} = {value!r}: the profile has no number of that name")
    for name, source in device.sources.items():
        _check_source(f"sources.{name}", source)
    for name, spread in device.spread.items():
        errors.check_number(f"spread.{name}", spread, 0.0, 1e9)
    # A profile may leave out numbers at their default, which have no effect.
    left_out = {name for name, table, field in declared(device) if getattr(table, field.name) == field.default}
    for name in sorted(known - left_out):
        if device.source(name) == ("", ""):
            raise errors.InputError(f"{name}: has no source; add sources.{name!r} = 'measured|published|assumed: ...'")


def with_values(device: Device, values: Mapping[str, Any]) -> Device:
    """Return ``device`` with new ``values`` of fields, by full dotted name. No other field follows.

    Raises InputError naming the field of a bad value.
    """
    new: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        table, _, field = name.partition(".")
        new.setdefault(table, {})[field] = value
    changed: dict[str, tables.ProfileTable] = {}
    for table, fields in new.items():
        try:
            changed[table] = msgspec.structs.replace(getattr(device, table), **fields)
        except errors.InputError as error:
            raise errors.InputError(f"{table}.{error}") from None
    return msgspec.structs.replace(device, **changed)


# A part of a launch


# A wave is as many threads as fill the card. A launch of an eighth of a wave or less takes a quarter of a wave's time.
# From there to the whole launch the time is a straight line. docs/tried.md has other limits that were tried.
LEAST_THREADS, LEAST_TIME = 1 / 8, 1 / 4


def part_s(
    whole_s: float, share: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()
) -> float:
    """Return the seconds that ``share`` of a launch takes; the whole takes ``whole_s``.

    - ``waves``: how many times the threads of the whole launch fill the card (0: unknown; then no wave is too small).
    - ``floor_s``: the seconds that any launch takes. The rules below are for the seconds beyond this floor.
    - ``parts``: known times of parts of the launch, as (share, seconds), ascending.

    Between known parts, the time lies on the line through them. The smaller of two parts may take more than its share
    of the larger one. Then all parts up to an eighth of a wave take as long as the smaller one, or up to the share at
    which that time is their share of the larger one. A part of ``LEAST_SHARE`` is a latency: the time without any work.
    Below the smallest known part, the time follows the rule above for that part's own parts, or the line through it and
    a larger part where that is longer.
    """
    (least, least_s), *more = known = [(part, max(0.0, took_s - floor_s)) for part, took_s in (*parts, (1.0, whole_s))]
    if share <= least:
        found_s = by_rule_s = least_s * _part_of(share / least, waves * least)
        for larger in reversed(more):
            found_s += _weight(least, larger[0]) * (_on_a_line(share, known[0], larger) - found_s)
        return floor_s + max(by_rule_s, found_s)
    one, other = next(pair for pair in pairwise(known) if share <= pair[1][0])
    until = _alike_until(one, other, waves)
    return floor_s + (one[1] if share <= until else _on_a_line(share, (max(one[0], until), one[1]), other))


def bends(whole_s: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()) -> list[float]:
    """Return the shares between which :func:`part_s` is a straight line.

    Below the smallest of them, the time divided by the share falls with a growing share.
    """
    known = [(part, max(0.0, took_s - floor_s)) for part, took_s in (*parts, (1.0, whole_s))]
    untils = (_alike_until(one, other, waves) for one, other in pairwise(known))
    return [*(share for share, _ in known), *(until for until in untils if 0 < until < 1)]


def _alike_until(one: tuple[float, float], other: tuple[float, float], waves: float) -> float:
    """Return the share up to which all parts take as long as the part ``one``; ``other``: the next larger part.

    Both are (share, seconds beyond the floor).
    """
    is_part = waves and one[0] > errors.LEAST_SHARE and other[1]  # else a latency
    return min(LEAST_THREADS / waves, other[0] * one[1] / other[1]) if is_part else one[0]


def _weight(one: float, other: float) -> float:
    """Return the weight of the line through parts of two shares: 0 if equal, 1 if one is at least twice the other."""
    return min(1.0, 2 * (1 - one / other))


def _part_of(share: float, waves: float) -> float:
    """Return the time of ``share`` of a launch of ``waves`` over the time of the whole, both beyond the floor."""
    if not waves:
        return share
    knee = LEAST_THREADS / waves
    return 1.0 if knee >= 1 else _on_a_line(max(share, knee), (knee, LEAST_TIME / _of_a_wave(waves)), (1.0, 1.0))


def _of_a_wave(waves: float) -> float:
    """Return the time of ``waves`` waves over the time of one wave, both beyond the floor."""
    return waves if waves >= 1 else _on_a_line(max(waves, LEAST_THREADS), (LEAST_THREADS, LEAST_TIME), (1.0, 1.0))


def _on_a_line(share: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    return one[1] + (other[1] - one[1]) * (share - one[0]) / (other[0] - one[0])


def constant_s(whole_s: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()) -> float:
    """Return the seconds of a whole launch that do not depend on its work, at least ``floor_s``.

    The arguments are those of :func:`part_s`. The line through the whole and the largest known part, extended to share
    0, gives these seconds. Two things make a part less certain, and it counts for less:

    - A part of less than a wave also takes long because it has few threads. It counts in proportion to its waves.
    - A part of more than half of the launch is too near to the whole. It counts less, the larger it is, and the next
      smaller part counts for the rest.
    """
    found_s = 0.0
    for share, took_s in parts:
        known = _weight(share, 1.0)
        begins_s = min(took_s, _on_a_line(0.0, (share, took_s), (1.0, whole_s))) if known else 0.0
        found_s = known * max(0.0, begins_s - floor_s) * min(1.0, waves * share) + (1 - known) * found_s
    return floor_s + found_s
