"""The raw samples of a calibration, and the files in which they are kept."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean, median

import msgspec

from streamsim.checks import LONGEST_S
from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.text import mistaken_for, one_line
from streamsim_validate.calibrate.front_ends import LibrarySamples
from streamsim_validate.calibrate.probe import DIRECTIONS
from streamsim_validate.calibrate.recorders import RecorderSamples
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
        """Return the seconds of one more link of a chain; see :func:`~streamsim_validate.records.chains.per_link`.

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
