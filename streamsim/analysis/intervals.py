"""How uncertain a prediction is: an interval from devices drawn as their numbers were measured.

A calibration knows its numbers only to within their spread (``Device.spread``); what the model misses even with the
right ones is a rule of its own. And nothing says at which of its hardware queues a card begins its rounds. So the
schedule is simulated many times, each time on a device drawn from the profile and with its queues served in another
order, each time is missed as the rule has it, and the middle of those times is the interval.

The rule of what the model misses: the shorter the copies and kernels, the more of the time lies between them, where the
model knows least. Over the schedules of the suite random the logarithm of measured over predicted scatters as Student's
t with two degrees of freedom (most schedules are met closely, a few are far off), times the root of :data:`MISSED_S`
over the mean time of a copy or kernel. Both numbers are the likeliest ones of the first three random records of an H100
and of an H200, beside what the spread of their calibrations explains; each card alone, either class alone, and
exponents that are left free give the same within a tenth. docs/evidence.md judges them on other records.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from streamsim.compiled import simulate_one_of_many
from streamsim.device import HOST_TIMES, Device, as_device, known_within, multiplied, number_names
from streamsim.errors import InputError, check_whole
from streamsim.program import LEGACY_STREAM, Copy, Kernel, Op, Schedule, StreamKind
from streamsim.text import format_between

Array = NDArray[np.float64]
SAMPLES, FEWEST_SAMPLES, MOST_SAMPLES = 1000, 20, 1_000_000
MOST_SEED = (1 << 63) - 1
LEVEL = 0.9
PUBLISHED_SPREAD, ASSUMED_SPREAD, ASSUMED_TIME_SPREAD = 0.03, 0.05, 0.3  # of profiles that nobody calibrated
MISSED_S = 4.1e-9
FREEDOM = 2.0
MOST_POWER = 50.0  # of e: a larger factor is cut to it
ORDERED = "same-queue-first"  # the one rule by which it matters in which order queues are served


class Interval(msgspec.Struct, frozen=True):
    """The seconds between which the makespan lies with probability ``level``, from so many ``samples`` of a seed."""

    low_s: float
    high_s: float
    level: float
    samples: int
    seed: int

    @property
    def between(self) -> str:
        """The interval in words, with the figures that its width leaves: ``1.45 .. 1.53 ms``."""
        sum_s = self.low_s + self.high_s
        return format_between(self.low_s, self.high_s, (self.high_s - self.low_s) / sum_s if sum_s else 0.0)


def interval(schedule: Schedule, device: Device | str | Path, samples: int = SAMPLES, seed: int = 0) -> Interval:
    """Simulate ``schedule`` on ``samples`` devices drawn as ``device`` was measured, the same ones for the same seed.

    ``device``: a Device, or the name or file of one. Raises InputError for an unknown device, for one whose profile
    has no spread and no assumed latency, and for other ``samples`` than 20 to 1,000,000.
    """
    return intervals_of([schedule], as_device(device), samples, seed)[0]


def _makespan_s(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device).makespan_s


def intervals_of(
    schedules: Sequence[Schedule],
    device: Device,
    samples: int = SAMPLES,
    seed: int = 0,
    time_s: Callable[[Schedule, Device], float] = _makespan_s,
) -> list[Interval]:
    """:func:`interval` of each schedule, on the same draws; ``time_s``: what is predicted of it, in seconds."""
    times = drawn_times_s(schedules, device, samples, seed, time_s)
    standard = _generators(seed)[2].standard_t(FREEDOM, samples)
    for schedule, its_times in zip(schedules, times, strict=True):
        its_times *= missed(schedule, its_times, standard)
    low, high = np.quantile(times, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=1)
    return [Interval(float(a), float(b), LEVEL, samples, seed) for a, b in zip(low, high, strict=True)]


def drawn_times_s(
    schedules: Sequence[Schedule],
    device: Device,
    samples: int = SAMPLES,
    seed: int = 0,
    time_s: Callable[[Schedule, Device], float] = _makespan_s,
) -> Array:
    """What is predicted of each schedule on each draw, before anything is missed: seconds, shape (schedules, samples).

    Arguments and errors as for :func:`intervals_of`.
    """
    drawn = list(draws(device, samples, seed))
    orders, queues = _generators(seed)[1], shared_queues(device)
    permuted = [orders.permutation(queues).tolist() for _ in drawn]
    times = np.empty((len(schedules), samples))
    for its_times, schedule in zip(times, schedules, strict=True):
        feels_it = feels_the_order(schedule, device)
        served = (served_in_order(schedule, order) if feels_it else schedule for order in permuted)
        its_times[:] = list(map(time_s, served, drawn))
    return times


def _generators(seed: int) -> tuple[np.random.Generator, ...]:
    """Of the devices, of the orders of their queues, and of what the model misses: more samples only add to each."""
    return tuple(np.random.default_rng(own) for own in np.random.SeedSequence(seed).spawn(3))


# Devices


def draws(device: Device, samples: int = SAMPLES, seed: int = 0) -> Iterator[Device]:
    """``samples`` devices as likely as ``device``: each number times exp(spread * z), z standard normal.

    Independent of each other, but that all kernels share one z, and so do the calls that wait for nothing: a host is
    fast or slow for all of them. Then a link that is shared is made no faster than one that is not. Whole numbers
    (queues, engines, bytes) are known, and a time of 0 stays 0. Arguments and errors as for :func:`interval`.
    """
    check_whole("samples", samples, FEWEST_SAMPLES, MOST_SAMPLES)
    check_whole("seed", seed, 0, MOST_SEED)
    spread = device.spread or _assumed_spread(device)
    if not spread:
        raise InputError(
            f"device {device.name!r}: its profile has no spread to draw from, and no latency that is assumed; calibrate"
            " the card with streamsim-validate calibrate, or take a card's profile, such as h200"
        )
    generator, names = _generators(seed)[0], sorted(number_names(device) & set(spread))
    together = {*HOST_TIMES}.intersection(names)  # one host, one speed

    def drawn() -> Device:
        z = dict(zip(names, generator.standard_normal(len(names)).tolist(), strict=True))
        z |= dict.fromkeys(together, z[min(together)] if together else 0.0)
        powers = {name: spread[name] * own for name, own in z.items()}
        return multiplied(device, {name: math.exp(max(-MOST_POWER, min(p, MOST_POWER))) for name, p in powers.items()})

    return (drawn() for _ in range(samples))


def _assumed_spread(device: Device) -> Mapping[str, float]:
    """Return the spread of a profile whose latencies are assumed, by its sources.

    A published number is known to 3 %, an assumed rate to 5 %, an assumed time to 30 %.
    """
    spread = dict[str, float]()
    for name in number_names(device) if known_within(device) else ():
        is_time = name.endswith("_s") and not name.endswith("per_s")
        if isinstance(attrgetter(name)(device), float):
            assumed = ASSUMED_TIME_SPREAD if is_time else ASSUMED_SPREAD
            spread[name] = assumed if device.source(name)[0] == "assumed" else PUBLISHED_SPREAD
    return spread


# The order of the queues


def shared_queues(device: Device) -> int:
    """Of how many queues both kinds of engine have a multiple: streams renamed among so many move alike on both."""
    return math.gcd(device.connections, device.copy_engines.connections)


def feels_the_order(schedule: Schedule, device: Device) -> bool:
    """Return True if the order in which queues are served can matter to ``schedule``: it needs two queues and the rule.

    The first queue of the legacy stream keeps its place, so that stream does not count.
    """
    streams = {op.stream for op in schedule.ops if op.stream}
    rules = device.compute.arbitration, device.copy_engines.arbitration
    return min(len(streams), shared_queues(device)) > 1 and ORDERED in rules


def served_in_order(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """``schedule`` with its streams renamed so that queue ``q`` of ``len(order)`` becomes ``order[q]``.

    Stream 1 + g * a + b of g = len(order) becomes 1 + g * a + order[b]. So where the numbers of queues are multiples of
    g, the home of every stream moves as its queue should. A stream that finds its home taken may come to another queue
    than that, for unused ones are taken in their own order. But no name decides when a stream loses its queue: ops
    that shared a queue still share one, and no others do. The legacy default stream has the queue of the first stream,
    which then keeps its place.
    """
    if any(op.stream == LEGACY_STREAM for op in schedule.ops):
        order = [0, *(place for place in order if place)]
    turns = -(-len(schedule.streams) // len(order))
    name = [LEGACY_STREAM, *(1 + len(order) * a + b for a in range(turns) for b in order)]
    kinds: list[StreamKind] = ["non-blocking"] * (len(name) - 1)
    for stream, kind in enumerate(schedule.streams, 1):
        kinds[name[stream] - 1] = kind

    def renamed(op: Op) -> Op:
        return op if op.stream is None else replace(op, stream=name[op.stream or LEGACY_STREAM])

    return replace(schedule, ops=tuple(map(renamed, schedule.ops)), streams=tuple(kinds))


# What the model misses


def missed(schedule: Schedule, times_s: Array, standard: Array) -> Array:
    """Factors, shape (n,), by which measured times of ``schedule`` differ from predictions of ``times_s`` seconds.

    ``standard``: the misses of copies and kernels that take ``MISSED_S`` each, shape (n,). What takes no time is not
    missed.
    """
    of_its_time = np.divide(MISSED_S * works_in(schedule), times_s, out=np.zeros_like(times_s), where=times_s > 0)
    with np.errstate(over="ignore"):
        return np.exp(np.clip(np.sqrt(of_its_time) * standard, -MOST_POWER, MOST_POWER))


def works_in(schedule: Schedule) -> int:
    """Return the number of copies and kernels of ``schedule``."""
    return sum(isinstance(op, Copy | Kernel) for op in schedule.ops)
