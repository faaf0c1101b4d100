"""Judgements of a comparison: the coverage of its intervals, and tolerances.

Coverage: how many measured medians lie within their predicted intervals, and how wide the intervals are.

Tolerances: conditions such as ``p95 device-bound > 5%`` under which a comparison has failed.

    STATISTIC [GROUP] > NUMBER%

- ``median``, ``p95`` and ``worst`` are of absolute errors over a group: a class, a pattern, an effect, ``8
  connections``, ``8 connections host-bound``. Without a group, they are over everything except pageable memory.
- ``choice`` is the worst cost of following the model's choices; ``median choice`` and ``p95 choice`` exist too.
- ``unpredicted`` is the share of the measured schedules that the profile could not predict.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from streamsim.analysis import LEVEL, Interval, intervals
from streamsim.cli.fail_if import Condition, parse_condition
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.text import shown
from streamsim_validate.compare.comparison import CLASSES, EVERYTHING, Comparison, Row, summarise
from streamsim_validate.compare.predictions import (
    Profiles,
    device_of,
    drawn_wall_s,
    follows_host,
    links_beside,
    predict_device_s,
    profiles_of,
    schedule_of,
    with_known_host,
    with_link_spread,
)
from streamsim_validate.records import Entry, Record

SAMPLES = 200


class Expected(msgspec.Struct, frozen=True):
    """A row of a comparison and the interval of its device's time."""

    row: Row
    interval: Interval

    @property
    def width(self) -> float:
        """The width of the interval, relative to the prediction."""
        return (self.interval.high_s - self.interval.low_s) / self.row.predicted_s

    @property
    def is_inside(self) -> bool:
        """True if the interval holds the measured median."""
        return self.interval.holds(self.row.measured_s)


class Coverage(msgspec.Struct, frozen=True):
    """Shares of ``n`` measured medians inside their intervals, below, above; widths relative to the prediction."""

    n: int
    inside: float
    below: float
    above: float
    mean_width: float
    median_width: float


def expectations(
    record: Record, rows: Sequence[Row], samples: int = SAMPLES, seed: int = 0, device: Device | None = None
) -> list[Expected]:
    """Return the interval of each of some rows of the record's comparison.

    The record is predicted as in :func:`~streamsim_validate.compare.predictions.compare`. Raises InputError if a
    profile has no spread.
    """
    asked = {(row.connections, row.key): row for row in rows}
    found = []
    for run in record.runs:
        profiles = profiles_of(run, device)
        own = [entry for entry in run.entries if (run.connections, entry.key) in asked]
        for profile, entries in by_profile(own, profiles):
            its_rows = [asked[run.connections, entry.key] for entry in entries]
            found += _expected(entries, its_rows, profile, profiles, samples, seed)
    return found


def _expected(
    entries: Sequence[Entry], rows: Sequence[Row], profile: Device, profiles: Profiles, samples: int, seed: int
) -> list[Expected]:
    """Return the interval of each schedule, or of each program in one language.

    - If the pace beside all of them was timed, calls are as uncertain as they are at a known speed of the host.
    - If the copies beside them were timed, the link is as uncertain as it changed from one run to the next.
    - The kernels of programs are as uncertain as the calibrated kernels.

    The interval of a program, and of a schedule with copies beside it, is about the prediction beside each sample.
    """
    pairs = list(zip(entries, rows, strict=True))
    program, device, predict = entries[0].program, profile, predict_device_s
    if program is None:
        is_known = all(profiles.speeds_of(entry) for entry in entries)
        schedules, links = [entry.build() for entry in entries], [profiles.links_of(entry) for entry in entries]
    else:
        device = device_of(profile, program)
        is_known = all(follows_host(entry, row.speeds, profiles) for entry, row in pairs)
        schedules = [schedule_of(entry, device) for entry in entries]
        links = [[*links_beside(entry, profile, row.speeds)] for entry, row in pairs]
        predict = partial(drawn_wall_s, device)
    drawn = with_link_spread(with_known_host(device) if is_known else device, links)
    found = []
    each = intervals(schedules, drawn, samples, seed, LEVEL, predict)
    for interval, row, schedule, times in zip(each, rows, schedules, links, strict=True):
        usual_s = predict(schedule, device) if program or times else 0.0
        found.append(Expected(row, interval.times(row.predicted_s / usual_s) if usual_s else interval))
    return found


def by_profile(entries: Iterable[Entry], profiles: Profiles) -> list[tuple[Device, list[Entry]]]:
    """Return entries by their profile and front end, so that they share its draws."""
    found: dict[tuple[int, str], tuple[Device, list[Entry]]] = {}
    for entry in entries:
        profile = profiles.of_group(entry)
        front_end = "" if entry.program is None else entry.program.language
        found.setdefault((id(profile), front_end), (profile, []))[1].append(entry)
    return list(found.values())


def by_class(found: Sequence[Expected]) -> dict[str, Coverage]:
    """Summarise each class that is there; of programs each of every front end."""
    groups: defaultdict[str, list[Expected]] = defaultdict(list)
    for one in found:
        groups[f"{one.row.front_end} {one.row.klass}".strip()].append(one)
    front_ends = dict.fromkeys(one.row.front_end for one in found)
    names = (f"{front_end} {klass}".strip() for front_end in front_ends for klass in CLASSES)
    return {name: _summarise(groups[name]) for name in names if name in groups}


def _summarise(found: Sequence[Expected]) -> Coverage:
    n, widths = len(found), [one.width for one in found]
    below = sum(one.row.measured_s < one.interval.low_s for one in found)
    above = sum(one.row.measured_s > one.interval.high_s for one in found)
    return Coverage(
        n, (n - below - above) / n, below / n, above / n, statistics.mean(widths), statistics.median(widths)
    )


CHOICE, UNPREDICTED = "choice", "unpredicted"
STATISTICS = ("median", "p95", "worst")
_EXPECTED = (
    "expected median, p95 or worst with or without a group, choice, or unpredicted, then > and a percentage, such as"
    " 'p95 host-bound > 12%'"
)


class Verdict(msgspec.Struct, frozen=True):
    """The result of a tolerance; ``value`` and ``limit`` are relative (0.01 is 1 %)."""

    text: str
    value: float
    limit: float

    @property
    def failed(self) -> bool:
        """True if the comparison is beyond the limit."""
        return self.value > self.limit


def parse_tolerance(text: str) -> Condition:
    """Return the tolerance of a text such as ``"p95 host-bound > 12%"``. Raises InputError if it cannot be read."""
    found = parse_condition(text, _EXPECTED)
    statistic, *group = found.name.split() or [""]
    is_known = statistic in STATISTICS or (statistic in (CHOICE, UNPREDICTED) and not group)
    if not is_known or (found.sign, found.unit) != (">", "%"):
        raise InputError(f"--fail-if {shown(text)}: {_EXPECTED}")
    return found


def judge(comparison: Comparison, tolerance: Condition) -> Verdict:
    """Return the verdict of a tolerance on a comparison. Raises InputError if the comparison has no such group."""
    groups = {name: summary for kind in comparison.summaries.values() for name, summary in kind.items()}
    if choices := comparison.choices:
        groups[CHOICE] = summarise([choice.regret for choice in choices])
    absent, present = len(comparison.unpredicted), len(comparison.rows)
    statistic, *words = tolerance.name.split()
    if statistic == UNPREDICTED:
        return Verdict(tolerance.text, absent / (absent + present) if absent else 0.0, tolerance.limit)
    group = CHOICE if statistic == CHOICE else " ".join(words) or EVERYTHING
    if group not in groups:
        known = ", ".join(groups) or "nothing that could be predicted"
        raise InputError(f"--fail-if {shown(tolerance.text)}: there is no {group!r}; there is {known}")
    return Verdict(
        tolerance.text, getattr(groups[group], "worst" if statistic == CHOICE else statistic), tolerance.limit
    )
