"""Lowered schedules as the records that the compiled loop runs: the only reader of the model's ``Lowered`` here."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streamsim.checks import LARGEST_BYTES
from streamsim.compiled.tables import ALSO, CARD, NONE, NOT_YET, OP, QUEUES, SEGMENT, SHAPE, THREAD
from streamsim.device import Device, Table, fields_of
from streamsim.lowering import (
    KERNEL,
    NOTHING,
    Lowered,
    Rate,
    Segments,
    Shape,
    copy_rate,
    hand_over_table,
    surcharges_of,
)
from streamsim.program import Launch
from streamsim.rules import MANY, NEVER, ticks
from streamsim.text import TIME

Array = np.ndarray[Any, Any]
ENGINE_OF_KIND = {0: (0, 0, 0, 0), 1: (0, 0, 2, 0), 2: (0, 1, 2, 0)}  # of each kind, by number of copy engines
ROLES = 3  # most streams with roles
LARGEST = NEVER // 2  # limit of ticks, and of the products from which they are computed
# Programs with equal hand-overs: launch, streams, and streams with kernels. First a graph, then 0 to MANY streams, then
# 0 to ROLES streams with roles, one of which runs the kernels.
GRAPH, ISSUED, WITH_ROLES = 0, 1, 2 + MANY
PROGRAMS: tuple[tuple[Launch, int, int], ...] = (
    ("graph", 1, 1),
    *(("live", streams, streams) for streams in range(MANY + 1)),
    *(("live", streams, 1) for streams in range(ROLES + 1)),
)


class Card(NamedTuple):
    """A device: its record, and the engine of each kind of op."""

    record: np.void
    engine_of_kind: Array


class Arrays(NamedTuple):
    """The arguments of ``loop.run``, without its scratch and its results."""

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
    """Return the rates, in both directions, of the copies that feel other work on the card most."""
    return copy_rate(device.h2d, LARGEST_BYTES), copy_rate(device.d2h, LARGEST_BYTES)


def card_of(device: Device) -> Card:
    """Return the device as the loop needs it.

    ``linked`` and ``crowds`` are those of the copies that feel other work most. For the others, the loop finds the same
    ticks whether it looks at other work or not.
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
    """Return the ticks from kind to kind, for each of ``PROGRAMS``."""
    return np.array([hand_over_table(device.hand_over, *program) for program in PROGRAMS], np.int64)


def _times(table: Table) -> dict[str, int]:
    """Return the ticks of all times of a profile's table, by name without the unit, which are the names in ``CARD``."""
    return {
        field.name.removesuffix(TIME): ticks(getattr(table, field.name))
        for field in fields_of(type(table))
        if field.is_number
    }


def overhead_of(device: Device) -> int:
    """Return the most ticks that an op takes beyond its call and its engine."""
    host = device.host
    between = max(hand_over_table(device.hand_over, "live", MANY, MANY))
    calls = sum(surcharges_of("live", device))
    return between + ticks(host.submit_s) + ticks(host.wake_s) + calls + sum(_times(device.compute).values())


def most_ticks(shape: Shape, overhead: int) -> int:
    """Return the most that an op adds to any tick; above LARGEST if its products exceed an int64.

    The model's numbers have no such limit. Work on the card is counted in ticks times width, and bytes that may flow
    during a latency in ticks times rate.
    """
    rate = shape.rate
    if shape.kind == KERNEL:
        return max(shape.duration + shape.call + overhead, shape.works * shape.width)
    latency = rate.duplex_latency[-1]  # the longest one
    if (latency + overhead) * rate.alone > LARGEST:
        return LARGEST + 1
    return latency - -shape.units // rate.shared + shape.call + overhead


def fits(launch: int, ops: int, shapes: Iterable[Shape], overhead: int) -> bool:
    """Return whether the ticks of ``ops`` ops with these shapes fit into an int64, whatever they wait for.

    ``launch``: ticks of the launch, and of all calls that have costs of their own.
    """
    return launch + ops * max(most_ticks(shape, overhead) for shape in shapes) <= LARGEST


def shape_row(shape: Shape, number: int = 0) -> tuple[Any, ...]:
    """Return a shape as a record; ``number``: the number of its kernel's name in a workload, from 1."""
    rate = shape.rate
    costs = shape.kind, shape.call, shape.duration, shape.units, rate.alone, rate.shared
    of_card = shape.width, shape.threads, shape.resident, shape.drain
    return (*costs, *of_card, number, shape.holds, shape.idle, rate.latency + rate.duplex_latency)


def flatten(lowered: Lowered) -> Arrays | None:
    """Return a lowered schedule as records, or None if its ticks exceed an int64."""
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
    """Let each op of a hardware queue wait until the op before it is dispatched."""
    queued = ops["kind"] != NOTHING
    queued[list(runs_on)] = False
    work = np.flatnonzero(queued)
    behind = np.append(work, NONE)[_next_alike(ops["place"][work])]
    ops["behind"] = NONE
    ops["behind"][work] = behind
    ops["pending"][behind[behind != NONE]] += 1


def _next_alike(column: Array) -> Array:
    """Return, for each row, the next row with the same entry, or NONE."""
    order = np.argsort(column, kind="stable")
    same = np.diff(column[order]) == 0
    found = np.full(len(column), NONE)
    found[order[:-1][same]] = order[1:][same]
    return found


def _threads(lowered: Lowered) -> Array:
    firsts = np.sort(np.unique(np.frombuffer(lowered.segments.thread, np.intc), return_index=True)[1])
    return np.array([(first, 0, 0, lowered.launch) for first in firsts], THREAD)


def _segments(segments: Segments) -> tuple[Array, Array]:
    """Return the segments, and the ops that they wait for, one after another."""
    found = np.empty(len(segments), SEGMENT)
    found["returned"] = NOT_YET
    found["last"], found["behind"], found["waits_to"] = segments.last, segments.behind, segments.waits_to
    for begins, ends in (("first", "last"), ("waits_from", "waits_to")):
        found[begins][:1], found[begins][1:] = 0, found[ends][:-1]
    found["next"] = _next_alike(np.frombuffer(segments.thread, np.intc))
    return found, np.array(segments.waits, np.int32)


def _also(lowered: Lowered, ops: Array) -> Array:
    """Return the other waits for ops, and link them from ``ops``; see ALSO."""
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
