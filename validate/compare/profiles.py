"""What moved while a run was measured, and the profile that each of its schedules is predicted with.

A run calibrates before it measures and after, and its profile is the mean of both: no two calibrations agree better
than to some per cent. A host's calls cost 10 to 25 % more or less within minutes, and half as much again for tenths of
a second. So a run that calibrates issues a chain of calls just before each sample and just after it
(:mod:`streamsim_validate.run.measure`), and a sample is predicted with the run's profile, in which calls take as many
times as long as those did, and nothing else is changed. Older records have chains for each group of schedules. A
schedule's own times say nothing about it: no number is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from streamsim.device.profile import number_names, number_of
from streamsim.device.variations import mean_of
from streamsim.errors import InputError
from streamsim_validate.compare.paced import at_speed
from streamsim_validate.records import SHORTEST_S, HostCalls, fit_host_calls, pace_of, speed_of, timings_of

if TYPE_CHECKING:
    from streamsim.device.kernel_costs import KernelCost
    from streamsim.device.profile import Device
    from streamsim_validate.records import Chain, Entry, Group, Run, Timing

FEWEST_REPEATS = 3  # of a probe: no median of fewer is safe from an outlier


@dataclass(frozen=True)
class Profiles:
    """What a run's schedules are predicted with.

    ``whole``: the run's. ``groups``: with the host as fast as it was then, by the number of the group.
    ``is_own``: it was calibrated in the run, and so follows the host. ``behind_itself``: how many times as long the
    pace takes, which mostly is right behind another one, as a chain of its kind among others.
    """

    whole: Device
    groups: dict[int, Device]
    is_own: bool = False
    behind_itself: float = 1.0

    def of(self, entry: Entry) -> Device:
        """The profile for one of the run's entries, the host as fast as it was for most of its samples."""
        speeds = self.speeds_of(entry)
        return self.at_speed(median(speeds)) if speeds else self.of_group(entry)

    def of_group(self, entry: Entry) -> Device:
        """The profile for its group, the host as fast as it was for most of that."""
        return self.groups.get(entry.group, self.whole)

    def at_speed(self, speed: float) -> Device:
        """The profile with calls that take so many times as long."""
        return at_speed(self.whole, HostCalls._fields, speed)

    def speeds_of(self, entry: Entry) -> list[float]:
        """How many times as long as calibrated calls took beside each sample of a replay; none where not known."""
        usual = _usual(self.whole)
        is_followed = self.is_own and usual.copy_s and not entry.program
        if not is_followed or len(entry.paces_s) < FEWEST_REPEATS or min(entry.paces_s) <= 0:
            return []
        return [pace_of(seconds, usual) / self.behind_itself for seconds in entry.paces_s]


def profiles_of(run: Run, device: Device | None = None) -> Profiles:
    """``device`` for all of a run, or else its own profiles; with the run's connections.

    Its own are the mean of those from before and after (or the one there is) and, for each group whose probes were
    measured, the same with calls at the speed that the host had then. Raises InputError when there is neither.
    """
    profile = _own_profile(run) if device is None else device
    if profile is None:
        raise InputError(
            f"the run with {run.connections} connections has no calibrated profile: give one with --device"
        )
    is_of_programs = any(entry.program for entry in run.entries)
    as_calibrated = is_of_programs and profile.connections == run.connections  # their processes set no number of queues
    whole = profile if as_calibrated else profile.with_connections(run.connections)
    found = speeds_by_group(run, whole) if device is None else {}
    groups = {number: at_speed(whole, HostCalls._fields, speed) for number, speed in found.items()}
    return Profiles(whole, groups, device is None, _behind_itself(run, whole, found))


def _behind_itself(run: Run, device: Device, speeds: dict[int, float]) -> float:
    """How many times as long the pace took beside the samples of a group as the group's own chains; 1: not known."""
    usual = _usual(device)
    paces: dict[int, list[float]] = {}
    for entry in run.entries:
        if entry.group in speeds:
            paces.setdefault(entry.group, []).extend(pace_of(seconds, usual) for seconds in entry.paces_s)
    return median([median(own) / speeds[number] for number, own in paces.items() if own] or [1.0])


def _own_profile(run: Run) -> Device | None:
    """The mean of those from before and after a run, or the one there is; None where there is none."""
    before, after = run.profile("before"), run.profile("after")
    return mean_of(before, after) if before and after else before or after


def calls_by_group(run: Run) -> dict[int, HostCalls]:
    """What calls cost the host, in seconds, by the number of each group that says so."""
    found = {group.number: _calls_of(group) for group in run.groups}
    return {number: calls for number, calls in found.items() if calls is not None}


def speeds_by_group(run: Run, device: Device) -> dict[int, float]:
    """How many times as long as ``device`` has it calls took the host, by the number of each group that says so.

    None of them does where the device's calls cost nothing.
    """
    usual = _usual(device)
    telling = {group.number: _telling(group) for group in run.groups if _calls_of(group) is not None}
    return {number: speed_of(timings, usual) for number, timings in telling.items()} if usual.copy_s else {}


def _usual(device: Device) -> HostCalls:
    return HostCalls(*(getattr(device.host, call) for call in HostCalls._fields))


def _calls_of(group: Group) -> HostCalls | None:
    """None when the group was interrupted too early, or one of its probes failed or shows a time of 0."""
    try:
        return fit_host_calls(_telling(group))
    except InputError:
        return None


def _telling(group: Group) -> dict[Chain, list[Timing]]:
    return {chain: runs for chain, runs in timings_of(group.probes).items() if _tells(runs)}


def _tells(runs: list[Timing]) -> bool:
    """Whether a probe's runs are enough, and each took the host time: the fits divide by it."""
    return len(runs) >= FEWEST_REPEATS and all(min(run.wall_s, run.issue_s) >= SHORTEST_S for run in runs)


# How far it moved


class Drift(msgspec.Struct, frozen=True):
    """How far numbers of the profile before a run moved, relative to it; by dotted name.

    ``changes``: until after the run. ``calls``: the smallest and the largest move of what calls cost the host, over
    the ``groups`` that say so.
    """

    connections: int
    changes: dict[str, float]
    groups: int = 0
    calls: dict[str, tuple[float, float]] = {}


def drift_of(run: Run) -> Drift:
    """How far the run's profile moved while it measured; nothing where there is no pair to compare."""
    before, after = run.profile("before"), run.profile("after")
    if before is None:
        return Drift(run.connections, {})
    groups = list(calls_by_group(run).values())
    return Drift(
        run.connections, {} if after is None else changes(before, after), len(groups), _call_ranges(before, groups)
    )


def _call_ranges(before: Device, groups: list[HostCalls]) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in HostCalls._fields if groups else ():
        was = getattr(before.host, name)
        if was > 0:
            moves = [getattr(calls, name) / was - 1 for calls in groups]
            found[f"host.{name}"] = min(moves), max(moves)
    return found


def changes(before: Device, after: Device) -> dict[str, float]:
    """Relative changes of the numbers that both profiles have and the first has above 0.

    Of a table of kernel costs the largest, as ``kernels.NAME(PARAMETER)``.
    """
    found: dict[str, float] = {}
    for name in sorted(number_names(before) & number_names(after) - {"compute.kernels"}):
        was, is_now = number_of(before, name), number_of(after, name)
        if was > 0:
            found[name] = is_now / was - 1
    costs = {(cost.name, cost.parameter): cost for cost in after.compute.kernels}
    for cost in before.compute.kernels:
        other = costs.get((cost.name, cost.parameter))
        if other is not None:
            found[f"kernels.{cost.name}({cost.parameter})"] = _cost_change(cost, other)
    return found


def _cost_change(before: KernelCost, after: KernelCost) -> float:
    moves = [after.at(n) / before.at(n) - 1 for n in before.elements]
    return max(moves, key=abs)
