"""The parts of a calibration's probes, the samples of their measurement, and the probes as the model predicts them.

Probes are micro-benchmarks and small programs, each of them a Schedule. They are replayed like any other schedule, so
a call costs in a probe what it costs in a pipeline. Probes come as chains of two lengths. The difference of their times
over the difference of their lengths is the time of one link, free of what a run costs once.

Chains whose ops are shorter than their calls stand behind a gate, which holds their engine until all is queued: a long
copy for copies, a spinning kernel for other ops. Behind a gate, copies of several streams that take turns with kernels
start later than in a live program. So these stand behind no gate, and short ones are a graph. Mixes of calls come over
few and over many streams. Of programs (:mod:`streamsim_validate.calibrate.host_calls`), only the time to issue them
counts. No probe is a pipeline that is predicted later.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from streamsim.checks import LONGEST_S
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.program import Buffer, Copy, Direction, Kernel, Op, Region, Schedule, Synchronize
from streamsim.text import mistaken_for, one_line
from streamsim_validate.calibrate.front_ends import LibrarySamples, RecorderSamples
from streamsim_validate.records import (
    SHORTEST_S,
    SYNCHRONISE_CHAINS,
    Card,
    Chain,
    ChainRow,
    PaceRow,
    Timing,
    per_link,
    read_stored,
    relative_deviation,
    rows_of,
    timings_of,
    unzipped,
    usual_pace_s,
)

KI, MI = 1 << 10, 1 << 20
LARGEST_PAGEABLE_BYTES, MOST_ELEMENTS = 16 * MI, 64 * MI
LINK_BYTES, MIX_BYTES = 256 * KI, 64 * KI

DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
GATE_S, GATE_BYTES = 800e-6, 40 * MI  # long enough to queue some hundred ops
FLOAT_BYTES = 4
PAGEABLE, DEVICE_IN, DEVICE_OUT = "pageable", "card_in", "card_out"
HOST: dict[Direction, str] = {"h2d": "host_in", "d2h": "host_out"}
HOST_BYTES = 64 * MI  # copies of a chain share memory only with others of their stream
BUFFERS = (
    Buffer(PAGEABLE, 3 * LARGEST_PAGEABLE_BYTES, "pageable"),
    *(Buffer(name, HOST_BYTES, "pinned") for name in HOST.values()),
    Buffer(DEVICE_IN, MOST_ELEMENTS * FLOAT_BYTES, "device"),
    Buffer(DEVICE_OUT, MOST_ELEMENTS * FLOAT_BYTES, "device"),
)
TINY = Kernel(1, "sincos", KI, 2)
Probe = tuple[Chain, Schedule]


def cycle_bytes(copy: int) -> int:
    """Return the bytes of copy number ``copy`` of a cycle: 256 to 768 KiB, all different, evenly spread.

    An engine that waits for another looks for its signal at intervals (8 us on an H200). Cycles of equal ops fall into
    step with these intervals, and their hand-overs come out all short or all long.
    """
    return (256 + copy * 197 % 512) * KI


def probe_of(kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object) -> Probe:
    """Return the probe of a chain: its ops and a wait for all of them. ``more``: fields of the schedule."""
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def gate() -> Op:
    """Return a kernel that holds stream 1 until all behind it is queued."""
    return Kernel(1, duration_s=GATE_S, fill=0.01)


def moved(direction: Direction, n_bytes: int, stream: int, number: int) -> Copy:
    """Return copy number ``number`` of a chain, from or to memory of its own as in a pipeline.

    Copies back into one place would stay in the host's cache and be a little faster.
    """
    offset = number % (HOST_BYTES // n_bytes) * n_bytes
    device = DEVICE_IN if direction == "h2d" else DEVICE_OUT
    return Copy(direction, n_bytes, stream, Region(HOST[direction], offset, n_bytes), Region(device, offset, n_bytes))


def with_kernel(direction: Direction, n_bytes: int, stream: int, number: int) -> tuple[Copy | Kernel, Copy | Kernel]:
    """Return a copy with the kernel that reads its data, or that writes the data which it takes back.

    The memory of the card is used as in a pipeline. The chains of the two directions share none of it.
    """
    copy = moved(direction, n_bytes, stream, number)
    assert copy.device is not None
    elsewhere = copy.device.offset + HOST_BYTES
    reads, writes = copy.device, Region(DEVICE_OUT, elsewhere, n_bytes)
    if direction == "d2h":
        reads, writes = Region(DEVICE_IN, elsewhere, n_bytes), copy.device
    kernel = Kernel(stream, TINY.name, n_bytes // FLOAT_BYTES, TINY.parameter, reads=(reads,), writes=(writes,))
    return (copy, kernel) if direction == "h2d" else (kernel, copy)


def tiny(stream: int) -> Kernel:
    """Return the shortest kernel, in a stream."""
    return replace(TINY, stream=stream)


SAMPLES_VERSION = 2
NOTHING_ON_CARD = {SYNCHRONISE_CHAINS}  # kinds of chains that do: their time on the card is 0
COPY_KINDS = {*DIRECTIONS, "duplex", "crowded", *(f"{kind} {d}" for kind in ("duplex", "crowded") for d in DIRECTIONS)}


class PlainSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Samples as a file holds them."""

    card: Card
    date: str
    timings: tuple[ChainRow, ...]
    front_ends: dict[str, LibrarySamples] = {}
    paces_s: tuple[PaceRow, ...] = ()
    recorders: dict[str, RecorderSamples] = {}
    schema_version: int = SAMPLES_VERSION


@dataclass(frozen=True)
class Samples:
    """The raw samples of a calibration.

    ``front_ends``, ``recorders``: by name. ``paces_s``: for each run of the programs among the chains, the seconds in
    which the host issued :data:`~streamsim_validate.records.host_calls.PACE_CHAIN`, the mean of just before and just
    after it.
    """

    card: Card
    date: str
    timings: dict[Chain, list[Timing]]
    front_ends: Mapping[str, LibrarySamples] = field(default_factory=dict)  # by name
    paces_s: Mapping[Chain, list[float]] = field(default_factory=dict)
    recorders: Mapping[str, RecorderSamples] = field(default_factory=dict)  # by name

    def plain(self) -> PlainSamples:
        """Return the form that a file holds."""
        paces_s = tuple((*chain, tuple(runs)) for chain, runs in self.paces_s.items())
        return PlainSamples(
            self.card, self.date, rows_of(self.timings), dict(self.front_ends), paces_s, dict(self.recorders)
        )

    @classmethod
    def from_plain(cls, plain: PlainSamples) -> Samples:
        """Return the samples that a file holds.

        Raises InputError if it is of another version, or has a chain without runs or times that no clock shows.
        """
        if plain.schema_version != SAMPLES_VERSION:
            raise InputError(
                f"schema_version = {plain.schema_version}: this streamsim-validate reads samples of {SAMPLES_VERSION};"
                " use the version that wrote it, or calibrate again"
            )
        timings = timings_of(plain.timings)
        for chain, runs in timings.items():
            _check_runs(chain, runs)
        paces_s = {Chain(kind, size, length): list(runs) for kind, size, length, runs in plain.paces_s}
        for chain, seconds in paces_s.items():
            _check_paces(chain, seconds, timings.get(chain, []))
        return cls(plain.card, plain.date, timings, plain.front_ends, paces_s, plain.recorders)

    @cached_property
    def pace_s(self) -> float:
        """The median seconds in which the host issued the pace. Raises InputError if that was not measured."""
        return usual_pace_s(self.paces_s.values())

    def per_link(self, kind: str, size: int, column: str = "device_s") -> float:
        """Return the seconds of one more link of a chain; see :func:`~streamsim_validate.records.host_calls.per_link`.

        The slope is between medians; for chains that show how copies go, between means of the faster halves. Cycles, in
        which a copy is one link among others, and chains that hold the host count by their medians.
        """
        return per_link(self.timings, kind, size, column, _undisturbed if kind in COPY_KINDS else median)

    def points(self, kind: str, column: str = "device_s") -> list[tuple[int, float]]:
        """Return (length, median seconds) of every chain of a kind of one size."""
        return sorted((chain.length, self.median(chain, column)) for chain in self.timings if chain.kind == kind)

    def scatter(self, kind: str, column: str = "device_s") -> float:
        """Return the typical relative standard deviation of the runs of a kind's chains; outliers count for little."""
        runs = (tuple(getattr(timing, column) for timing in self.timings[chain]) for chain in self.of(kind))
        return float(median(map(relative_deviation, runs)))

    def has(self, kinds: Collection[str]) -> bool:
        """Return whether there is a chain of any of these kinds."""
        return any(chain.kind in kinds for chain in self.timings)

    def of(self, kind: str) -> list[Chain]:
        """Return the chains of a kind. Raises InputError if there are none."""
        found = [chain for chain in self.timings if chain.kind == kind]
        if not found:
            raise InputError(f"calibration: no probes of {kind!r}; calibrate again")
        return found

    def median(self, chain: Chain, column: str) -> float:
        """Return the median of a chain's runs."""
        return float(median(getattr(t, column) for t in self.timings[chain]))


def _check_runs(chain: Chain, runs: Sequence[Timing]) -> None:
    """Raise InputError for a time that no clock shows: the fits divide by the medians."""
    if not runs:
        raise InputError(f"calibration: chain {chain.key!r} has no runs; calibrate again")
    for timing in runs:
        for column, seconds in timing._asdict().items():
            nothing_done = column == "device_s" and chain.kind in NOTHING_ON_CARD and seconds == 0
            if not (nothing_done or SHORTEST_S <= seconds <= LONGEST_S):
                raise InputError(
                    f"calibration: chain {chain.key!r} has a run of {column} = {seconds!r}, which no clock shows;"
                    " calibrate again"
                )


def _check_paces(chain: Chain, seconds: Sequence[float], runs: Sequence[Timing]) -> None:
    if len(seconds) != len(runs):
        raise InputError(
            f"calibration: chain {chain.key!r} has {len(runs)} runs and {len(seconds)} paces; calibrate again"
        )
    for pace_s in seconds:
        if not SHORTEST_S <= pace_s <= LONGEST_S:
            raise InputError(
                f"calibration: chain {chain.key!r} has a pace of {pace_s!r} s, which no clock shows; calibrate again"
            )


def _undisturbed(runs: Sequence[float]) -> float:
    """Return the mean of the faster half: other traffic in the host's memory only ever slows a copy."""
    return mean(sorted(runs)[: (len(runs) + 1) // 2])


def write_samples(samples: Samples, path: Path) -> None:
    """Write the raw samples (gzipped JSON), from which ``fit`` makes the profile again."""
    write_bytes(gzip.compress(msgspec.json.encode(samples.plain()), mtime=0), path)


def read_samples(path: Path) -> Samples:
    """Return the raw samples of a calibration.

    Raises InputError naming the file if it holds none, a damaged archive, or samples that cannot be fitted.
    """
    data = read_stored(path)
    try:
        plain = msgspec.json.decode(unzipped(data), type=PlainSamples)
    except (EOFError, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError
        remedy = "measure them with `streamsim-validate calibrate`"
        reason = mistaken_for("samples", data) or f"no calibration samples ({error}); {remedy}"
        raise InputError(one_line(f"{path}: {reason}")) from error
    try:
        return Samples.from_plain(plain)
    except InputError as error:
        raise InputError(one_line(f"{path}: {error}")) from None


MOST_STEPS, STEP, ENOUGH = 12, 0.1, 0.01  # enough: a step that lowers the sum of the squares by less is the last one
A_LITTLE_S = 50e-9  # so little that no op comes late for it which did not before


def simulated_issue_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds until the host has issued every call except the last, which waits for everything."""
    return simulate_one_of_many(schedule, device).issued[-1] * 1e-9


def simulated_per_link(probes: Iterable[Probe], device: Device) -> dict[tuple[str, int], float]:
    """Return the model's time of one more link of each chain, as ``Samples.per_link`` does of measured ones."""
    ends: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for chain, schedule in probes:
        ends.setdefault((chain.kind, chain.size), []).append(
            (chain.length, simulate_one_of_many(schedule, device).makespan_s)
        )
    return {key: (b - a) / (long - short) for key, ((short, a), (long, b)) in ends.items()}


def nearest_number(samples: Samples, probes: Sequence[Probe], made: Callable[[float], Device]) -> float:
    """Return the number, at least 0, with which the model's chains, linear in it, come closest to the samples."""
    without, some = simulated_per_link(probes, made(0.0)), simulated_per_link(probes, made(A_LITTLE_S))
    more = {key: some[key] - seconds for key, seconds in without.items()}
    missed = sum(more[key] * (samples.per_link(*key) - seconds) for key, seconds in without.items())
    return max(0.0, A_LITTLE_S * missed / sum(m * m for m in more.values()))


def nearest_numbers(
    samples: Samples, probes: list[Probe], made: Callable[[Sequence[float]], Device], starts: Sequence[Sequence[float]]
) -> list[float]:
    """Return the positive numbers with which the model's chains come closest to the samples, by relative errors.

    The method is Levenberg and Marquardt's, in the logarithms, with differences for derivatives. The errors have
    several minima, so the best result of several starts is taken.
    """

    def errors(logarithms: np.ndarray) -> np.ndarray:
        shown = simulated_per_link(probes, made([float(x) for x in np.exp(logarithms)]))
        return np.array([seconds / samples.per_link(*key) - 1 for key, seconds in shown.items()])

    def descend(at: np.ndarray) -> tuple[float, np.ndarray]:
        now, damping = errors(at), 1e-2
        for _ in range(MOST_STEPS):
            slopes = np.array([(errors(at + STEP * axis) - now) / STEP for axis in np.eye(len(at))])
            square = slopes @ slopes.T
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-12), -slopes @ now).clip(-1, 1)
            tried = errors(at + step)
            if tried @ tried < now @ now:
                gain = 1 - (tried @ tried) / (now @ now)
                at, now, damping = at + step, tried, damping / 5
                if gain < ENOUGH:
                    break
            else:
                damping *= 10
        return float(now @ now), at

    _, best = min((descend(np.log(np.array(start))) for start in starts), key=lambda found: found[0])
    return [float(x) for x in np.exp(best)]


class Misfit(NamedTuple):
    """A chain of a profile's probes: the measured seconds of one link, and the seconds that the model misses."""

    kind: str
    size: int
    measured_s: float
    missed_s: float

    @property
    def relative(self) -> float:
        """The misfit over the measured time of a link."""
        return self.missed_s / self.measured_s


def misfits(samples: Samples, probes: Sequence[Probe], device: Device, fitted: int = 0) -> list[Misfit]:
    """Return the model's misfits of probes, as if it had not been fitted to them.

    With ``fitted`` numbers, a fit to n chains reduces their mean square by (n - fitted) / n.
    """
    shown = simulated_per_link(probes, device)
    more = math.sqrt(len(shown) / (len(shown) - fitted))
    measured = {key: samples.per_link(*key) for key in shown}
    return [Misfit(*key, measured[key], (shown[key] - measured[key]) * more) for key in shown]


def rms(values: Iterable[float]) -> float:
    """Return the root of the mean square."""
    found = list(values)
    return math.sqrt(sum(value * value for value in found) / len(found))
