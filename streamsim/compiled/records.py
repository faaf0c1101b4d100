"""A lowered schedule as the records that the compiled loop runs: the one place that reads the model's ``Lowered``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsim.checks import LARGEST_BYTES
from streamsim.compiled.tables import ALSO, CARD, NONE, NOT_YET, OP, QUEUES, SEGMENT, SHAPE, THREAD
from streamsim.device.fields import fields_of
from streamsim.lowering.costs import (
    KERNEL,
    NOTHING,
    Rate,
    Shape,
    copy_rate,
    hand_over_table,
    surcharges_of,
)
from streamsim.rules.clock import ticks
from streamsim.rules.hand_overs import MANY
from streamsim.rules.link import NEVER
from streamsim.text.quantities import TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamsim.device.fields import Table
    from streamsim.device.profile import Device
    from streamsim.lowering.host import Segments
    from streamsim.lowering.lowered import Lowered
    from streamsim.program.schedule import Launch

Array = np.ndarray[Any, Any]
ENGINE_OF_KIND = {0: (0, 0, 0, 0), 1: (0, 0, 2, 0), 2: (0, 1, 2, 0)}  # by the number of copy engines
ROLES = 3  # streams that have roles, at most
LARGEST = NEVER // 2  # for any tick, and for any product that makes one
# Programs that hand over alike: how they are launched, their streams, and those of them with kernels. In order a graph,
# 0 to MANY streams, and 0 to ROLES of a program whose streams have roles, of which one runs the kernels.
GRAPH, ISSUED, WITH_ROLES = 0, 1, 2 + MANY
PROGRAMS: tuple[tuple[Launch, int, int], ...] = (
    ("graph", 1, 1),
    *(("live", streams, streams) for streams in range(MANY + 1)),
    *(("live", streams, 1) for streams in range(ROLES + 1)),
)


class Card(NamedTuple):
    """A device: its record, and the engine of each kind."""

    record: np.void
    engine_of_kind: Array


class Arrays(NamedTuple):
    """The arguments of ``loop.run``, less its scratch and its results."""

    card: np.void
    hand_over: Array
    shapes: Array
    ops: Array
    calls: Array
    threads: Array
    segments: Array
    waits: Array
    also: Array


def slowest_rates(device: Device) -> tuple[Rate, Rate]:
    """How the copies that feel most of what else the card does use the link: no copy feels more."""
    return copy_rate(device.h2d, LARGEST_BYTES), copy_rate(device.d2h, LARGEST_BYTES)


def card_of(device: Device) -> Card:
    """The device as the loop sees it.

    Whether copies feel each other and crowds is asked of the copies that would feel it most: of others the loop
    finds the same ticks, whether it looks at the rest of the card or not.
    """
    rates, copy_engines = slowest_rates(device), device.copy_engines.count
    known = {
        **_times(device.host),
        **_times(device.compute),
        "linked": copy_engines == 2 and any(rate.feels_the_other_direction for rate in rates),
        "crowds": copy_engines > 0 and any(rate.feels_crowds for rate in rates),
        "concurrent": device.compute.concurrent_kernels,
        "copy_connections": device.copy_engines.connections,
        "kernel_connections": device.connections,
    }
    record = np.zeros(1, CARD)
    record[0] = tuple(known[name] for name in CARD.names or ())
    return Card(record[0], np.array(ENGINE_OF_KIND[copy_engines], np.uint8))


def hand_overs_of(device: Device) -> Array:
    """For each of ``PROGRAMS`` the ticks from kind to kind."""
    return np.array([hand_over_table(device.hand_over, *program) for program in PROGRAMS], np.int64)


def _times(table: Table) -> dict[str, int]:
    """The ticks of every time of a profile's table, by its name without the unit: so ``CARD`` names what it wants."""
    return {
        field.name.removesuffix(TIME): ticks(getattr(table, field.name))
        for field in fields_of(type(table))
        if field.is_number
    }


def overhead_of(device: Device) -> int:
    """Ticks that an op may take beyond its call and its engine: all that lies between two ops, at most."""
    host = device.host
    between = max(hand_over_table(device.hand_over, "live", MANY, MANY))
    calls = sum(surcharges_of("live", device))
    return between + ticks(host.submit_s) + ticks(host.wake_s) + calls + sum(_times(device.compute).values())


def most_ticks(shape: Shape, overhead: int) -> int:
    """The most that an op adds to any tick; above LARGEST if an int64 cannot hold what is worked out for it.

    The model's numbers have no such limit. Work on the card is counted in ticks times width, and bytes that
    may flow during a latency in ticks times rate.
    """
    rate = shape.rate
    if shape.kind == KERNEL:
        return max(shape.duration + shape.call + overhead, shape.works * shape.width)
    latency = rate.duplex_latency[-1]  # the longest
    if (latency + overhead) * rate.alone > LARGEST:
        return LARGEST + 1
    return latency - -shape.units // rate.shared + shape.call + overhead


def fits(launch: int, ops: int, shapes: Iterable[Shape], overhead: int) -> bool:
    """Whether so many ops of these shapes stay within an int64, whatever waits for whatever.

    ``launch``: ticks of the launch, and of all calls that say what they cost.
    """
    return launch + ops * max(most_ticks(shape, overhead) for shape in shapes) <= LARGEST


def shape_row(shape: Shape, number: int = 0) -> tuple[Any, ...]:
    """A shape as a record; ``number``: of a workload's kernel that of its name, from 1."""
    rate = shape.rate
    costs = shape.kind, shape.call, shape.duration, shape.units, rate.alone, rate.shared
    of_card = shape.width, shape.threads, shape.resident, shape.drain
    return (*costs, *of_card, number, shape.holds, shape.idle, rate.latency + rate.duplex_latency)


def flatten(lowered: Lowered) -> Arrays | None:
    """A lowered schedule as records, or None if int64 cannot hold its ticks."""
    device = lowered.device
    if not fits(lowered.launch + sum(lowered.call), len(lowered.kind), lowered.shapes, overhead_of(device)):
        return None
    card = card_of(device)
    ops = np.zeros(len(lowered.kind), OP)
    ops["after"] = lowered.after
    ops["shape"] = lowered.shape
    ops["comes"] = NEVER
    ops["pending"] = lowered.pending
    ops["kind"] = np.frombuffer(lowered.kind, np.uint8)
    ops["place"] = card.engine_of_kind[ops["kind"]] * QUEUES + np.frombuffer(lowered.queue, np.uint8)
    _queue_up(ops, lowered.runs_on)
    shapes = np.array([shape_row(shape) for shape in lowered.shapes], SHAPE)
    calls = np.frombuffer(lowered.call, np.int64)
    host = _threads(lowered), *_segments(lowered.segments)
    hand_over = np.array(lowered.hand_over, np.int64)
    return Arrays(card.record, hand_over, shapes, ops, calls, *host, _also(lowered, ops))


def _queue_up(ops: Array, runs_on: frozenset[int]) -> None:
    """In front of each engine the ops of a hardware queue wait for the one before them to be dispatched."""
    queued = ops["kind"] != NOTHING
    queued[list(runs_on)] = False
    work = np.flatnonzero(queued)
    behind = np.append(work, NONE)[_next_alike(ops["place"][work])]
    ops["behind"] = NONE
    ops["behind"][work] = behind
    ops["pending"][behind[behind != NONE]] += 1


def _next_alike(column: Array) -> Array:
    """For each row the next one with the same entry, or NONE."""
    order = np.argsort(column, kind="stable")
    same = np.diff(column[order]) == 0
    found = np.full(len(column), NONE)
    found[order[:-1][same]] = order[1:][same]
    return found


def _threads(lowered: Lowered) -> Array:
    firsts = np.sort(np.unique(np.frombuffer(lowered.segments.thread, np.intc), return_index=True)[1])
    return np.array([(first, 0, 0, lowered.launch) for first in firsts], THREAD)


def _segments(segments: Segments) -> tuple[Array, Array]:
    """The segments, and the ops that they wait for, one after another."""
    found = np.empty(len(segments), SEGMENT)
    found["returned"] = NOT_YET
    found["last"], found["behind"], found["waits_to"] = segments.last, segments.behind, segments.waits_to
    for begins, ends in (("first", "last"), ("waits_from", "waits_to")):
        found[begins][:1], found[begins][1:] = 0, found[ends][:-1]
    found["next"] = _next_alike(np.frombuffer(segments.thread, np.intc))
    return found, np.array(segments.waits, np.int32)


def _also(lowered: Lowered, ops: Array) -> Array:
    """Who else waits for an op, as ``ops`` then says: see ALSO."""
    stream = np.frombuffer(lowered.stream, np.intc)
    before, waiting = (np.array(column, np.intc) for column in lowered.also)
    by_op = np.argsort(before, kind="stable")
    before = before[by_op]
    firsts = np.flatnonzero(np.diff(before, prepend=NONE))
    ops["also"] = NONE
    ops["also"][before[firsts]] = firsts
    also = np.zeros(len(by_op), ALSO)
    also["op"] = waiting[by_op]
    also["crosses"] = stream[also["op"]] != stream[before]
    also["next"] = np.arange(1, len(also) + 1)
    also["next"][firsts[1:] - 1] = NONE
    also["next"][-1:] = NONE
    return also
