"""A lowered schedule as the records that the compiled loop runs: the one place that reads the model's ``Lowered``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsim.checks import LARGEST_BYTES, LARGEST_COUNT
from streamsim.compiled.tables import ALSO, CARD, NONE, OP, QUEUES, SEGMENT, SHAPE
from streamsim.device.fields import fields_of
from streamsim.lowering.costs import (
    KERNEL,
    NOTHING,
    Rate,
    Shape,
    copy_rate,
    event_ticks,
    hand_over_table,
    streams_ticks,
)
from streamsim.rules.clock import ticks
from streamsim.rules.link import NEVER
from streamsim.text.quantities import TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamsim.device.fields import Table
    from streamsim.device.profile import Device
    from streamsim.lowering.lowered import Lowered

Array = np.ndarray[Any, Any]
ENGINE_OF_KIND = {0: (0, 0, 0, 0), 1: (0, 0, 2, 0), 2: (0, 1, 2, 0)}  # by the number of copy engines
LARGEST = NEVER // 2  # for any tick, and for any product that makes one


class Card(NamedTuple):
    """A device: its record, ticks from kind to kind (4 x 4), and the engine of each kind."""

    record: np.void
    hand_over: Array
    engine_of_kind: Array


class Arrays(NamedTuple):
    """The arguments of ``loop.run``, less its scratch and its results."""

    card: np.void
    hand_over: Array
    launch: int
    more: int
    cold: int
    enter: int
    event: int
    shapes: Array
    ops: Array
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
    hand_over = np.array(hand_over_table(device.hand_over), np.int64)
    engines = np.array(ENGINE_OF_KIND[copy_engines], np.uint8)
    return Card(record[0], hand_over, engines)


def _times(table: Table) -> dict[str, int]:
    """The ticks of every time of a profile's table, by its name without the unit: so ``CARD`` names what it wants."""
    return {
        field.name.removesuffix(TIME): ticks(getattr(table, field.name))
        for field in fields_of(type(table))
        if field.is_number
    }


def overhead_of(device: Device) -> int:
    """Ticks that an op may take beyond its call and its engine: all that lies between two ops, at most."""
    hand_over, host = device.hand_over, device.host
    between = max(hand_over_table(hand_over)) + event_ticks(device, LARGEST_COUNT)
    calls = streams_ticks(device, LARGEST_COUNT) + ticks(host.after_wait_s) + ticks(host.enter_s)
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
    """Whether so many ops of these shapes stay within an int64, whatever waits for whatever."""
    return launch + ops * max(most_ticks(shape, overhead) for shape in shapes) <= LARGEST


def shape_row(shape: Shape, holds: bool = False) -> tuple[Any, ...]:
    """A shape as a record; ``holds``: the call returns only when the op has ended."""
    rate = shape.rate
    costs = shape.kind, shape.call, shape.duration, shape.units, rate.alone, rate.shared
    of_card = shape.width, shape.threads, shape.drain
    return (*costs, *of_card, holds, shape.idle, rate.latency + rate.duplex_latency)


def flatten(lowered: Lowered) -> Arrays | None:
    """A lowered schedule as records, or None if int64 cannot hold its ticks."""
    device = lowered.device
    if not fits(lowered.launch, len(lowered.kind), lowered.shapes, overhead_of(device)):
        return None
    card = card_of(device)
    ops = np.zeros(len(lowered.kind), OP)
    ops["after"] = lowered.after
    ops["shape"] = lowered.shape
    ops["pending"] = lowered.pending
    ops["kind"] = np.frombuffer(lowered.kind, np.uint8)
    ops["queue"] = np.frombuffer(lowered.queue, np.uint8)
    if lowered.enters:
        ops["enters"] = np.frombuffer(lowered.enters, np.uint8)
    ops["engine"] = card.engine_of_kind[ops["kind"]]
    _queue_up(ops)
    shapes = np.array([shape_row(shape) for shape in lowered.shapes], SHAPE)
    own = lowered.launch, 0, lowered.after_wait, lowered.enter, lowered.event
    return Arrays(card.record, card.hand_over, *own, shapes, ops, *_segments(lowered), _also(lowered, ops))


def _queue_up(ops: Array) -> None:
    """In front of each engine the ops of a hardware queue wait for the one before them to be dispatched."""
    place = ops["engine"].astype(np.int64) * QUEUES + ops["queue"]
    work = np.flatnonzero(ops["kind"] != NOTHING)
    work = work[np.argsort(place[work], kind="stable")]
    ahead, behind = work[:-1], work[1:]
    same = place[ahead] == place[behind]
    ops["behind"] = NONE
    ops["behind"][ahead[same]] = behind[same]
    ops["pending"][behind[same]] += 1


def _segments(lowered: Lowered) -> tuple[Array, Array]:
    rows: list[tuple[int, int, int]] = []
    waits: list[int] = []
    for segment in lowered.segments:
        rows.append((segment.last, len(waits), len(waits) + len(segment.waits_for)))
        waits += segment.waits_for
    return np.array(rows, SEGMENT), np.array(waits, np.int32)


def _also(lowered: Lowered, ops: Array) -> Array:
    issued = lowered.schedule.ops
    rows: list[tuple[int, bool]] = []
    for op, others in lowered.also.items():
        begin = len(rows)
        rows += [(other, issued[other].stream != issued[op].stream) for other in others]
        ops["also_from"][op], ops["also_to"][op] = begin, len(rows)
    return np.array(rows, ALSO)
