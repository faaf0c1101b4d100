"""The samples of a calibration: their measurement, their files, and the model's times of the same probes."""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from datetime import date
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import msgspec
import numpy as np

from streamsim.collector import collector_off
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import LONGEST_S, InputError
from streamsim.files import read_bytes, write_bytes
from streamsim.program import Schedule
from streamsim.text import mistaken_for
from streamsim_validate import records
from streamsim_validate.calibrate import probes
from streamsim_validate.calibrate.front_ends import LibrarySamples
from streamsim_validate.calibrate.probes import Probe
from streamsim_validate.gpu import Bench, Gpu, Replayer, prepare
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds

SAMPLES_VERSION = 2
NOTHING_ON_CARD = {probes.SYNCHRONISE_CHAINS}  # kinds of chains that do: their time on the card is 0
BESIDE = "duplex", "crowded"
COPY_KINDS = {*probes.DIRECTIONS, *BESIDE, *(f"{kind} {d}" for kind in BESIDE for d in probes.DIRECTIONS)}


class Samples(msgspec.Struct, frozen=True, dict=True):
    """The raw samples of a calibration, as a file holds them.

    ``rows``: the chains with their runs. ``front_ends``: by name. ``pace_rows``: for each run of the programs among the
    chains, the seconds in which the host issued :data:`~streamsim_validate.records.record.PACE_CHAIN`, the mean of just
    before and just after it.
    """

    card: records.Card
    date: str
    rows: tuple[records.ChainRow, ...] = msgspec.field(name="timings")
    front_ends: dict[str, LibrarySamples] = {}
    pace_rows: tuple[records.PaceRow, ...] = msgspec.field(default=(), name="paces_s")
    schema_version: int = SAMPLES_VERSION

    @cached_property
    def timings(self) -> dict[records.Chain, tuple[records.Timing, ...]]:
        """The runs of each chain."""
        return {records.Chain(kind, size, length): runs for kind, size, length, runs in self.rows}

    @cached_property
    def paces_s(self) -> dict[records.Chain, tuple[float, ...]]:
        """The pace beside each run of a program."""
        return {records.Chain(kind, size, length): runs for kind, size, length, runs in self.pace_rows}

    def check(self) -> Samples:
        """Return the samples.

        Raises InputError if they are of another version, or have a chain without runs or times that no clock shows.
        """
        records.check_version(self.schema_version, SAMPLES_VERSION)
        for chain in dict.fromkeys((*self.timings, *self.paces_s)):
            _check_runs(chain, self.timings.get(chain, ()), self.paces_s.get(chain))
        return self

    @cached_property
    def pace_s(self) -> float:
        """The median seconds in which the host issued the pace. Raises InputError if that was not measured."""
        found = [seconds for paces_s in self.paces_s.values() for seconds in paces_s]
        if not found:
            raise InputError("calibration: no paces beside the programs, of an earlier version; calibrate again")
        return median(found)

    def per_link(self, kind: str, size: int, column: str = "device_s") -> float:
        """Return the seconds of one more link of a chain: the slope between the shortest and the longest chain.

        The slope is between medians; for chains that show how copies go, between means of the faster halves. Cycles, in
        which a copy is one link among others, and chains that hold the host count by their medians. Raises InputError
        unless there are two lengths.
        """
        chains = sorted(chain for chain in self.timings if (chain.kind, chain.size) == (kind, size))  # by length
        if len(chains) < 2:
            raise InputError(f"calibration: no chains of {kind!r} of size {size}; calibrate again")
        typical, ends = _undisturbed if kind in COPY_KINDS else median, (chains[0], chains[-1])
        short, long = (typical([getattr(t, column) for t in self.timings[end]]) for end in ends)
        return float(long - short) / (ends[1].length - ends[0].length)

    def points(self, kind: str, column: str = "device_s") -> list[tuple[int, float]]:
        """Return (length, median seconds) of every chain of a kind of one size."""
        return sorted((chain.length, self.median(chain, column)) for chain in self.timings if chain.kind == kind)

    def scatter(self, kind: str, column: str = "device_s") -> float:
        """Return the typical relative standard deviation of the runs of a kind's chains; outliers count for little."""
        runs = (tuple(getattr(timing, column) for timing in self.timings[chain]) for chain in self.of(kind))
        return float(median(map(records.relative_deviation, runs)))

    def has(self, kinds: Collection[str]) -> bool:
        """Return whether there is a chain of any of these kinds."""
        return any(chain.kind in kinds for chain in self.timings)

    def of(self, kind: str) -> list[records.Chain]:
        """Return the chains of a kind. Raises InputError if there are none."""
        found = [chain for chain in self.timings if chain.kind == kind]
        if not found:
            raise InputError(f"calibration: no probes of {kind!r}; calibrate again")
        return found

    def median(self, chain: records.Chain, column: str) -> float:
        """Return the median of a chain's runs."""
        return float(median(getattr(t, column) for t in self.timings[chain]))


def _check_runs(chain: records.Chain, runs: Sequence[records.Timing], paces_s: Sequence[float] | None) -> None:
    """Raise InputError for a time that no clock shows: the fits divide by the medians."""
    what = f"calibration: chain {chain.key!r} has"
    if not runs:
        raise InputError(f"{what} no runs; calibrate again")
    if paces_s is not None and len(paces_s) != len(runs):
        raise InputError(f"{what} {len(runs)} runs and {len(paces_s)} paces; calibrate again")
    times = [(column, seconds) for timing in runs for column, seconds in timing._asdict().items()]
    for column, seconds in (*times, *(("pace_s", seconds) for seconds in paces_s or ())):
        nothing_done = column == "device_s" and chain.kind in NOTHING_ON_CARD and seconds == 0
        if not (nothing_done or records.SHORTEST_S <= seconds <= LONGEST_S):
            raise InputError(f"{what} a run of {column} = {seconds!r}, which no clock shows; calibrate again")


def _undisturbed(runs: Sequence[float]) -> float:
    """Return the mean of the faster half: other traffic in the host's memory only ever slows a copy."""
    return mean(sorted(runs)[: (len(runs) + 1) // 2])


def write_samples(samples: Samples, path: Path) -> None:
    """Write the raw samples (gzipped JSON), from which ``fit`` makes the profile again."""
    write_bytes(gzip.compress(msgspec.json.encode(samples), mtime=0), path)


def read_samples(path: Path) -> Samples:
    """Return the raw samples of a calibration.

    Raises InputError naming the file if it holds none, a damaged archive, or samples that cannot be fitted.
    """
    data = read_bytes(path, records.LARGEST_BYTES)
    with records.naming(path):
        try:
            found = msgspec.json.decode(records.unzipped(data), type=Samples)
        except (EOFError, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError
            why = f"no calibration samples ({error}); measure them with `streamsim-validate calibrate`"
            raise InputError(mistaken_for("samples", data) or why) from error
        return found.check()


MOST_STEPS, STEP, ENOUGH = 12, 0.1, 0.01  # enough: a step that lowers the sum of the squares by less is the last one
A_LITTLE_S = 50e-9  # so little that no op comes late for it which did not before


def simulated_issue_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds until the host has issued every call except the last, which waits for everything."""
    return simulate_one_of_many(schedule, device).issued[-1] * 1e-9


def simulated_per_link(some_probes: Iterable[Probe], device: Device) -> dict[tuple[str, int], float]:
    """Return the model's time of one more link of each chain, as ``Samples.per_link`` does of measured ones."""
    ends: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for chain, schedule in some_probes:
        ends.setdefault((chain.kind, chain.size), []).append(
            (chain.length, simulate_one_of_many(schedule, device).makespan_s)
        )
    return {key: (b - a) / (long - short) for key, ((short, a), (long, b)) in ends.items()}


def nearest_number(samples: Samples, some_probes: Sequence[Probe], made: Callable[[float], Device]) -> float:
    """Return the number, at least 0, with which the model's chains, linear in it, come closest to the samples."""
    without, some = simulated_per_link(some_probes, made(0.0)), simulated_per_link(some_probes, made(A_LITTLE_S))
    more = {key: some[key] - seconds for key, seconds in without.items()}
    missed = sum(more[key] * (samples.per_link(*key) - seconds) for key, seconds in without.items())
    return max(0.0, A_LITTLE_S * missed / sum(m * m for m in more.values()))


def nearest_numbers(
    samples: Samples,
    some_probes: list[Probe],
    made: Callable[[Sequence[float]], Device],
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """Return the positive numbers with which the model's chains come closest to the samples, by relative errors.

    The method is Levenberg and Marquardt's, in the logarithms, with differences for derivatives. The errors have
    several minima, so the best result of several starts is taken.
    """

    def errors(logarithms: np.ndarray) -> np.ndarray:
        shown = simulated_per_link(some_probes, made([float(x) for x in np.exp(logarithms)]))
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


def misfits(samples: Samples, some_probes: Sequence[Probe], device: Device, fitted: int = 0) -> list[Misfit]:
    """Return the model's misfits of probes, as if it had not been fitted to them.

    With ``fitted`` numbers, a fit to n chains reduces their mean square by (n - fitted) / n.
    """
    shown = simulated_per_link(some_probes, device)
    more = math.sqrt(len(shown) / (len(shown) - fitted))
    measured = {key: samples.per_link(*key) for key in shown}
    return [Misfit(*key, measured[key], (shown[key] - measured[key]) * more) for key in shown]


def rms(values: Iterable[float]) -> float:
    """Return the root of the mean square."""
    found = list(values)
    return math.sqrt(sum(value * value for value in found) / len(found))


WARM_UP_RUNS, REPEATS = 1, 7  # rounds
OVER_MANY_STREAMS = {*probes.QUEUES, *(mix.kind for mix in records.MIXES)}  # mixes: run by run
FIRST, OVER_MANY, OF_PROGRAMS = PARTS = (
    "calibrating",
    "calibrating over many streams",
    "calibrating the calls of programs",
)
SWEPT = bytearray(8 << 20)  # more than a core's own caches hold; without it programs are issued 2 % faster (H200)
RUNS = dict.fromkeys(COPY_KINDS, 2) | dict.fromkeys(probes.PROGRAM_KINDS, 4)  # in each round, of what scatters most


def measure_probes(gpu: Gpu, on_step: OnStep = quietly) -> Samples:
    """Measure every probe, repeats interleaved in shuffled order and some more often. Return the raw samples.

    The probes that need a stream for each of many queues come late: once the driver has made its queues, everything
    else is a little slower. Last come the programs. Each stands between two runs of the pace and behind a sweep of the
    host's caches, which stands for the other programs between two runs of one in a record.
    """
    found = dict(probes.all_probes(gpu.card.resident_threads))
    timings: dict[records.Chain, list[records.Timing]] = {chain: [] for chain in found}
    paces_s: dict[records.Chain, list[float]] = {chain: [] for chain in found if chain.kind in probes.PROGRAM_KINDS}
    bench, rng = Bench(gpu, in_order=False), random.Random(0)  # which queue a stream has matters to no probe
    try:
        prepare(bench, found.values())
        with closing(Replayer(found[records.PACE_CHAIN], bench)) as pace:
            for what in PARTS:
                part = {c: Replayer(found[c], bench) for c in found if _part_of(c) == what}
                runs = [chain for chain in part for _ in range(RUNS.get(chain.kind, 1))]
                with collector_off():
                    for turn, chain in shuffled_rounds(runs, WARM_UP_RUNS + REPEATS, rng, what, on_step):
                        if what == OF_PROGRAMS:
                            bytes(SWEPT)
                        sample, beside_s = part[chain].run_beside([pace.issue] if what == OF_PROGRAMS else [])
                        if turn >= WARM_UP_RUNS:
                            timings[chain].append(records.Timing(sample.device_s, sample.wall_s, sample.issue_s))
                            paces_s.get(chain, []).extend(beside_s)
                for replayer in part.values():
                    replayer.close()
    finally:
        bench.close()
    return Samples(gpu.card, date.today().isoformat(), records.rows_of(timings), pace_rows=records.rows_of(paces_s))


def _part_of(chain: records.Chain) -> str:
    if chain.kind in probes.PROGRAM_KINDS:
        return OF_PROGRAMS
    return OVER_MANY if chain.kind in OVER_MANY_STREAMS else FIRST
