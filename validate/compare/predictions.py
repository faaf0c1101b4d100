"""Predictions of the schedules of a record, beside the measured times and the published formulas.

Pure: a record and a device profile in, numbers out; no card. The compared time is the device's, between the timing
events of :func:`streamsim_validate.records.timed.with_timing_events`, which the model simulates too. The time of the
whole program on the host's clock stands beside it.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from streamsim.analysis import Stages, published_of, stages_of, van_werkhoven_transfer
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import Copy, Schedule, Workload
from streamsim.timeline import Timeline
from streamsim.transform import has_host_waits, holds_host
from streamsim_validate.compare.clocks import predict_device_s, predict_wall_s
from streamsim_validate.compare.comparison import Absent, Comparison
from streamsim_validate.compare.paced import beside_median, expected_beside, slower_by_link
from streamsim_validate.compare.profiles import Profiles, drift_of, profiles_of
from streamsim_validate.compare.program_rows import device_of, program_row, schedule_of
from streamsim_validate.compare.rows import BLOCKING, DEVICE_BOUND, HOST_BOUND, PAGEABLE, Row
from streamsim_validate.records import (
    SHORTEST_S,
    Entry,
    Record,
    Run,
    check_same_card,
    closed,
    first_closing,
    median_and_spread,
    timeline_of,
    workload_key,
)

HOST_SHARE = 0.7  # of the measured time: from here on the host's calls set it
OWN_SCHEDULE = "own schedule"  # the pattern and the effect of a schedule that no suite made


def compare(record: Record, device: Device | None = None) -> Comparison:
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
        check_same_card(record.card, found.whole)
    rows, unpredicted = [], []
    for run, entry in record.measured():
        predict = row_of if entry.program is None else program_row
        try:
            rows.append(predict(entry, run, profiles[id(run)]))
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
    entries = [entry for _, entry in record.measured()]
    if entries and not any(entry.device_s or entry.program for entry in entries):
        raise InputError(
            f"the record of {record.suite!r} on {record.card.name} has wall times of programs alone, which only what"
            " tuned them predicts; compare one of `streamsim-validate run`, or of tune without --as"
        )
    if entries:
        return
    first = next((f"; {entry.key!r}: {entry.status}" for _, entry in record.skipped() if entry.status != "ok"), "")
    what = f"the record of suite {record.suite!r} on {record.card.name}"
    raise InputError(f"{what} has no measured schedule{first}; measure again with `streamsim-validate run`")


def row_of(entry: Entry, run: Run, profiles: Profiles) -> Row:
    """Predict one entry with the profiles of its run.

    Raises InputError when the profile lacks the cost of one of its kernels, or a measured time is 0.
    """
    schedule = entry.build()
    measured_s, spread_s = median_and_spread(entry.device_s)
    if not measured_s >= SHORTEST_S:
        raise InputError("its measured device time is 0: there is nothing to compare with")
    wall_s, issue_s = statistics.median(entry.wall_s), statistics.median(entry.issue_s)
    if not wall_s >= SHORTEST_S:
        raise InputError("its measured time on the host's clock is 0: there is nothing to compare with")
    recipe = entry.recipe
    return Row(
        key=entry.key,
        connections=run.connections,
        klass=classify(schedule, issue_s, wall_s),
        pattern=OWN_SCHEDULE if recipe is None else recipe.pattern,
        effect=OWN_SCHEDULE if recipe is None else recipe.effect,
        workload="" if recipe is None else workload_key(recipe.workload),
        measured_s=measured_s,
        noise=spread_s / measured_s,
        predicted_s=predicted_beside_s(partial(predict_device_s, schedule), entry, profiles, entry.device_s),
        wall_s=wall_s,
        wall_predicted_s=predicted_beside_s(partial(predict_wall_s, closed(schedule)), entry, profiles, entry.wall_s),
        issue_s=issue_s,
        formulas_s=formulas(schedule, profiles.of(entry), None if recipe is None else recipe.workload),
        simplicity=() if recipe is None else recipe.simplicity,
    )


def classify(schedule: Schedule, issue_s: float, wall_s: float) -> str:
    """Return what sets a schedule's time: the class by the measured times of one program, in seconds.

    A call before the closing synchronisation may hold the host until the card is done. Then issuing takes as long as
    the card, and its share says nothing about the host: such schedules are a class of their own.
    """
    if schedule.pageable_names:
        return PAGEABLE
    if holds_host(schedule.ops[: first_closing(schedule)]):
        return BLOCKING
    return DEVICE_BOUND if issue_s < HOST_SHARE * wall_s else HOST_BOUND


def predicted_beside_s(
    predict: Callable[[Device], float], entry: Entry, profiles: Profiles, samples_s: Sequence[float]
) -> float:
    """Return the predicted seconds beside the median of an entry's samples.

    Host and link are as fast as they were beside each sample, if that was measured.
    """
    speeds, links = profiles.speeds_of(entry), profiles.links_of(entry)
    if not speeds or min(samples_s) < SHORTEST_S:
        return predict(profiles.of(entry))
    expected_s = expected_beside(predict, profiles.at_speed, speeds)
    if links:
        device = profiles.of(entry)
        expected_s *= slower_by_link(predict, device, links, predict(device))
    return beside_median(expected_s, samples_s)


def formulas(schedule: Schedule, device: Device, workload: Workload | None = None) -> dict[str, float]:
    """Return the seconds that each published formula gives its user, by name.

    Stage times are those of the whole stage, as a user measures them before cutting anything into chunks. A program in
    one stream, or with calls that wait before its last work, overlaps nothing, and its user knows: it counts as one
    chunk, without copy engines. Pageable copies go at the pageable rate.
    """
    stages = stages_of(schedule, device)
    if schedule.pageable_names:
        pageable_s = _pageable_transfers_s(schedule, device, stages.chunks)
        stages = msgspec.structs.replace(stages, **pageable_s)
    if workload is not None:
        stages = msgspec.structs.replace(stages, kernel_s=_kernels_in_one_go_s(workload, device))
    return published_of(_without_overlap(stages) if stages.streams == 1 or has_host_waits(schedule) else stages)


def _without_overlap(stages: Stages) -> Stages:
    return msgspec.structs.replace(
        stages, chunks=1, copy_engines=0, h2d_chunks_s=stages.h2d_s, d2h_chunks_s=stages.d2h_s
    )


def _kernels_in_one_go_s(workload: Workload, device: Device) -> float:
    (whole,) = workload.cut(1)
    return sum(device.kernel_time(launch)[0] for launch in workload.launches(whole))


def _pageable_transfers_s(schedule: Schedule, device: Device, chunks: int) -> dict[str, float]:
    """Return the transfer times of :class:`Stages` at the pageable rates."""
    found = {}
    for name, link in (("h2d", device.h2d), ("d2h", device.d2h)):
        n_bytes = sum(op.bytes for op in schedule.ops if isinstance(op, Copy) and op.direction == name)
        latency_s, s_per_byte = link.pageable_latency_s, 1 / link.pageable_bandwidth_bytes_per_s
        for field, n in ((f"{name}_s", 1), (f"{name}_chunks_s", chunks)):
            found[field] = van_werkhoven_transfer(latency_s, n_bytes / n, s_per_byte, latency_s, n) if n_bytes else 0.0
    return found


def time_lines(record: Record, row: Row, device: Device | None = None) -> tuple[Timeline, Timeline | None]:
    """Return the predicted time line of a row's schedule, and the measured one if the record has it.

    The time lines have no timing events. The arguments are those of :func:`compare`.
    """
    place = (row.connections, row.key)
    run, entry = next((run, entry) for run, entry in record.measured() if (run.connections, entry.key) == place)
    profile = profiles_of(run, device).of(entry)
    if entry.program is not None:
        profile = device_of(profile, entry.program)
        return simulate_one_of_many(schedule_of(entry, profile), profile), None
    schedule = closed(entry.build())
    measured = None if entry.timeline is None else timeline_of(schedule, entry.timeline)
    return simulate_one_of_many(schedule, profile), measured
