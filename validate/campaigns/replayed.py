"""Replays of recorded programs, and what changes were predicted to bring, beside what was measured.

What is read of a program that has not been changed is its recording alone; of the changed one, its times.
"""

from __future__ import annotations

import statistics
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamsim.analysis import what_if
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, parse_device
from streamsim.errors import InputError
from streamsim.program import Schedule
from streamsim.recorded import (
    NONE,
    HostCosts,
    Recording,
    part_of,
    profile_of,
    read_recording,
    replay,
    untraced,
    untraced_time_s,
    window_ns,
)
from streamsim.text import format_seconds
from streamsim.transform import Change

RECORD, RECORDINGS = "recordings.json", "recordings-{}.zip"
SAME_PACE = 0.1  # the loop before two rounds differs by no more where the host is as fast: else by half and more
RECOMMENDED = 1.01  # from such a gain on, a change is
SLOWER = 1.02  # than it was before: such a change must not be recommended


class Pair(NamedTuple):
    """A program, and the one that somebody makes of it who is told of ``changes``."""

    before: str
    after: str
    changes: tuple[Change, ...]


class Times(msgspec.Struct, frozen=True):
    """Seconds of the rounds of a process, and of a loop before each. ``by``: what recorded it; "" for nothing.

    ``beside_s``: rounds in the same process, behind those, that nothing recorded; ``beside_pace_s``: their loops.
    """

    program: str
    by: str
    wall_s: tuple[float, ...]
    verified: bool
    beside_s: tuple[float, ...] = ()
    pace_s: tuple[float, ...] = ()
    beside_pace_s: tuple[float, ...] = ()


class Recorded(msgspec.Struct, frozen=True):
    """A recording: its file in the zip, of which program, by what, and the window of a round.

    ``pace_s``: what the loop before that round took, as a measure of the host's speed; 0 where it was not timed.
    """

    file: str
    program: str
    by: str
    window: str
    pace_s: float = 0.0


class Failure(msgspec.Struct, frozen=True):
    """A failure: what was tried with which program, and how it ended."""

    program: str
    what: str
    why: str


class RecordedRounds(msgspec.Struct, frozen=True):
    """The programs that were run. ``profile``: TOML, calibrated on that card just before; "" for the shipped one."""

    card: str
    date: str
    profile: str
    took_s: float
    times: tuple[Times, ...]
    recordings: tuple[Recorded, ...]
    failures: tuple[Failure, ...]

    def untraced_s(self, program: str) -> tuple[float, ...]:
        """Return the median of each process that nothing recorded."""
        own = (one for one in self.times if one.program == program and not one.by)
        return tuple(statistics.median(one.wall_s) for one in own)

    def measured_s(self, program: str, pace_s: float = 0.0) -> tuple[float, ...]:
        """Of rounds that nothing recorded in the process that was recorded; else as :meth:`untraced_s`.

        Of the rounds alone before which the host was as fast, where that is known: none, if there are none. A graph
        that was made while CUPTI recorded stays as it is made for that: such a round is no measure.
        """
        own = [one for one in self.times if one.program == program]
        beside = [_at_pace(one.beside_s, one.beside_pace_s, pace_s) for one in own if one.by and "graph" not in program]
        apart = [_at_pace(one.wall_s, one.pace_s, pace_s) for one in own if not one.by]
        return tuple(statistics.median(some) for some in [*filter(None, beside)] or [*filter(None, apart)])


def _at_pace(wall_s: Sequence[float], paces_s: Sequence[float], pace_s: float) -> list[float]:
    """Return those of the rounds before which the host was as fast; all, where that is not known."""
    if not pace_s or not paces_s:
        return [*wall_s]
    return [wall for wall, pace in zip(wall_s, paces_s, strict=True) if abs(pace / pace_s - 1) <= SAME_PACE]


def read_record(folder: Path) -> RecordedRounds:
    """Return the record of a folder."""
    return msgspec.json.decode((folder / RECORD).read_bytes(), type=RecordedRounds)


class Replayed(NamedTuple):
    """A recording, replayed, and the program that it is without what recording cost.

    ``rest_s``: what a round has before the first call of its work and behind its end. ``timed``: the program with that
    cost as the capture's own untraced run tells it, ``alone``: without that run; the same where there is none.
    """

    recorded: Recorded
    device: Device
    recorded_s: float
    replayed_s: float
    rest_s: float
    timed: Schedule
    alone: Schedule

    @property
    def error(self) -> float:
        """The error of the replay, as a share of the recorded time."""
        return self.replayed_s / self.recorded_s - 1

    def predicted_s(self, schedule: Schedule) -> float:
        """Return a whole round of the program as it is."""
        timeline = simulate_one_of_many(schedule, self.device)
        return max(timeline.makespan_s, timeline.host_s) + self.rest_s


class Predicted(NamedTuple):
    """The predicted gain of a change, from a recording with its untraced run and without it; whole rounds.

    ``gain``: as it is over changed. ``before_s``, ``after_s``: of rounds that nothing recorded, in the process that was
    recorded; medians of the processes' medians where none were timed there.
    """

    pair: Pair
    by: str
    predicted_s: float
    alone_s: float
    gain: float
    before_s: float
    after_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.after_s - 1

    @property
    def error_alone(self) -> float:
        return self.alone_s / self.after_s - 1

    @property
    def line(self) -> str:
        times = f"{format_seconds(self.before_s)} -> {format_seconds(self.after_s)}"
        errors = f"predicted {self.error:+.1%}, from the recording alone {self.error_alone:+.1%}"
        flag = "; recommended, and slower" if self.misleads else ""
        return f"{title(self.pair)}, by {self.by}: {times}, {errors}{flag}"

    @property
    def misleads(self) -> bool:
        """Whether it was recommended and the program became slower."""
        return self.gain >= RECOMMENDED and self.after_s > SLOWER * self.before_s


def replays(folder: Path, record: RecordedRounds, profile: str = "") -> Iterator[Replayed | str]:
    """Return the replay of every recording, or why there is none. ``profile``: replaces the record's; as TOML."""
    text = profile or record.profile
    card = parse_device(text) if text else None
    with tempfile.TemporaryDirectory() as unpacked:
        for path in sorted(folder.glob(RECORDINGS.format("*"))):
            with zipfile.ZipFile(path) as kept:
                kept.extractall(unpacked)
        read = lru_cache(1)(read_recording)  # those of one file come one after another
        for recorded in record.recordings:
            try:
                yield replayed(read(Path(unpacked, recorded.file)), recorded, card)
            except InputError as error:
                yield f"{recorded.program}, by {recorded.by}: {error}"


def replayed(whole: Recording, recorded: Recorded, card: Device | None) -> Replayed:
    """Replay a recording as ``streamsim explain`` does."""
    recording = part_of(whole, window=recorded.window)
    device = profile_of(recording, card)
    found = replay(recording, device)
    untraced_s = untraced_time_s(whole, recorded.window)
    alone = untraced(recording, device, None, recorded.program)
    timed = alone if untraced_s is None else untraced(recording, device, untraced_s, recorded.program)
    rest_s = _rest_s(whole, recording, recorded.window, alone.costs)
    return Replayed(recorded, device, found.recorded_s, found.predicted_s, rest_s, timed.schedule, alone.schedule)


def _rest_s(whole: Recording, inside: Recording, window: str, costs: HostCosts) -> float:
    """Of a window, what lies before the first call that puts work on the card, and behind the end of all.

    Without what it cost to record the calls that are before that.
    """
    opened_ns, closed_ns = window_ns(whole, window)
    calls, work = inside.calls, inside.work
    first_ns = int(calls.start_ns[work.call[work.call != NONE]].min())
    called = int((calls.start_ns < first_ns).sum())
    cost_s = called * (costs.call_s + costs.between_s) + (first_ns - opened_ns) * 1e-9 * costs.share
    behind_ns = closed_ns - int(max(calls.end_ns.max(), work.end_ns.max()))
    return max((first_ns - opened_ns) * 1e-9 - cost_s, 0.0) + max(behind_ns, 0) * 1e-9


def predictions(found: Iterable[Replayed], record: RecordedRounds, pairs: Sequence[Pair]) -> Iterator[Predicted | str]:
    """Return the prediction of each pair from each recording of its program before the change, or why there is none."""
    by_program: dict[str, list[Replayed]] = {}
    for one in found:
        by_program.setdefault(one.recorded.program, []).append(one)
    for pair in pairs:
        if pair.before not in by_program:
            yield f"{title(pair)}: not recorded"
        for one in by_program.get(pair.before, ()):
            before, after = (record.measured_s(name, one.recorded.pace_s) for name in (pair.before, pair.after))
            if not before or not after:
                yield f"{title(pair)}, by {one.recorded.by}: not measured, or at another speed of the host"
                continue
            try:
                timed, alone = (what_if(ops, one.device, pair.changes, True).together for ops in (one.timed, one.alone))
            except InputError as error:
                yield f"{title(pair)}, by {one.recorded.by}: {error}"
                continue
            predicted_s, alone_s = timed.makespan_s + one.rest_s, alone.makespan_s + one.rest_s
            times_s = statistics.median(before), statistics.median(after)
            yield Predicted(pair, one.recorded.by, predicted_s, alone_s, timed.gain, *times_s)


def title(pair: Pair) -> str:
    """Return the programs and the options."""
    return f"{pair.before} -> {pair.after.rpartition(' ')[2]} {' '.join(change.option for change in pair.changes)}"


def lines(folder: Path, record: RecordedRounds, pairs: Sequence[Pair], profile: str = "") -> Iterator[str]:
    """Yield what was run, then each replay and prediction with its error, and what is not there."""
    yield f"{record.card or 'card unknown'}, {record.date}: {len(record.recordings)} recordings, {record.took_s:.0f} s"
    yield from (f"failed: {one.program}, {one.what}: {one.why}" for one in record.failures)
    found = list(replays(folder, record, profile))
    for one in found:
        yield one if isinstance(one, str) else f"{one.recorded.program}, {one.recorded.by}: replay {one.error:+.1%}"
    for other in predictions([one for one in found if isinstance(one, Replayed)], record, pairs):
        yield other if isinstance(other, str) else other.line
