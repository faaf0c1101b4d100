"""Predictions of the schedules and programs of a record, beside the measured times and the published formulas.

Pure: a record and a device profile in, numbers out; no card. The compared time of a schedule is the device's, between
the timing events of :func:`streamsim_validate.records.record.with_timing_events`, which the model simulates too. The
time of the whole program on the host's clock stands beside it.

A run calibrates before it measures and after, and its profile is the mean of both: no two calibrations agree better
than to some per cent. A host's calls cost 10 to 25 % more or less within minutes, and half as much again for tenths of
a second. So the median of some samples may fall on any speed, and a chain of calls, the pace, is issued just before and
just after each sample (:mod:`streamsim_validate.run.measuring`). Each sample is predicted with calls that take as many
times as long as the pace beside the sample took, over the pace beside the programs of the calibrations. The prediction
of the median is to the measured median as the prediction of the middle sample is to that sample. The link is timed
beside each sample in the same way. Nothing else of the profile changes. In records without paces, the chains that are
measured with every group of schedules show the host's speed.

Of a program in a language, the wall time is compared, from the first call until the last synchronisation ends. It is
predicted with the calls of its front end as calibrated in its run, and with the measured times of its kernels alone,
over all the work and over a chunk. The time that issuing took tells host-bound from device-bound programs. With calls
that take just that time, the program is predicted once more: this tells a miss of the calls from a miss of the model.
No number is fitted to a schedule's or program's own times.

An interval is drawn from the spread of the profile. If the pace beside all schedules was timed, calls are as uncertain
as they are at a known speed of the host. If the copies beside them were timed, the link is as uncertain as it changed
from one run to the next. The kernels of programs are as uncertain as the calibrated kernels.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from statistics import fmean, mean, median
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from streamsim.analysis import Interval, intervals_of, published
from streamsim.answer import Pictures
from streamsim.compiled import simulate_one_of_many
from streamsim.device import (
    DIRECTIONS,
    HOST_TIMES,
    TIMES,
    Device,
    changed,
    mean_of,
    with_front_end,
    with_values,
)
from streamsim.errors import InputError
from streamsim.lowering import lower
from streamsim.program import Kernel, Point, RecordEvent, Schedule, Workload
from streamsim.rules import TICKS_PER_S
from streamsim.transform import has_host_waits, holds_host, working_streams
from streamsim_validate import records
from streamsim_validate.compare import comparison

Predict = Callable[[Device], float]


def predict_device_s(schedule: Schedule, device: Device) -> float:
    """Return what the timing events would show: from the end of the start event to the end of the stop event.

    A graph's events stand just before and after its launch: its time is its makespan.
    """
    timed = records.with_timing_events(schedule)
    timeline = simulate_one_of_many(timed, device)
    if timed.launch == "graph":
        return timeline.makespan_s
    start, stop = schedule.events, schedule.events + 1
    ends = {op.event: timeline.end[i] for i, op in enumerate(timed.ops) if isinstance(op, RecordEvent)}
    return (ends[stop] - ends[start]) / TICKS_PER_S


def predict_wall_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds from the first call until the synchronisation behind the last one returns."""
    return simulate_one_of_many(schedule, device).host_s


# The host and the link, as fast as they were


QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the speeds, at which is predicted; between them on a line
FEWEST_REPEATS = 3  # of a probe: no median of fewer is safe from an outlier


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


def expected_beside(predict: Predict, changed_to: Callable[[float], Device], times: Sequence[float]) -> np.ndarray:
    """Return the seconds beside each sample, with ``times`` the usual time; ``changed_to``: the device then."""
    known = sorted({float(some) for some in np.quantile(times, QUANTILES)})
    return np.interp(times, known, [predict(changed_to(some)) for some in known])


def beside_median(expected_s: np.ndarray, samples_s: Sequence[float]) -> float:
    """Return the seconds beside the median of ``samples_s``, all above 0, by what is expected of each."""
    return median(samples_s) * float(np.median(expected_s / np.asarray(samples_s)))


@dataclass(frozen=True)
class Profiles:
    """The profiles that predict a run's schedules.

    - ``whole``: the run's profile. ``is_own``: it was calibrated in the run.
    - ``speeds``: by number of the group, the time of calls over the time in ``whole``; only groups for which it is
      known.
    - ``pace_s``: seconds in which the host issued the pace beside the programs of the calibrations; 0 if not known.
    """

    whole: Device
    speeds: Mapping[int, float] = field(default_factory=dict)
    pace_s: float = 0.0
    is_own: bool = False

    def of(self, entry: records.Entry) -> Device:
        """Return the profile for one of the run's entries, with the host at the median speed beside its samples.

        Without paces beside the samples, the speed is the one of the entry's group.
        """
        speeds = self.speeds_of(entry)
        speed = median(speeds) if speeds else self.speeds.get(entry.group)
        return self.whole if speed is None else self.at_speed(speed)

    @cached_property
    def at_speed(self) -> Callable[[float], Device]:
        """The profile with calls that take so many times as long: one object for each speed, known by identity."""
        return cache(partial(at_speed, self.whole, records.CallCosts._fields))

    @cached_property
    def in_language(self) -> Callable[[str], Device]:
        """The profile with the calls of a front end, one object for each. Raises InputError if it is unknown."""
        return cache(partial(with_front_end, self.whole))

    def speeds_of(self, entry: records.Entry) -> list[float]:
        """Return the time of calls beside each sample of a replay, over the calibrated time; [] if not known."""
        return [seconds / self.pace_s for seconds in entry.paces_s] if self.pace_s and _has_paces(entry) else []

    @cached_property
    def link_s(self) -> float:
        """The predicted seconds of a copy each way at once."""
        return predict_device_s(records.LINK_PAIR, self.whole)


def profiles_of(run: records.Run, device: Device | None = None) -> Profiles:
    """Return the profiles of a run: ``device`` for all of it, or else its own; with the run's connections.

    Raises InputError if the run has no profile and none is given.
    """
    before, after = run.profile("before"), run.profile("after")
    own: Device | None = mean_of(before, after) if before and after else before or after
    profile = own if device is None else device
    if profile is None:
        raise InputError(
            f"the run with {run.connections} connections has no calibrated profile: give one with --device"
        )
    is_of_programs = any(entry.program for entry in run.entries)
    as_calibrated = is_of_programs and profile.connections == run.connections  # their processes set no number of queues
    whole = profile if as_calibrated else profile.with_connections(run.connections)
    if device is not None:
        return Profiles(whole)
    known = [one for one in map(_calibrated, (run.samples, run.samples_after)) if one]
    paces_s = [one.pace_s for one in known if one.pace_s]
    pace_s = mean(paces_s) if paces_s else 0.0
    return Profiles(whole, _speeds(run, known), pace_s, is_own=True)


class _Calibrated(msgspec.Struct, frozen=True):
    """The samples of a calibration, as a record keeps them, that say how fast the host was."""

    timings: tuple[records.ChainRow, ...]
    paces_s: tuple[records.PaceRow, ...] = ()

    @property
    def pace_s(self) -> float:
        """The median seconds in which the host issued the pace beside programs; 0 if not measured."""
        found = [seconds for *_, runs in self.paces_s for seconds in runs if seconds >= records.SHORTEST_S]
        return median(found) if found else 0.0


def _calibrated(samples: dict[str, Any] | None) -> _Calibrated | None:
    try:
        return None if samples is None else msgspec.convert(samples, _Calibrated)
    except msgspec.ValidationError:
        return None


def _mixes_s(rows: Iterable[records.ChainRow]) -> list[float]:
    """Return the seconds in which the host issued each of the mixes of calls.

    [] unless all of them ran often enough, and none in 0 s: speeds are divided by them.
    """
    known = {records.Chain(kind, size, n): [issue_s for *_, issue_s in runs] for kind, size, n, runs in rows}
    found = [known.get(mix, []) for mix in records.MIXES]
    are_known = all(len(runs) >= FEWEST_REPEATS and min(runs) >= records.SHORTEST_S for runs in found)
    return [median(runs) for runs in found] if are_known else []


def _speeds(run: records.Run, known: Iterable[_Calibrated]) -> dict[int, float]:
    """Return the time of calls over the calibrated time, by number of the group, from the probes of each group.

    The result is the geometric mean over the mixes. A host changes its speed for all calls at once. The medians of two
    mixes may fall on two of its speeds, so their difference says little about one call.
    """
    calibrated = [found for one in known if (found := _mixes_s(one.timings))]
    usual_s = [mean(each) for each in zip(*calibrated, strict=True)]
    took_s = {group.number: _mixes_s(group.probes) for group in run.groups}
    return {
        number: math.exp(mean(math.log(took / usual) for took, usual in zip(own_s, usual_s, strict=True)))
        for number, own_s in took_s.items()
        if own_s and usual_s
    }


def _has_paces(entry: records.Entry) -> bool:
    """Return whether an entry is a replay with enough paces beside its samples, none of them 0 s."""
    is_enough = len(entry.paces_s) >= FEWEST_REPEATS and min(entry.paces_s) >= records.SHORTEST_S
    return is_enough and not entry.program


@dataclass(frozen=True)
class Case:
    """An entry as it is predicted: a schedule, or a program with the measured times of its kernels.

    - ``device``: the profile of its run or language. ``usual``: with calls at the median speed beside its samples.
    - ``at_speed``: the profile with calls that take so many times as long.
    - ``speeds``, ``links``: beside each sample the time of calls, and of copies both ways at once, over the calibrated
      time; empty if not known.
    - ``follows``: whether these are what predicts it. A device that is given is taken as it is.
    """

    schedule: Schedule
    device: Device
    usual: Device
    at_speed: Callable[[float], Device]
    speeds: Sequence[float]
    links: Sequence[float]
    follows: bool

    def slower(self, predict: Predict, device: Device) -> np.ndarray | float:
        """Return the factor by which others on the link slow each sample, on ``device``.

        A program that takes no time is not slowed.
        """
        usual_s = predict(device) if self.follows and self.links else 0.0
        return expected_beside(predict, partial(with_link, device), self.links) / usual_s if usual_s else 1.0

    def predicted_s(
        self, predict: Predict, samples_s: Sequence[float], slower: np.ndarray | float | None = None
    ) -> float:
        """Return the predicted seconds beside the median of the samples.

        Host and link are as fast as they were beside each sample, if that was measured. ``slower``: by the link;
        default: on the usual device.
        """
        if not self.follows or min(samples_s) < records.SHORTEST_S:
            return predict(self.usual)
        expected_s = expected_beside(predict, self.at_speed, self.speeds)
        return beside_median(expected_s * (self.slower(predict, self.usual) if slower is None else slower), samples_s)


def case_of(entry: records.Entry, profiles: Profiles) -> Case:
    """Return an entry as it is predicted with the profiles of its run.

    Raises InputError as :meth:`~streamsim_validate.records.record.Entry.build` and :func:`schedule_of` do.
    """
    if entry.program is None:
        speeds = profiles.speeds_of(entry)
        are_timed = profiles.is_own and entry.links_s and min(entry.links_s) >= records.SHORTEST_S
        links = [seconds / profiles.link_s for seconds in entry.links_s] if are_timed else []
        usual = profiles.of(entry)
        return Case(entry.build(), profiles.whole, usual, profiles.at_speed, speeds, links, bool(speeds))
    device = profiles.in_language(entry.program.language)
    usual_s = records.round_s(device.host, entry.program.pace)
    speeds = [seconds / usual_s for seconds in entry.paces_s] if usual_s else []  # calls may cost nothing
    links = links_beside(entry.program, profiles.whole, speeds)
    in_time = cache(partial(at_speed, device, TIMES))
    follows = profiles.is_own and bool(speeds)
    return Case(schedule_of(entry, device), device, device, in_time, speeds, links, follows)


def links_beside(program: records.ProgramTimes, profile: Device, speeds: Sequence[float]) -> list[float]:
    """Return the time of copies both ways at once beside each run, over the usual time; [] if not measured.

    These copies are bare calls in any language, so ``profile`` has no front end. ``speeds``: the time of calls beside
    each run, over the calibrated time; what calls take longer is not due to the link.
    """
    links_s = program.run_links_s
    if not links_s or min(links_s) < records.SHORTEST_S:
        return []
    predict, changed_to = partial(predict_wall_s, records.LINK_PAIR), partial(at_speed, profile, TIMES)
    found: list[float] = (links_s / expected_beside(predict, changed_to, speeds or (1.0,) * len(links_s))).tolist()
    return found


def schedule_of(entry: records.Entry, device: Device) -> Schedule:
    """Return the schedule of a program, with the measured times of its kernels.

    Raises InputError as :meth:`~streamsim_validate.records.record.Entry.build` does, and if no times were measured.
    """
    entry.build()
    recipe, program = entry.recipe, entry.program
    assert recipe is not None
    assert program is not None
    workload = recipe.workload
    chunks_s = program.chunks_s or (0.0,) * len(program.kernels_s)
    if not len(workload.kernels) == len(program.kernels_s) == len(chunks_s):
        raise InputError(f"entry {entry.key!r}: the times of its kernels are missing; measure it again")
    chunks = int(recipe.arguments.get("chunks", 1))
    part = -(-(workload.elements or 1) // chunks)
    between_s = device.hand_over.kernel_to_kernel_s  # in the chains that were timed each waits for one
    kernels = []
    for kernel, took_s, chunk_s in zip(workload.kernels, program.kernels_s, chunks_s, strict=True):
        whole_s, part_s = (max(records.SHORTEST_S, seconds - between_s) for seconds in (took_s, chunk_s))
        points = (Point(float(part), min(part_s, whole_s)),) if chunks > 1 and program.chunks_s else ()
        kernels.append(replace(kernel, duration_s=whole_s, points=points, parameter=0))
    return replace(recipe, workload=replace(workload, kernels=tuple(kernels))).schedule()


# Rows


HOST_SHARE = 0.7  # of the measured time of a replay: from here on the host's calls set it
PROGRAM_HOST_SHARE = 0.8  # of the wall time of a program, from which on the calls by themselves set it
OWN_SCHEDULE = "own schedule"  # the pattern and the effect of a schedule that no suite made


def compare(record: records.Record, device: Device | None = None) -> comparison.Comparison:
    """Predict every schedule of ``record`` and set it beside the measured time.

    Without ``device``, each run is predicted with the mean of its calibrations before and after, and with the host's
    calls as fast as they were beside each sample. With ``device``, all runs are predicted with that profile alone. Each
    run keeps its own number of connections.

    Raises InputError if nothing was measured, if the record has no profile and none is given, and if the profile is of
    another card or can predict none of the schedules.
    """
    _check_measured(record)
    profiles = {id(run): profiles_of(run, device) for run in record.runs}
    for found in profiles.values():
        records.check_same_card(record.card, found.whole)
    rows, unpredicted = [], []
    for run, entry in record.measured():
        try:
            rows.append(row_of(entry, run, profiles[id(run)]))
        except InputError as error:
            unpredicted.append(comparison.Absent(entry.key, run.connections, str(error)))
    if device is not None and unpredicted and not rows:
        raise InputError(
            f"device {device.name!r}: can predict none of the record's {len(unpredicted)} schedules"
            f" ({unpredicted[0].reason}); the record is of {record.card.name}: use its own calibration, or calibrate"
            " that card"
        )
    return comparison.Comparison(
        card=record.card.name,
        suite=record.suite,
        device="calibrated with the record" if device is None else device.name,
        rows=tuple(rows),
        unpredicted=tuple(unpredicted),
        unmeasured=tuple(
            comparison.Absent(entry.key, run.connections, entry.status) for run, entry in record.skipped()
        ),
    )


def _check_measured(record: records.Record) -> None:
    """Raise InputError when no schedule has samples: nothing but a table without lines would come of it."""
    entries = [entry for _, entry in record.measured()]
    what = f"the record of {record.suite!r} on {record.card.name} has"
    if not entries:
        first = next((f"; {entry.key!r}: {entry.status}" for _, entry in record.skipped() if entry.status != "ok"), "")
        raise InputError(f"{what} no measured schedule{first}; measure again with `streamsim-validate run`")
    if not any(entry.device_s or entry.program for entry in entries):
        raise InputError(
            f"{what} wall times of programs alone, which only what tuned them predicts; compare one of"
            " `streamsim-validate run`, or of tune without --as"
        )


def row_of(entry: records.Entry, run: records.Run, profiles: Profiles) -> comparison.Row:
    """Predict one entry with the profiles of its run.

    Raises InputError when the profile lacks the cost of one of its kernels, when a measured time is 0 or missing, and
    as :func:`case_of` does.
    """
    recipe, program = entry.recipe, entry.program
    compared_s = entry.wall_s if program else entry.device_s
    measured_s, spread_s = records.median_and_spread(compared_s)
    wall_s = median(entry.wall_s)
    if not min(measured_s, *(entry.wall_s if program else (wall_s,))) >= records.SHORTEST_S:
        raise InputError("a measured time is 0: there is nothing to compare with")
    if not entry.issue_s:
        raise InputError(f"entry {entry.key!r}: nothing says how long issuing it took; measure it again")
    issue_s, key = median(entry.issue_s), "" if recipe is None else records.workload_key(recipe.workload)
    case = case_of(entry, profiles)
    own = _of_program(entry, program, case, issue_s) if program else _of_replay(entry, case, issue_s)
    return comparison.Row(
        key=entry.key,
        connections=run.connections,
        pattern=OWN_SCHEDULE if recipe is None else recipe.pattern,
        effect=OWN_SCHEDULE if recipe is None else recipe.effect,
        workload=key if program is None else f"{program.language}: {key}",
        measured_s=measured_s,
        noise=spread_s / measured_s,
        wall_s=wall_s,
        issue_s=issue_s,
        simplicity=() if recipe is None else recipe.simplicity,
        **own,
    )


def _of_replay(entry: records.Entry, case: Case, issue_s: float) -> dict[str, Any]:
    """Return what a row says of a replayed schedule."""
    schedule, recipe = case.schedule, entry.recipe
    return {
        "klass": classify(schedule, issue_s, median(entry.wall_s)),
        "predicted_s": case.predicted_s(partial(predict_device_s, schedule), entry.device_s),
        "wall_predicted_s": case.predicted_s(partial(predict_wall_s, records.closed(schedule)), entry.wall_s),
        "formulas_s": formulas(schedule, case.usual, None if recipe is None else recipe.workload),
    }


def _of_program(entry: records.Entry, program: records.ProgramTimes, case: Case, issue_s: float) -> dict[str, Any]:
    """Return what a row says of a program: predicted with the host's speed beside it, and with the one of issuing."""
    predict, is_host_bound = partial(predict_wall_s, case.schedule), issue_s > PROGRAM_HOST_SHARE * median(entry.wall_s)
    calls = replace(case.schedule, ops=case.schedule.ops[:-1])  # without the synchronisation that ends it
    issuing_s = sum(lower(calls, case.device).call) / TICKS_PER_S
    then = case.at_speed(issue_s / max(records.SHORTEST_S, issuing_s))
    at_speed_s, slower = predict(then), case.slower(predict, then)
    predicted_s = case.predicted_s(predict, entry.wall_s, slower)
    return {
        "klass": comparison.HOST_BOUND if is_host_bound else comparison.DEVICE_BOUND,
        "predicted_s": predicted_s,
        "wall_predicted_s": predicted_s,
        "formulas_s": {},
        "front_end": program.language,
        "at_speed_s": beside_median(at_speed_s * slower, entry.wall_s)
        if isinstance(slower, np.ndarray)
        else at_speed_s,
    }


def classify(schedule: Schedule, issue_s: float, wall_s: float) -> str:
    """Return what sets a schedule's time: the class by the measured times of one program, in seconds.

    A call before the closing synchronisation may hold the host until the card is done. Then issuing takes as long as
    the card, and its share says nothing about the host: such schedules are a class of their own.
    """
    if schedule.pageable_names:
        return comparison.PAGEABLE
    if holds_host(schedule.ops[: records.first_closing(schedule)]):
        return comparison.BLOCKING
    return comparison.DEVICE_BOUND if issue_s < HOST_SHARE * wall_s else comparison.HOST_BOUND


def formulas(schedule: Schedule, device: Device, workload: Workload | None = None) -> dict[str, float]:
    """Return the seconds that each published formula gives its user, by name.

    Stage times are those of the whole stage, as a user measures them before cutting anything into chunks. A program in
    one stream, or with calls that wait before its last work, overlaps nothing, and its user knows: it counts as one
    chunk, without copy engines. Pageable copies go at the pageable rate.
    """
    kernel_s = None
    if workload is not None:
        (whole,) = workload.cut(1)
        kernel_s = sum(many * device.occupancy(launch).alone_s for launch, many in workload.kernels_of(whole))
    overlaps = len(working_streams(schedule)) > 1 and not has_host_waits(schedule)
    return published(lower(schedule, device), kernel_s, overlaps)


# Intervals


SAMPLES = 200
# What calls are known to within where rounds beside a run say how fast the host was, relative: with it the intervals of
# the host-bound programs in CuPy and C++ of four records hold nine of ten (docs/evidence.md judges it on others).
CALLS_MISSED = 0.075


class Expected(msgspec.Struct, frozen=True):
    """A row of a comparison and the interval of its device's time."""

    row: comparison.Row
    interval: Interval

    @property
    def width(self) -> float:
        """The width of the interval, relative to the prediction."""
        return (self.interval.high_s - self.interval.low_s) / self.row.predicted_s

    @property
    def is_inside(self) -> bool:
        """True if the interval holds the measured median."""
        return self.interval.low_s <= self.row.measured_s <= self.interval.high_s


def expectations(
    record: records.Record,
    rows: Sequence[comparison.Row],
    samples: int = SAMPLES,
    seed: int = 0,
    device: Device | None = None,
) -> list[Expected]:
    """Return the interval of each of some rows of the record's comparison.

    The record is predicted as in :func:`compare`. Raises InputError if a profile has no spread.
    """
    asked, found = {(row.connections, row.key): row for row in rows}, list[Expected]()
    for run in record.runs:
        profiles = profiles_of(run, device)
        by_device = defaultdict[int, list[tuple[comparison.Row, Case]]](list)  # those of a device share its draws
        for entry in run.entries:
            if row := asked.get((run.connections, entry.key)):
                case = case_of(entry, profiles)
                by_device[id(case.device)].append((row, case))
        for pairs in by_device.values():
            found += _expected(pairs, samples, seed)
    return found


def _expected(pairs: Sequence[tuple[comparison.Row, Case]], samples: int, seed: int) -> list[Expected]:
    """Return the intervals of schedules, or of programs in one language, with one device.

    The interval is about the prediction beside each sample.
    """
    (first, case), cases = pairs[0], [case for _, case in pairs]
    device = case.device
    predict = partial(drawn_wall_s, device) if first.front_end else predict_device_s
    known = with_known_host(device) if all(case.follows for case in cases) else device
    drawn = with_link_spread(known, [case.links for case in cases])
    found = []
    each = intervals_of([case.schedule for case in cases], drawn, samples, seed, predict)
    for interval, (row, case) in zip(each, pairs, strict=True):
        usual_s = predict(case.schedule, device)
        factor = row.predicted_s / usual_s if usual_s else 1.0
        own = replace(interval, low_s=interval.low_s * factor, high_s=interval.high_s * factor)
        found.append(Expected(row, own))
    return found


def drawn_wall_s(usual: Device, schedule: Schedule, drawn: Device) -> float:
    """Return :func:`predict_wall_s` on a device drawn from the spread of ``usual``.

    Kernels that were timed beside a program are as uncertain as calibrated ones: all are drawn by the same factor.
    Without calibrated kernels, nothing shows how uncertain they are.
    """
    longest_s = [card.compute.kernels[0].duration_s[-1] if card.compute.kernels else 1.0 for card in (drawn, usual)]
    return predict_wall_s(_with_kernels(schedule, longest_s[0] / longest_s[1]), drawn)


def _with_kernels(schedule: Schedule, factor: float) -> Schedule:
    """Return the schedule with kernels that take ``factor`` times as long."""
    ops = list(schedule.ops)
    for i, op in enumerate(ops):
        if isinstance(op, Kernel):
            assert op.duration_s is not None
            parts = tuple((share, seconds * factor) for share, seconds in op.parts)
            ops[i] = replace(op, duration_s=op.duration_s * factor, parts=parts)
    return replace(schedule, ops=tuple(ops))


def with_known_host(device: Device) -> Device:
    """Return the device with calls that are as uncertain as they are at a known speed of the host."""
    known = dict.fromkeys(HOST_TIMES, CALLS_MISSED) if device.spread else {}
    return replace(device, spread={**device.spread, **known})


def with_link_spread(device: Device, links: Iterable[Sequence[float]]) -> Device:
    """Return the device with copies both ways at once as uncertain as calibrated and as they varied beside runs.

    ``links``: for each program or schedule, their times beside its runs, over the usual time. A run shows the link no
    better than it changed from one run to the next.
    """
    logs = [math.log(times / median(runs)) for runs in links for times in runs]
    if not device.spread or not logs:
        return device
    varied = math.sqrt(fmean(log**2 for log in logs))
    names = [f"{way}.duplex_bandwidth_bytes_per_s" for way in DIRECTIONS]
    own = {name: math.hypot(device.spread.get(name, 0.0), varied) for name in names}
    return replace(device, spread={**device.spread, **own})


def by_class(found: Sequence[Expected]) -> dict[str, comparison.Coverage]:
    """Summarise each class that is there; of programs each of every front end."""
    groups: defaultdict[str, list[Expected]] = defaultdict(list)
    for one in found:
        groups[f"{one.row.front_end} {one.row.klass}".strip()].append(one)
    front_ends = dict.fromkeys(one.row.front_end for one in found)
    names = (f"{front_end} {klass}".strip() for front_end in front_ends for klass in comparison.CLASSES)
    return {name: _coverage(groups[name]) for name in names if name in groups}


def _coverage(found: Sequence[Expected]) -> comparison.Coverage:
    n, widths = len(found), [one.width for one in found]
    below = sum(one.row.measured_s < one.interval.low_s for one in found)
    above = sum(one.row.measured_s > one.interval.high_s for one in found)
    return comparison.Coverage(n, (n - below - above) / n, below / n, above / n, mean(widths), median(widths))


def worst_line(record: records.Record, worst: Sequence[comparison.Row], device: Device | None = None) -> Pictures:
    """Return the predicted time line of the first of the rows, without timing events. ``device``: as in `compare`."""
    lines = {}
    for row in worst[:1]:
        place = (row.connections, row.key)
        run, entry = next((run, entry) for run, entry in record.measured() if (run.connections, entry.key) == place)
        case = case_of(entry, profiles_of(run, device))
        words = f"predicted: {row.key}, {row.connections} connections"
        lines[words] = simulate_one_of_many(records.closed(case.schedule), case.usual)
    return Pictures.of(lines)
