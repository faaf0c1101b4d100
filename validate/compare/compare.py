"""Compare a record with the model: errors, their own noise, choices, and the published formulas beside it.

Pure: a record and a device profile in, numbers out; no card. Errors are signed and relative to the median of
the samples: +0.02 is a prediction 2 % too long. What is compared is the device's time, between the timing
events of :func:`streamsim_validate.gpu.replay.with_timing_events`, which the model simulates as well; the whole
program's time, as the host's clock sees it, stands beside it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from streamsim.analysis.formulas import Stages, published_of, stages_of, van_werkhoven_transfer
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.schedule import Copy, RecordEvent, Schedule, Synchronize
from streamsim.rules.clock import S_PER_TICK
from streamsim_validate.compare.profiles import Drift, drift_of, profiles_of
from streamsim_validate.gpu.profiler import timeline_of
from streamsim_validate.gpu.replay import closed, with_timing_events
from streamsim_validate.records.record import Entry, Record, Run, check_card, median_and_spread
from streamsim_validate.suites.suites import workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.workload import Workload
    from streamsim.timeline.timeline import Timeline

DEVICE_BOUND, HOST_BOUND, BLOCKING, PAGEABLE = CLASSES = ("device-bound", "host-bound", "blocking", "pageable")
HOST_SHARE = 0.7  # of the measured time: from here on the host's calls set it
NOISE_REACH = 3.0  # half quartile distances: two standard deviations where the samples are normal
OWN_SCHEDULE = "own schedule"  # the pattern and the effect of a schedule that no suite made
EVERYTHING = "all but pageable"  # the group of everything that a schedule meant for overlap can be


class Row(msgspec.Struct, frozen=True):
    """A schedule, measured and predicted. Times in seconds, medians of the samples.

    ``noise``: half the distance between the quartiles of ``measured_s``, over its median. ``wall_s`` and
    ``issue_s``: the plain program's time on the host's clock and the part of it in which it was issued.
    ``formulas_s``: the published predictors. ``workload``: what is chunked, "" for a user's own schedule.
    ``simplicity``: the smaller, the simpler.
    """

    key: str
    connections: int
    klass: str
    pattern: str
    effect: str
    workload: str
    measured_s: float
    noise: float
    predicted_s: float
    wall_s: float
    wall_predicted_s: float
    issue_s: float
    formulas_s: dict[str, float]
    simplicity: tuple[int, ...] = ()

    @property
    def error(self) -> float:
        """Signed relative error of the prediction."""
        return self.predicted_s / self.measured_s - 1

    @property
    def wall_error(self) -> float:
        """Signed relative error of the prediction of the whole program's time."""
        return self.wall_predicted_s / self.wall_s - 1

    @property
    def is_noise(self) -> bool:
        """Whether the error lies within what the measurement itself scatters."""
        return abs(self.error) <= NOISE_REACH * self.noise

    def formula_error(self, name: str) -> float:
        """Signed relative error of a published formula."""
        return self.formulas_s[name] / self.measured_s - 1


class Absent(msgspec.Struct, frozen=True):
    """A schedule that is not compared, and why."""

    key: str
    connections: int
    reason: str


class Summary(msgspec.Struct, frozen=True):
    """Absolute errors of ``n`` schedules; ``bias`` is the median of the signed ones, ``noise`` of the rows' own."""

    n: int
    median: float
    p95: float
    worst: float
    bias: float
    noise: float
    worst_key: str


class Choice(msgspec.Struct, frozen=True):
    """What following the model costs for one workload: its pick among the measured configurations.

    ``regret``: the measured time of the pick over the best measured, less one. Of configurations predicted
    equal, the simplest is picked, as ``streamsim best`` does. ``noise``: of the pick's time.
    """

    workload: str
    connections: int
    picked: str
    best: str
    picked_s: float
    best_s: float
    noise: float

    @property
    def regret(self) -> float:
        """How much slower than the best measured, relative."""
        return self.picked_s / self.best_s - 1


class Comparison(msgspec.Struct, frozen=True):
    """A record against the model: a row for every schedule measured, or the reason why there is none."""

    card: str
    suite: str
    device: str
    rows: tuple[Row, ...]
    unpredicted: tuple[Absent, ...]
    unmeasured: tuple[Absent, ...]
    drift: tuple[Drift, ...]

    @property
    def summaries(self) -> dict[str, dict[str, Summary]]:
        """By class, by connections and class, by pattern, by effect; pageable memory is in its own groups only."""
        others = [row for row in self.rows if row.klass != PAGEABLE]
        return {
            "class": {**_summaries(self.rows, lambda row: row.klass), **_summaries(others, lambda _: EVERYTHING)},
            "connections": {
                **_summaries(others, lambda row: f"{row.connections} connections"),
                **_summaries(others, lambda row: f"{row.connections} connections {row.klass}"),
            },
            "pattern": _summaries(others, lambda row: row.pattern),
            "effect": _summaries(self.rows, lambda row: row.effect),
        }

    @property
    def wall(self) -> dict[str, Summary]:
        """Errors of the whole program's time on the host's clock, by class."""
        return _summaries(self.rows, lambda row: row.klass, lambda row: row.wall_error)

    @property
    def formulas(self) -> dict[str, dict[str, Summary]]:
        """For each published formula what ``summaries["class"]`` is for the model."""
        return {name: self._formula(name) for name in (self.rows[0].formulas_s if self.rows else ())}

    def _formula(self, name: str) -> dict[str, Summary]:
        def error(row: Row) -> float:
            return row.formula_error(name)

        others = [row for row in self.rows if row.klass != PAGEABLE]
        return {
            **_summaries(self.rows, lambda row: row.klass, error),
            **_summaries(others, lambda _: EVERYTHING, error),
        }

    def margin(self, group: str = EVERYTHING) -> tuple[str, float]:
        """The published formula with the smallest median error in a group, and how many times the model's it is."""
        medians = {name: groups[group].median for name, groups in self.formulas.items()}
        best = min(medians, key=lambda name: medians[name])
        own = self.summaries["class"][group].median
        return best, medians[best] / own if own else math.inf

    @property
    def choices(self) -> list[Choice]:
        """The model's, one for each workload and number of connections measured in at least two configurations."""
        return self.choices_by(lambda row: row.predicted_s)

    def choices_by(self, time_s: Callable[[Row], float]) -> list[Choice]:
        """What somebody would choose who believes ``time_s``: with the times of another run, somebody who measures."""
        groups: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in self.rows:
            if row.workload:
                groups[row.connections, row.workload].append(row)
        return [choose(rows, time_s) for rows in groups.values() if len(rows) > 1]

    def worst(self, most: int) -> list[Row]:
        """The rows with the largest absolute errors, pageable memory left out."""
        others = (row for row in self.rows if row.klass != PAGEABLE)
        return sorted(others, key=lambda row: -abs(row.error))[:most]


def compare(record: Record, device: Device | None = None) -> Comparison:
    """Predict every schedule of ``record`` and set it beside what was measured.

    With the mean of the profiles that each run calibrated before it measured and after, and the host's calls as
    they were probed with each group of schedules; or with ``device``, as it is, for all of them. Either way with
    the run's number of connections. Raises InputError when nothing was measured, when the record has no profile and
    none is given, and when the profile is another card's, or can predict none of the schedules.
    """
    _check_measured(record)
    profiles = {id(run): profiles_of(run, device) for run in record.runs}
    for found in profiles.values():
        check_card(record, found.whole)
    rows, unpredicted = [], []
    for run, entry in record.measured():
        try:
            rows.append(row_of(entry, run, profiles[id(run)].of(entry)))
        except InputError as error:
            unpredicted.append(Absent(entry.key, run.connections, str(error)))
    if device is not None and unpredicted and not rows:
        raise InputError(
            f"device {device.name!r}: can predict none of the record's {len(unpredicted)} schedules"
            f" ({unpredicted[0].reason}); the record is of {record.card.name}: use its own calibration, or calibrate"
            " that card"
        )
    return Comparison(
        card=record.card.name,
        suite=record.suite,
        device="calibrated with the record" if device is None else device.name,
        rows=tuple(rows),
        unpredicted=tuple(unpredicted),
        unmeasured=tuple(Absent(entry.key, run.connections, entry.status) for run, entry in record.skipped()),
        drift=tuple(drift_of(run) for run in record.runs),
    )


def _check_measured(record: Record) -> None:
    """Raise InputError when no schedule has samples: nothing but a table without lines would come of it."""
    if next(record.measured(), None) is not None:
        return
    first = next((f"; {entry.key!r}: {entry.status}" for _, entry in record.skipped() if entry.status != "ok"), "")
    what = f"the record of suite {record.suite!r} on {record.card.name}"
    raise InputError(f"{what} has no measured schedule{first}; measure again with `streamsim-validate run`")


def row_of(entry: Entry, run: Run, device: Device) -> Row:
    """Predict one entry.

    Raises InputError when the profile lacks the cost of one of its kernels, or a measured time is 0.
    """
    schedule = entry.build()
    measured_s, spread_s = median_and_spread(entry.device_s)
    if not measured_s > 0:
        raise InputError("its measured device time is 0: there is nothing to compare with")
    wall_s, issue_s = statistics.median(entry.wall_s), statistics.median(entry.issue_s)
    if not wall_s > 0:
        raise InputError("its measured time on the host's clock is 0: there is nothing to compare with")
    case = entry.case
    return Row(
        key=entry.key,
        connections=run.connections,
        klass=classify(schedule, issue_s, wall_s),
        pattern=OWN_SCHEDULE if case is None else case.pattern,
        effect=OWN_SCHEDULE if case is None else case.effect,
        workload="" if case is None else workload_key(case.workload),
        measured_s=measured_s,
        noise=spread_s / measured_s,
        predicted_s=predict_device_s(schedule, device),
        wall_s=wall_s,
        wall_predicted_s=simulate(closed(schedule), device).host_s,
        issue_s=issue_s,
        formulas_s=formulas(schedule, device, None if case is None else case.workload),
        simplicity=() if case is None else case.simplicity,
    )


def classify(schedule: Schedule, issue_s: float, wall_s: float) -> str:
    """What sets a schedule's time, as measured: both times of the same program.

    Where a call is held until the card is done, issuing takes as long as the card does and the share says
    nothing of the host: such schedules are a class of their own, so that they flatter none of the others.
    """
    if schedule.pageable_names:
        return PAGEABLE
    if holds_host(schedule):
        return BLOCKING
    return DEVICE_BOUND if issue_s < HOST_SHARE * wall_s else HOST_BOUND


def holds_host(schedule: Schedule) -> bool:
    """Whether a call before the closing synchronisation waits for the card."""
    work = [op for op in schedule.ops if not isinstance(op, Synchronize)]
    if any(isinstance(op, Copy) and op.blocking for op in work):
        return True
    last = next((i for i in range(len(schedule) - 1, -1, -1) if not isinstance(schedule.ops[i], Synchronize)), -1)
    return any(isinstance(op, Synchronize) for op in schedule.ops[:last])


def predict_device_s(schedule: Schedule, device: Device) -> float:
    """What the timing events would show: from the end of the start event to the end of the stop event.

    A graph's events stand just before and after its launch: its time is its makespan.
    """
    timed = with_timing_events(schedule)
    timeline = simulate(timed, device)
    if timed.launch == "graph":
        return timeline.makespan_s
    start, stop = schedule.events, schedule.events + 1
    ends = {op.event: timeline.end[i] for i, op in enumerate(timed.ops) if isinstance(op, RecordEvent)}
    return (ends[stop] - ends[start]) * S_PER_TICK


def formulas(schedule: Schedule, device: Device, workload: Workload | None = None) -> dict[str, float]:
    """What a user of each published formula would get: seconds, by its name.

    Stage times are those of the whole stage in one go, as a user measures them before cutting anything into
    chunks. A program in one stream, or one whose calls wait, overlaps nothing, and its user knows: it counts as
    one chunk, and its copy engines as none. Pageable copies go at the pageable rate.
    """
    stages = stages_of(schedule, device)
    if schedule.pageable_names:
        pageable_s = _pageable_transfers_s(schedule, device, stages.chunks)
        stages = msgspec.structs.replace(stages, **pageable_s)
    if workload is not None:
        stages = msgspec.structs.replace(stages, kernel_s=_kernels_in_one_go_s(workload, device))
    return published_of(_without_overlap(stages) if stages.streams == 1 or holds_host(schedule) else stages)


def _without_overlap(stages: Stages) -> Stages:
    return msgspec.structs.replace(
        stages, chunks=1, copy_engines=0, h2d_chunks_s=stages.h2d_s, d2h_chunks_s=stages.d2h_s
    )


def _kernels_in_one_go_s(workload: Workload, device: Device) -> float:
    (whole,) = workload.cut(1)
    return sum(device.kernel_time(launch)[0] for launch in workload.launches(whole))


def _pageable_transfers_s(schedule: Schedule, device: Device, chunks: int) -> dict[str, float]:
    """The transfer times of :class:`Stages` at the pageable rates."""
    found = {}
    for name, link in (("h2d", device.h2d), ("d2h", device.d2h)):
        n_bytes = sum(op.bytes for op in schedule.ops if isinstance(op, Copy) and op.direction == name)
        latency_s, s_per_byte = link.pageable_latency_s, 1 / link.pageable_bandwidth_bytes_per_s
        for field, n in ((f"{name}_s", 1), (f"{name}_chunks_s", chunks)):
            found[field] = van_werkhoven_transfer(latency_s, n_bytes / n, s_per_byte, latency_s, n) if n_bytes else 0.0
    return found


def time_lines(record: Record, row: Row, device: Device | None = None) -> tuple[Timeline, Timeline | None]:
    """The predicted time line of a row's schedule, and the measured one where the record has it.

    Of the program as it stands, without timing events. Arguments as for :func:`compare`.
    """
    place = (row.connections, row.key)
    run, entry = next((run, entry) for run, entry in record.measured() if (run.connections, entry.key) == place)
    schedule = closed(entry.build())
    measured = None if entry.timeline is None else timeline_of(schedule, entry.timeline)
    return simulate(schedule, profiles_of(run, device).of(entry)), measured


# Statistics


def summarise(errors: Sequence[float], keys: Sequence[str] = (), noises: Sequence[float] = ()) -> Summary:
    """Summarise signed errors; ``keys`` name them. At least one."""
    sizes = [abs(error) for error in errors]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    return Summary(
        n=len(sizes),
        median=statistics.median(sizes),
        p95=percentile95(sizes),
        worst=sizes[worst],
        bias=statistics.median(errors),
        noise=statistics.median(noises) if noises else 0.0,
        worst_key=keys[worst] if keys else "",
    )


def percentile95(values: Sequence[float]) -> float:
    """The value that 95 % of ``values`` do not exceed, linear between neighbours."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _summaries(
    rows: Iterable[Row], group: Callable[[Row], str], error: Callable[[Row], float] = lambda row: row.error
) -> dict[str, Summary]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    ranks = {name: rank for rank, name in enumerate(CLASSES)}
    return {
        name: summarise([error(row) for row in members], [row.key for row in members], [row.noise for row in members])
        for name, members in sorted(groups.items(), key=lambda item: (ranks.get(item[0], 0), -len(item[1])))
    }


def choose(rows: Sequence[Row], time_s: Callable[[Row], float]) -> Choice:
    """What is picked by ``time_s`` among configurations of one workload, and what was best.

    Of equals the simplest, as :mod:`streamsim.search.best` has it; of equally simple ones the slowest.
    """
    picked = min(rows, key=lambda row: (time_s(row), row.simplicity, -row.measured_s))
    best = min(rows, key=lambda row: row.measured_s)
    return Choice(
        picked.workload, picked.connections, picked.key, best.key, picked.measured_s, best.measured_s, picked.noise
    )
