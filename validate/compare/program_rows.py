"""Programs in a language beside their predictions: wall time, from the first call until the last synchronisation ends.

A program is predicted with the calls of its front end as they were calibrated in its run, and with what its kernels
take alone, over all the work and over a chunk; each of its runs with the host as fast as rounds of calls just before it
and just after say that it was. What issuing it took, which tells the host-bound from the device-bound, says of a miss
whether it is the calls' or the model's: it is predicted once more with calls that take just that. Nothing is fitted to
the programs.

Earlier records know no more of the host than rounds before all runs and after them, and are predicted with calls as
they were calibrated.
"""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from streamsim.device.front_end_calls import HOST_TIMES, TIMES
from streamsim.device.front_ends import with_front_end
from streamsim.device.settings import DIRECTIONS
from streamsim.errors import InputError
from streamsim.lowering.lowered import lower
from streamsim.program.schedule import Kernel
from streamsim.program.workload import Point
from streamsim.rules.clock import TICKS_PER_S
from streamsim_validate.compare.clocks import predict_wall_s
from streamsim_validate.compare.paced import at_speed, beside_median, expected_beside, slower_by_link
from streamsim_validate.compare.rows import DEVICE_BOUND, HOST_BOUND, Row
from streamsim_validate.records import CHUNK_ROUND, LINK_PAIR, SHORTEST_S, median_and_spread, round_s, workload_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule
    from streamsim_validate.compare.profiles import Profiles
    from streamsim_validate.records import Entry, Program, Run

HOST_SHARE = 0.8  # of the wall time, from which on the calls by themselves set it
# What calls are known to within where rounds beside a run say how fast the host was, relative: with it the intervals of
# the host-bound programs in CuPy and C++ of four records hold nine of ten (docs/evidence.md judges it on others).
CALLS_MISSED = 0.075


def device_of(profile: Device, program: Program) -> Device:
    """Return the card as calibrated, with the calls of the program's front end. Raises InputError if unknown."""
    return with_front_end(profile, program.language)


def speeds_beside(program: Program, device: Device) -> tuple[float, ...]:
    """Return how many times as long as calibrated the calls of a chunk took, before the program and after it."""
    return _over(program.rounds_s, round_s(device.host, CHUNK_ROUND))


def _over(times_s: Sequence[float], usual_s: float) -> tuple[float, ...]:
    """Return how many times as long as usual; nothing says so where calls usually cost nothing."""
    return tuple(seconds / usual_s for seconds in times_s) if usual_s else ()


def schedule_of(entry: Entry, device: Device) -> Schedule:
    """Return the schedule of a program, with the times that its kernels take.

    Raises InputError as :meth:`~streamsim_validate.records.record.Entry.build`, and where none were measured.
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

    Kernels that were timed beside a program are known no better than those that were calibrated: all are drawn by the
    same factor. Where none were calibrated nothing says how well they are known.
    """
    longest_s = [card.compute.kernels[0].duration_s[-1] if card.compute.kernels else 1.0 for card in (drawn, usual)]
    return predict_wall_s(_with_kernels(schedule, longest_s[0] / longest_s[1]), drawn)


def _with_kernels(schedule: Schedule, factor: float) -> Schedule:
    """Return the schedule with kernels that take so many times as long."""
    if factor == 1:
        return schedule
    ops = tuple(_scaled(op, factor) if isinstance(op, Kernel) else op for op in schedule.ops)
    return msgspec.structs.replace(schedule, ops=ops)


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    assert kernel.duration_s is not None
    parts = tuple((share, seconds * factor) for share, seconds in kernel.parts)
    return msgspec.structs.replace(kernel, duration_s=kernel.duration_s * factor, parts=parts)


def calls_s(schedule: Schedule, device: Device) -> float:
    """Return what its calls cost the host, without what they wait for."""
    return sum(lower(schedule, device).call) / TICKS_PER_S


def issuing_s(schedule: Schedule, device: Device) -> float:
    """Return the same without the synchronisation that ends it: what issuing it takes."""
    return calls_s(msgspec.structs.replace(schedule, ops=schedule.ops[:-1]), device)


class _Host(NamedTuple):
    """The host of a program.

    ``speeds``: how many times as long as calibrated calls took beside each run, or beside all of them. ``issue_s``:
    what issuing the program took. ``then``: the device with calls that take that.
    """

    speeds: tuple[float, ...]
    issue_s: float
    then: Device


def _host_of(entry: Entry, schedule: Schedule, device: Device) -> _Host:
    assert entry.program is not None
    if entry.issue_s:
        speeds = _over(entry.paces_s, round_s(device.host, entry.program.pace))
        issue_s = statistics.median(entry.issue_s)
        return _Host(speeds, issue_s, at_speed(device, TIMES, issue_s / max(SHORTEST_S, issuing_s(schedule, device))))
    speeds = speeds_beside(entry.program, device)
    then = at_speed(device, TIMES, statistics.geometric_mean(speeds)) if speeds and min(speeds) > 0 else device
    return _Host(speeds, calls_s(schedule, then), then)


def program_row(entry: Entry, run: Run, profiles: Profiles) -> Row:
    """Predict one program with its run's profile. Raises InputError as :func:`schedule_of`, and for a time of 0."""
    recipe, program = entry.recipe, entry.program
    assert recipe is not None
    assert program is not None
    device = device_of(profiles.whole, program)
    schedule = schedule_of(entry, device)
    measured_s, spread_s = median_and_spread(entry.wall_s)
    if not min(entry.wall_s) >= SHORTEST_S:
        raise InputError("its measured wall time is 0: there is nothing to compare with")
    host = _host_of(entry, schedule, device)
    predicted_s, at_speed_s = _predicted_s(entry, schedule, device, host, profiles)
    return Row(
        key=entry.key,
        connections=run.connections,
        klass=HOST_BOUND if host.issue_s > HOST_SHARE * measured_s else DEVICE_BOUND,
        pattern=recipe.pattern,
        effect=recipe.effect,
        workload=f"{program.language}: {workload_key(recipe.workload)}",
        measured_s=measured_s,
        noise=spread_s / measured_s,
        predicted_s=predicted_s,
        wall_s=measured_s,
        wall_predicted_s=predicted_s,
        issue_s=host.issue_s,
        formulas_s={},
        simplicity=recipe.simplicity,
        front_end=program.language,
        speeds=host.speeds,
        at_speed_s=at_speed_s,
    )


def _predicted_s(
    entry: Entry, schedule: Schedule, device: Device, host: _Host, profiles: Profiles
) -> tuple[float, float]:
    """Return the seconds with calls as fast as beside each run, if that is known, and as fast as issuing them was."""
    predict = partial(predict_wall_s, schedule)
    predicted_s, at_speed_s = predict(device), predict(host.then)
    if not follows_host(entry, host.speeds, profiles):
        return predicted_s, at_speed_s
    expected_s = expected_beside(predict, partial(at_speed, device, TIMES), host.speeds)
    links = links_beside(entry, profiles.whole, host.speeds)
    if links:
        slower = slower_by_link(predict, host.then, links, at_speed_s)
        expected_s, at_speed_s = expected_s * slower, beside_median(at_speed_s * slower, entry.wall_s)
    return beside_median(expected_s, entry.wall_s), at_speed_s


def follows_host(entry: Entry, speeds: Sequence[float], profiles: Profiles) -> bool:
    """Return whether it is predicted with the host's speed beside each run: not with a device that is given."""
    return bool(profiles.is_own and entry.paces_s and speeds)


def links_beside(entry: Entry, profile: Device, speeds: Sequence[float]) -> tuple[float, ...]:
    """Return how many times as long as usual copies took beside each run; none where that was not measured.

    Whatever the program's language, those copies are bare calls: ``profile`` is without a front end. ``speeds``: how
    many times as long as calibrated calls took beside each run, which is not the link's doing; none: nobody knows.
    """
    assert entry.program is not None
    links_s = entry.program.run_links_s
    if not links_s or min(links_s) < SHORTEST_S:
        return ()
    predict, changed_to = partial(predict_wall_s, LINK_PAIR), partial(at_speed, profile, TIMES)
    usual_s = expected_beside(predict, changed_to, speeds if entry.paces_s and speeds else (1.0,) * len(links_s))
    return tuple(map(float, np.asarray(links_s) / usual_s))


def with_host_spread(device: Device, speeds: Iterable[float]) -> Device:
    """Return the same with calls as uncertain as their calibration says and, beyond that, as rounds of them varied.

    ``speeds``: of rounds beside all of its programs, over what was calibrated.
    """
    logs = [math.log(speed) for speed in speeds if speed > 0]
    return _less_certain(device, HOST_TIMES, logs)


def with_known_host(device: Device) -> Device:
    """The same with calls known as well as they are where the host's speed is, whatever it was in the calibration."""
    if not device.spread:
        return device
    return msgspec.structs.replace(device, spread={**device.spread, **dict.fromkeys(HOST_TIMES, CALLS_MISSED)})


def with_link_spread(device: Device, links: Iterable[Sequence[float]]) -> Device:
    """The same with copies both ways at once as uncertain as calibrated and, beyond that, as those beside runs varied.

    ``links``: of each program or schedule how many times as long as usual they took beside each of its runs. What a run
    saw of the link is known no better than it changed from one run to the next.
    """
    logs = [math.log(times / statistics.median(runs)) for runs in links for times in runs]
    return _less_certain(device, [f"{way}.duplex_bandwidth_bytes_per_s" for way in DIRECTIONS], logs)


def _less_certain(device: Device, names: Iterable[str], logs: Sequence[float]) -> Device:
    """Return ``logs``: logarithms of what these numbers were over what they are taken to be."""
    if not device.spread or not logs:
        return device
    varied = math.sqrt(statistics.fmean(log**2 for log in logs))
    own = {name: math.hypot(device.spread.get(name, 0.0), varied) for name in names}
    return msgspec.structs.replace(device, spread={**device.spread, **own})
