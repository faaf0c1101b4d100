"""Predictions of the schedules and programs of a record, beside the measured times and the published formulas.

Pure: a record and a device profile in, numbers out; no card. The compared time of a schedule is the device's, between
the timing events of :func:`streamsim_validate.records.recipe.with_timing_events`, which the model simulates too. The
time of the whole program on the host's clock stands beside it.

Of a program in a language, the wall time is compared, from the first call until the last synchronisation ends. It is
predicted with the calls of its front end as calibrated in its run, and with the measured times of its kernels alone,
over all the work and over a chunk. Each of its runs is predicted with the host as fast as the rounds of calls just
before and just after it show. The time that issuing took tells host-bound from device-bound programs. With calls that
take just that time, the program is predicted once more: this tells a miss of the calls from a miss of the model.
Nothing is fitted to the programs.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import numpy as np

from streamsim.analysis import published_of, stages_of, van_werkhoven_transfer
from streamsim.compiled import simulate_one_of_many
from streamsim.device import DIRECTIONS, HOST_TIMES, TIMES, Device, with_front_end
from streamsim.errors import InputError
from streamsim.lowering import lower
from streamsim.program import Copy, Kernel, Point, Schedule, Workload
from streamsim.rules import TICKS_PER_S
from streamsim.timeline import Timeline
from streamsim.transform import has_host_waits, holds_host
from streamsim_validate.compare.comparison import BLOCKING, DEVICE_BOUND, HOST_BOUND, PAGEABLE, Absent, Comparison, Row
from streamsim_validate.compare.profiles import (
    Profiles,
    at_speed,
    beside_median,
    drift_of,
    expected_beside,
    predict_device_s,
    predict_wall_s,
    profiles_of,
    slower_by_link,
)
from streamsim_validate.records import (
    LINK_PAIR,
    SHORTEST_S,
    Entry,
    Program,
    Record,
    Run,
    check_same_card,
    closed,
    first_closing,
    median_and_spread,
    round_s,
    timeline_of,
    workload_key,
)

PROGRAM_HOST_SHARE = 0.8  # of the wall time, from which on the calls by themselves set it
# What calls are known to within where rounds beside a run say how fast the host was, relative: with it the intervals of
# the host-bound programs in CuPy and C++ of four records hold nine of ten (docs/evidence.md judges it on others).
CALLS_MISSED = 0.075


def device_of(profile: Device, program: Program) -> Device:
    """Return the card with the calls of the program's front end. Raises InputError if it is unknown."""
    return with_front_end(profile, program.language)


def schedule_of(entry: Entry, device: Device) -> Schedule:
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
        whole_s, part_s = (max(SHORTEST_S, seconds - between_s) for seconds in (took_s, chunk_s))
        points = (Point(float(part), min(part_s, whole_s)),) if chunks > 1 and program.chunks_s else ()
        kernels.append(msgspec.structs.replace(kernel, duration_s=whole_s, points=points, parameter=0))
    timed = msgspec.structs.replace(workload, kernels=tuple(kernels))
    return msgspec.structs.replace(recipe, workload=timed).schedule()


def drawn_wall_s(usual: Device, schedule: Schedule, drawn: Device) -> float:
    """Return :func:`predict_wall_s` on a device drawn from the spread of ``usual``.

    Kernels that were timed beside a program are as uncertain as calibrated ones: all are drawn by the same factor.
    Without calibrated kernels, nothing shows how uncertain they are.
    """
    longest_s = [card.compute.kernels[0].duration_s[-1] if card.compute.kernels else 1.0 for card in (drawn, usual)]
    return predict_wall_s(_with_kernels(schedule, longest_s[0] / longest_s[1]), drawn)


def _with_kernels(schedule: Schedule, factor: float) -> Schedule:
    """Return the schedule with kernels that take ``factor`` times as long."""
    if factor == 1:
        return schedule
    ops = list(schedule.ops)
    for i, op in enumerate(ops):
        if isinstance(op, Kernel):
            assert op.duration_s is not None
            parts = tuple((share, seconds * factor) for share, seconds in op.parts)
            ops[i] = msgspec.structs.replace(op, duration_s=op.duration_s * factor, parts=parts)
    return msgspec.structs.replace(schedule, ops=tuple(ops))


def issuing_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds that issuing a schedule takes: its calls without the synchronisation that ends it."""
    issued = msgspec.structs.replace(schedule, ops=schedule.ops[:-1])
    return sum(lower(issued, device).call) / TICKS_PER_S


def program_row(entry: Entry, run: Run, profiles: Profiles) -> Row:
    """Return the row of a program, predicted with its run's profile.

    Raises InputError as :func:`schedule_of` does, for a measured time of 0, and without the time of issuing it.
    """
    recipe, program = entry.recipe, entry.program
    assert recipe is not None
    assert program is not None
    device = device_of(profiles.whole, program)
    schedule = schedule_of(entry, device)
    measured_s, spread_s = median_and_spread(entry.wall_s)
    if not min(entry.wall_s) >= SHORTEST_S:
        raise InputError("its measured wall time is 0: there is nothing to compare with")
    if not entry.issue_s:
        raise InputError(f"entry {entry.key!r}: nothing says how long issuing it took; measure it again")
    usual_s, issue_s = round_s(device.host, program.pace), statistics.median(entry.issue_s)
    speeds = tuple(seconds / usual_s for seconds in entry.paces_s) if usual_s else ()  # calls may cost nothing
    then = at_speed(device, TIMES, issue_s / max(SHORTEST_S, issuing_s(schedule, device)))
    predicted_s, at_speed_s = _predicted_s(entry, schedule, device, then, speeds, profiles)
    return Row(
        key=entry.key,
        connections=run.connections,
        klass=HOST_BOUND if issue_s > PROGRAM_HOST_SHARE * measured_s else DEVICE_BOUND,
        pattern=recipe.pattern,
        effect=recipe.effect,
        workload=f"{program.language}: {workload_key(recipe.workload)}",
        measured_s=measured_s,
        noise=spread_s / measured_s,
        predicted_s=predicted_s,
        wall_s=measured_s,
        wall_predicted_s=predicted_s,
        issue_s=issue_s,
        formulas_s={},
        simplicity=recipe.simplicity,
        front_end=program.language,
        speeds=speeds,
        at_speed_s=at_speed_s,
    )


def _predicted_s(
    entry: Entry, schedule: Schedule, device: Device, then: Device, speeds: Sequence[float], profiles: Profiles
) -> tuple[float, float]:
    """Return the predicted seconds: with the host's speed beside each run, if known, and with the speed of issuing.

    ``then``: the device with the speed of issuing.
    """
    predict = partial(predict_wall_s, schedule)
    predicted_s, at_speed_s = predict(device), predict(then)
    if not follows_host(entry, speeds, profiles):
        return predicted_s, at_speed_s
    expected_s = expected_beside(predict, partial(at_speed, device, TIMES), speeds)
    links = links_beside(entry, profiles.whole, speeds)
    if links:
        slower = slower_by_link(predict, then, links, at_speed_s)
        expected_s, at_speed_s = expected_s * slower, beside_median(at_speed_s * slower, entry.wall_s)
    return beside_median(expected_s, entry.wall_s), at_speed_s


def follows_host(entry: Entry, speeds: Sequence[float], profiles: Profiles) -> bool:
    """Return whether an entry is predicted with the host's speed beside each run: not with a given device."""
    return bool(profiles.is_own and entry.paces_s and speeds)


def links_beside(entry: Entry, profile: Device, speeds: Sequence[float]) -> tuple[float, ...]:
    """Return the time of copies both ways at once beside each run, over the usual time; none if not measured.

    These copies are bare calls in any language, so ``profile`` has no front end. ``speeds``: the time of calls beside
    each run, over the calibrated time; what calls take longer is not due to the link.
    """
    assert entry.program is not None
    links_s = entry.program.run_links_s
    if not links_s or min(links_s) < SHORTEST_S:
        return ()
    predict, changed_to = partial(predict_wall_s, LINK_PAIR), partial(at_speed, profile, TIMES)
    usual_s = expected_beside(predict, changed_to, speeds if entry.paces_s and speeds else (1.0,) * len(links_s))
    return tuple(map(float, np.asarray(links_s) / usual_s))


def with_known_host(device: Device) -> Device:
    """Return the device with calls that are as uncertain as they are at a known speed of the host."""
    if not device.spread:
        return device
    return msgspec.structs.replace(device, spread={**device.spread, **dict.fromkeys(HOST_TIMES, CALLS_MISSED)})


def with_link_spread(device: Device, links: Iterable[Sequence[float]]) -> Device:
    """Return the device with copies both ways at once as uncertain as calibrated and as they varied beside runs.

    ``links``: for each program or schedule, their times beside its runs, over the usual time. A run shows the link no
    better than it changed from one run to the next.
    """
    logs = [math.log(times / statistics.median(runs)) for runs in links for times in runs]
    if not device.spread or not logs:
        return device
    varied = math.sqrt(statistics.fmean(log**2 for log in logs))
    names = [f"{way}.duplex_bandwidth_bytes_per_s" for way in DIRECTIONS]
    own = {name: math.hypot(device.spread.get(name, 0.0), varied) for name in names}
    return msgspec.structs.replace(device, spread={**device.spread, **own})


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
        (whole,) = workload.cut(1)
        kernel_s = sum(device.occupancy(launch).alone_s for launch in workload.launches(whole))
        stages = msgspec.structs.replace(stages, kernel_s=kernel_s)
    if stages.streams == 1 or has_host_waits(schedule):
        in_one_go = {"h2d_chunks_s": stages.h2d_s, "d2h_chunks_s": stages.d2h_s}
        stages = msgspec.structs.replace(stages, chunks=1, copy_engines=0, **in_one_go)
    return published_of(stages)


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
