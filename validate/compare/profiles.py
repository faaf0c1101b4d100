"""The profile that predicts each schedule of a run, and how far it moved during the run.

A run calibrates before it measures and after, and its profile is the mean of both: no two calibrations agree better
than to some per cent. A host's calls cost 10 to 25 % more or less within minutes, and half as much again for tenths of
a second. So the median of some samples may fall on any speed, and a chain of calls, the pace, is issued just before and
just after each sample (:mod:`streamsim_validate.run.measuring`). Each sample is predicted with calls that take as many
times as long as the pace beside the sample took, over the pace beside the programs of the calibrations. The prediction
of the median is to the measured median as the prediction of the middle sample is to that sample. The link is timed
beside each sample in the same way. Nothing else of the profile changes.

In records without paces, the chains that are measured with every group of schedules show the host's speed. No number is
fitted to a schedule's own times.
"""

import contextlib
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from statistics import mean, median
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamsim.compiled import simulate_one_of_many
from streamsim.device import DIRECTIONS, Device, changed, mean_of, number_names, with_values
from streamsim.errors import InputError
from streamsim.program import RecordEvent, Schedule
from streamsim.rules import TICKS_PER_S
from streamsim_validate.records import (
    LINK_PAIR,
    MIXES,
    SHORTEST_S,
    Chain,
    ChainRow,
    Entry,
    HostCalls,
    PaceRow,
    Run,
    Timing,
    Timings,
    mix_chain,
    timings_of,
    usual_pace_s,
    with_timing_events,
)


def predict_device_s(schedule: Schedule, device: Device) -> float:
    """Return what the timing events would show: from the end of the start event to the end of the stop event.

    A graph's events stand just before and after its launch: its time is its makespan.
    """
    timed = with_timing_events(schedule)
    timeline = simulate_one_of_many(timed, device)
    if timed.launch == "graph":
        return timeline.makespan_s
    start, stop = schedule.events, schedule.events + 1
    ends = {op.event: timeline.end[i] for i, op in enumerate(timed.ops) if isinstance(op, RecordEvent)}
    return (ends[stop] - ends[start]) / TICKS_PER_S


def predict_wall_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds from the first call until the synchronisation behind the last one returns."""
    return simulate_one_of_many(schedule, device).host_s


PERCENT = 100
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the speeds, at which is predicted; between them on a line


def at_speed(device: Device, calls: Iterable[str], speed: float) -> Device:
    """Return the device with calls, by their names in its host, that take ``speed`` times as long."""
    return with_values(device, {f"host.{call}": getattr(device.host, call) * speed for call in calls})


def with_link(device: Device, times: float) -> Device:
    """Return the device with a link that others use: copies both ways at once take ``times`` times as long.

    The others take from the bandwidth that both directions share. One direction alone does not need all of it, so it
    keeps its own bandwidth if as much is left.
    """
    each = [getattr(device, way) for way in DIRECTIONS]
    shared = sum(link.duplex_bandwidth_bytes_per_s for link in each) / times
    slower = dict[str, float]()
    for way, link in zip(DIRECTIONS, each, strict=True):
        duplex = link.duplex_bandwidth_bytes_per_s / times
        slower[f"{way}.duplex_bandwidth_bytes_per_s"] = duplex
        slower[f"{way}.bandwidth_bytes_per_s"] = max(duplex, min(link.bandwidth_bytes_per_s, shared))
    return changed(device, slower)


def expected_beside(
    predict: Callable[[Device], float], changed_to: Callable[[float], Device], times: Sequence[float]
) -> np.ndarray:
    """Return the seconds beside each sample, with ``times`` the usual time; ``changed_to``: the device then."""
    known = sorted({float(some) for some in np.quantile(times, QUANTILES)})
    return np.interp(times, known, [predict(changed_to(some)) for some in known])


def slower_by_link(
    predict: Callable[[Device], float], device: Device, links: Sequence[float], usual_s: float
) -> np.ndarray:
    """Return the factor by which the link slows each sample.

    ``links``: for each sample, the time of copies both ways at once, over the usual time. ``usual_s``: the prediction
    on ``device``. A program that takes no time is not slowed.
    """
    return expected_beside(predict, partial(with_link, device), links) / usual_s if usual_s else np.ones(len(links))


def beside_median(expected_s: np.ndarray, samples_s: Sequence[float]) -> float:
    """Return the seconds beside the median of ``samples_s``, all above 0, by what is expected of each."""
    return statistics.median(samples_s) * float(np.median(expected_s / np.asarray(samples_s)))


FEWEST_REPEATS = 3  # of a probe: no median of fewer is safe from an outlier


@dataclass(frozen=True)
class Profiles:
    """The profiles that predict a run's schedules.

    - ``whole``: the run's profile. ``is_own``: it was calibrated in the run.
    - ``speeds``: by number of the group, the time of calls over the time in ``whole``; only groups for which it is
      known.
    - ``pace_s``: seconds in which the host issued the pace beside the programs of the calibrations; 0 if not known.
    """

    whole: Device
    speeds: dict[int, float]
    is_own: bool = False
    pace_s: float = 0.0
    _known: dict[float, Device] = field(default_factory=dict)  # by speed: one object for each, known by identity

    def of(self, entry: Entry) -> Device:
        """Return the profile for one of the run's entries, with the host at the median speed beside its samples."""
        speeds = self.speeds_of(entry)
        return self.at_speed(median(speeds)) if speeds else self.of_group(entry)

    def of_group(self, entry: Entry) -> Device:
        """Return the profile for an entry's group, with the host at the group's median speed."""
        return self.at_speed(self.speeds[entry.group]) if entry.group in self.speeds else self.whole

    def at_speed(self, speed: float) -> Device:
        """Return the profile with calls that take ``speed`` times as long."""
        if speed not in self._known:
            self._known[speed] = at_speed(self.whole, HostCalls._fields, speed)
        return self._known[speed]

    def speeds_of(self, entry: Entry) -> list[float]:
        """Return the time of calls beside each sample of a replay, over the calibrated time; [] if not known."""
        return [seconds / self.pace_s for seconds in entry.paces_s] if self.pace_s and _has_paces(entry) else []

    def links_of(self, entry: Entry) -> list[float]:
        """Return the time of a copy each way at once beside each sample, over its predicted time; [] if not known."""
        if not self.is_own or not entry.links_s or min(entry.links_s) < SHORTEST_S:
            return []
        return [seconds / self._link_s for seconds in entry.links_s]

    @cached_property
    def _link_s(self) -> float:
        return predict_device_s(LINK_PAIR, self.whole)


def profiles_of(run: Run, device: Device | None = None) -> Profiles:
    """Return the profiles of a run: ``device`` for all of it, or else its own; with the run's connections.

    Raises InputError if the run has no profile and none is given.
    """
    before, after = run.profile("before"), run.profile("after")
    own = mean_of(before, after) if before and after else before or after
    profile = own if device is None else device
    if profile is None:
        raise InputError(
            f"the run with {run.connections} connections has no calibrated profile: give one with --device"
        )
    is_of_programs = any(entry.program for entry in run.entries)
    as_calibrated = is_of_programs and profile.connections == run.connections  # their processes set no number of queues
    whole = profile if as_calibrated else profile.with_connections(run.connections)
    if device is not None:
        return Profiles(whole, {})
    known = [one for one in map(_known, (run.samples, run.samples_after)) if one]
    paces_s = [one.pace_s for one in known if one.pace_s]
    pace_s = mean(paces_s) if paces_s else 0.0
    return Profiles(whole, _speeds(run, known) | _speeds_by_pace(run, pace_s), True, pace_s)


class _CalibratedSamples(msgspec.Struct, frozen=True):
    """The samples of a calibration, as a record keeps them, that say how fast the host was."""

    timings: tuple[ChainRow, ...]
    paces_s: tuple[PaceRow, ...] = ()


class _Known(NamedTuple):
    """The speed of a host: seconds of the mixes of calls, and of the pace beside programs (0: not measured)."""

    mixes_s: dict[Chain, float]
    pace_s: float


def _known(samples: dict[str, Any] | None) -> _Known | None:
    """Return None if there are no samples of a calibration, or none of mixes."""
    if samples is None:
        return None
    try:
        plain = msgspec.convert(samples, _CalibratedSamples)
        paces_s = [[seconds for seconds in runs if seconds >= SHORTEST_S] for *_, runs in plain.paces_s]
        return _Known(mixes_s(_telling(plain.timings)), usual_pace_s(paces_s) if any(paces_s) else 0.0)
    except (msgspec.ValidationError, InputError):
        return None


def mixes_s(timings: Timings) -> dict[Chain, float]:
    """Return the seconds in which the host issued each of the mixes. Raises InputError when one is missing."""
    found = {}
    for mix in (mix_chain(letters, streams) for letters, streams in MIXES):
        if mix not in timings:
            raise InputError(f"calibration: no chain {mix.key!r}; calibrate again")
        found[mix] = float(median(timing.issue_s for timing in timings[mix]))
    return found


def speed_of(took_s: Mapping[Chain, float], usual_s: Mapping[Chain, float]) -> float:
    """Return the time of the host's calls over the usual time, from the times of the same mixes.

    The result is the geometric mean over the mixes. A host changes its speed for all calls at once. The medians of two
    mixes may fall on two of its speeds, so their difference says little about one call.
    """
    return math.exp(mean(math.log(took_s[mix] / usual_s[mix]) for mix in usual_s))


def _speeds(run: Run, known: Sequence[_Known]) -> dict[int, float]:
    """Return the time of calls over the calibrated time, by number of the group, from the probes of each group.

    A group without complete probes, or with a probe of 0 s, has none.
    """
    found: dict[int, float] = {}
    usual_s = {chain: mean(one.mixes_s[chain] for one in known) for chain in known[0].mixes_s} if known else {}
    for group in run.groups if known else ():
        with contextlib.suppress(InputError):
            found[group.number] = speed_of(mixes_s(_telling(group.probes)), usual_s)
    return found


def _speeds_by_pace(run: Run, pace_s: float) -> dict[int, float]:
    """Return the time of calls over the calibrated time, by number of the group, from the paces of its entries."""
    paces: dict[int, list[float]] = {}
    for entry in run.entries if pace_s else ():
        if entry.group and _has_paces(entry):
            paces.setdefault(entry.group, []).extend(entry.paces_s)
    return {number: median(own) / pace_s for number, own in paces.items()}


def _has_paces(entry: Entry) -> bool:
    """Return whether an entry is a replay with enough paces beside its samples, none of them 0 s."""
    is_enough = len(entry.paces_s) >= FEWEST_REPEATS and min(entry.paces_s) >= SHORTEST_S
    return is_enough and not entry.program


def _telling(probes: tuple[ChainRow, ...]) -> dict[Chain, list[Timing]]:
    """Return the probes that have enough runs, none of them 0 s: speeds are divided by them."""
    return {
        chain: runs
        for chain, runs in timings_of(probes).items()
        if len(runs) >= FEWEST_REPEATS and all(min(run.wall_s, run.issue_s) >= SHORTEST_S for run in runs)
    }


# How far it moved


class Drift(msgspec.Struct, frozen=True):
    """The moves during a run, relative to the profile before it.

    - ``changes``: of the profile's numbers, by dotted name, until after the run.
    - ``calls``: the smallest and the largest move of the host's calls over the ``groups`` for which it is known.
    - ``links``: the 5th, 50th and 95th percentile of the time of copies both ways at once beside the samples, over the
      calibrated time; empty if not measured.
    """

    connections: int
    changes: dict[str, float]
    groups: int = 0
    calls: tuple[float, float] = (0.0, 0.0)
    links: tuple[float, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the drift as JSON holds it."""
        return {
            "connections": self.connections,
            "changes_percent": {name: change * PERCENT for name, change in self.changes.items()},
            "groups": self.groups,
            "calls_percent": {"host": [move * PERCENT for move in self.calls]} if self.groups else {},
            "link_times": self.links,
        }


def drift_of(run: Run) -> Drift:
    """Return how far the profile of a run moved; empty if the run did not calibrate."""
    before, after = run.profile("before"), run.profile("after")
    if before is None:
        return Drift(run.connections, {})
    known = _known(run.samples)
    speeds = _speeds(run, [known] if known else []) or _speeds_by_pace(run, known.pace_s if known else 0.0)
    moves = [speed - 1 for speed in speeds.values()]
    calls = (min(moves), max(moves)) if moves else (0.0, 0.0)
    moved = {} if after is None else changes(before, after)
    return Drift(run.connections, moved, len(moves), calls, _links_beside(run))


def _links_beside(run: Run) -> tuple[float, ...]:
    if not any(entry.links_s for entry in run.entries):
        return ()
    profiles = profiles_of(run)
    links = [times for entry in run.entries for times in profiles.links_of(entry)]
    return tuple(map(float, np.quantile(links, (0.05, 0.5, 0.95)))) if links else ()


def changes(before: Device, after: Device) -> dict[str, float]:
    """Return the relative changes of the numbers that both profiles have, if they are above 0 before.

    A table of kernel costs has its largest change, under the name ``kernels.NAME(PARAMETER)``.
    """
    found: dict[str, float] = {}
    for name in sorted(number_names(before) & number_names(after) - {"compute.kernels"}):
        was, is_now = map(attrgetter(name), (before, after))
        if was > 0:
            found[name] = is_now / was - 1
    costs = {(cost.name, cost.parameter): cost for cost in after.compute.kernels}
    for cost in before.compute.kernels:
        other = costs.get((cost.name, cost.parameter))
        if other is not None:
            moves = (other.at(n) / cost.at(n) - 1 for n in cost.elements)
            found[f"kernels.{cost.name}({cost.parameter})"] = max(moves, key=abs)
    return found
