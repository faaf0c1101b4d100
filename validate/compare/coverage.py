"""How many measured medians lie within the intervals that were predicted for them, and how wide those are.

Pure, as :mod:`streamsim_validate.compare.predictions` is, whose rows it takes.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from streamsim.analysis.intervals import LEVEL, Interval, intervals
from streamsim.device.profile import MODEL_SPREAD, number_names
from streamsim.errors import InputError
from streamsim_validate.compare.comparison import CLASSES, Row
from streamsim_validate.compare.predictions import compare, predict_device_s
from streamsim_validate.compare.profiles import profiles_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streamsim.device.profile import Device
    from streamsim_validate.compare.profiles import Profiles
    from streamsim_validate.records import Entry, Record

SAMPLES = 200


class Expected(msgspec.Struct, frozen=True):
    """A row of a comparison and the interval of its device's time."""

    row: Row
    interval: Interval

    @property
    def width(self) -> float:
        """Of the interval, relative to the prediction."""
        return (self.interval.high_s - self.interval.low_s) / self.row.predicted_s

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the measured median."""
        return self.interval.holds(self.row.measured_s)


class Coverage(msgspec.Struct, frozen=True):
    """Shares of ``n`` measured medians inside their intervals, below, above; widths relative to the prediction."""

    n: int
    inside: float
    below: float
    above: float
    mean_width: float
    median_width: float


def coverage(
    record: Record,
    samples: int = SAMPLES,
    seed: int = 0,
    spread: Mapping[str, float] | None = None,
    device: Device | None = None,
) -> dict[str, Coverage]:
    """By class, for a record predicted as by :func:`streamsim_validate.compare.predictions.compare`.

    ``spread``: in place of the profile's own; what it says of numbers that the profile lacks is left out. Raises
    InputError as :func:`streamsim_validate.compare.predictions.compare` does, and where a profile has no spread.
    """
    rows = compare(record, device).rows
    return by_class(expectations(record, rows, samples, seed, spread, device))


def expectations(
    record: Record,
    rows: Sequence[Row],
    samples: int = SAMPLES,
    seed: int = 0,
    spread: Mapping[str, float] | None = None,
    device: Device | None = None,
    level: float = LEVEL,
) -> list[Expected]:
    """The interval of each of some rows of the record's comparison; arguments as for :func:`coverage`."""
    asked = {(row.connections, row.key): row for row in rows}
    found = []
    for run in record.runs:
        profiles = profiles_of(run, device)
        own = [entry for entry in run.entries if (run.connections, entry.key) in asked]
        for profile, entries in _by_profile(own, profiles):
            drawn = _with_spread(profile, spread)
            programs = [entry.build() for entry in entries]
            predicted = intervals(programs, drawn, samples, seed, level, predict_device_s)
            its_rows = [asked[run.connections, entry.key] for entry in entries]
            found += [Expected(row, interval) for row, interval in zip(its_rows, predicted, strict=True)]
    return found


def _by_profile(entries: Iterable[Entry], profiles: Profiles) -> list[tuple[Device, list[Entry]]]:
    """Entries that are predicted with the same profile, so that they share its draws."""
    found: dict[int, tuple[Device, list[Entry]]] = {}
    for entry in entries:
        profile = profiles.of(entry)
        found.setdefault(id(profile), (profile, []))[1].append(entry)
    return list(found.values())


def _with_spread(profile: Device, spread: Mapping[str, float] | None) -> Device:
    if spread is None:
        if profile.spread and MODEL_SPREAD not in profile.spread:
            raise InputError(
                f"spread.{MODEL_SPREAD}: the record's profile does not say what the model misses; take the spread of"
                " another profile (--spread h200), or measure again"
            )
        return profile
    known = number_names(profile) | {MODEL_SPREAD}
    return msgspec.structs.replace(profile, spread={name: spread[name] for name in spread if name in known})


def by_class(found: Iterable[Expected]) -> dict[str, Coverage]:
    """Summarise each class that is there."""
    groups: defaultdict[str, list[Expected]] = defaultdict(list)
    for one in found:
        groups[one.row.klass].append(one)
    return {klass: _summarise(groups[klass]) for klass in CLASSES if klass in groups}


def _summarise(found: Sequence[Expected]) -> Coverage:
    n, widths = len(found), [one.width for one in found]
    below = sum(one.row.measured_s < one.interval.low_s for one in found)
    above = sum(one.row.measured_s > one.interval.high_s for one in found)
    return Coverage(
        n, (n - below - above) / n, below / n, above / n, statistics.mean(widths), statistics.median(widths)
    )
