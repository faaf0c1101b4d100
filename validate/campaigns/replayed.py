"""Replays of recorded programs, and what changes were predicted to bring, beside what was measured.

What is read of a program that has not been changed is its recording alone; of the changed one, its times.
"""

from __future__ import annotations

import statistics
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streamsim.analysis import what_if
from streamsim.compiled import simulate_one_of_many
from streamsim.device import parse_device
from streamsim.errors import InputError
from streamsim.recorded import NONE, part_of, profile_of, read_recording, replay, untraced, untraced_time_s, window_ns
from streamsim.text import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from campaigns.recordings import Pair, Record, Recorded
    from streamsim.device import Device
    from streamsim.program import Schedule
    from streamsim.recorded import HostCosts, Recording

RECOMMENDED = 1.01  # from such a gain on, a change is
SLOWER = 1.02  # than it was before: such a change must not be recommended


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
    def misleads(self) -> bool:
        """Whether it was recommended and the program became slower."""
        return self.gain >= RECOMMENDED and self.after_s > SLOWER * self.before_s


def replays(folder: Path, record: Record, profile: str = "") -> Iterator[Replayed | str]:
    """Return the replay of every recording, or why there is none. ``profile``: replaces the record's; as TOML."""
    text = profile or record.profile
    card = parse_device(text) if text else None
    with tempfile.TemporaryDirectory() as unpacked:
        for path in sorted(folder.glob("recordings-*.zip")):
            with zipfile.ZipFile(path) as kept:
                kept.extractall(unpacked)
        read = lru_cache(1)(read_recording)  # those of one file come one after another
        for recorded in record.recordings:
            try:
                yield replayed(read(Path(unpacked, recorded.file)), recorded, card)
            except InputError as error:
                yield f"{recorded.program}, by {recorded.by}: {error}"


def replayed(whole: Recording, recorded: Recorded, card: Device | None) -> Replayed:
    """Replay a recording as ``streamsim import`` does."""
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


def predictions(found: Iterable[Replayed], record: Record, pairs: Sequence[Pair]) -> Iterator[Predicted | str]:
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
                yield _predicted(pair, one, statistics.median(before), statistics.median(after))
            except InputError as error:
                yield f"{title(pair)}, by {one.recorded.by}: {error}"


def _predicted(pair: Pair, one: Replayed, before_s: float, after_s: float) -> Predicted:
    timed, alone = (what_if(schedule, one.device, pair.changes, True) for schedule in (one.timed, one.alone))
    predicted_s, alone_s = (found.together.makespan_s + one.rest_s for found in (timed, alone))
    return Predicted(pair, one.recorded.by, predicted_s, alone_s, timed.together.gain, before_s, after_s)


def title(pair: Pair) -> str:
    """Return the programs and the options."""
    return f"{pair.before} -> {pair.after.rpartition(' ')[2]} {' '.join(change.option for change in pair.changes)}"


# Tables


def tables(folder: Path, record: Record, pairs: Sequence[Pair], profile: str = "") -> Iterator[str]:
    """Yield what was run, every replay and every prediction beside what was measured, with medians and the worst."""
    found = list(replays(folder, record, profile))
    good = [one for one in found if isinstance(one, Replayed)]
    predicted = list(predictions(good, record, pairs))
    yield f"{record.card or 'card unknown'}, {record.date}: {len(record.recordings)} recordings, {record.took_s:.0f} s"
    yield from (f"failed: {one.program}, {one.what}: {one.why}" for one in record.failures)
    yield from ("", "Replays: what was recorded, with what recording cost; a round without it; the processes' medians")
    yield from (one if isinstance(one, str) else _replay_line(one, record) for one in found)
    yield f"replay: {_errors([one.error for one in good])}"
    known = [(one, statistics.median(times)) for one in good if (times := _measured_s(one, record))]
    yield f"without what recording cost, from the recording alone: {_errors([_alone(*one) for one in known])}"
    yield from ("", "Changes: predicted and measured rounds; from the recording alone: without its untraced run")
    yield from (one if isinstance(one, str) else _prediction_line(one) for one in predicted)
    some = [one for one in predicted if not isinstance(one, str)]
    for by in dict.fromkeys(one.by for one in some):
        own = [one for one in some if one.by == by]
        yield f"by {by}: {_errors([one.error for one in own])}"
        yield f"by {by}, from the recording alone: {_errors([one.error_alone for one in own])}"
    yield f"recommended, and slower than before by more than 2 %: {sum(one.misleads for one in some)}"


def _measured_s(one: Replayed, record: Record) -> tuple[float, ...]:
    return record.measured_s(one.recorded.program, one.recorded.pace_s)


def _alone(one: Replayed, measured_s: float) -> float:
    return one.predicted_s(one.alone) / measured_s - 1


def _replay_line(one: Replayed, record: Record) -> str:
    name = f"{one.recorded.program}, {one.recorded.by}"
    times = _measured_s(one, record)
    line = f"{name:<44} {_ms(one.recorded_s)} replayed {_ms(one.replayed_s)} {one.error:+7.1%}"
    if not times:
        return line
    measured_s = statistics.median(times)
    said = " ".join(f"{seconds * 1e3:.3f}" for seconds in record.untraced_s(one.recorded.program))
    alone = f"{_ms(one.predicted_s(one.alone))} {_alone(one, measured_s):+7.1%}"
    return f"{line}  untraced {_ms(measured_s)} alone {alone}  ({said})"


def _prediction_line(one: Predicted) -> str:
    flag = "  SLOWER" if one.misleads else ""
    gains = f"{one.gain:5.2f}x {one.before_s / one.after_s:5.2f}x"
    times = f"{_ms(one.before_s)} -> {_ms(one.after_s)} predicted {_ms(one.predicted_s)} {one.error:+7.1%}"
    by = "" if one.by == "CUPTI" else f", {one.by}"
    return f"{title(one.pair) + by:<72} {times}  alone {one.error_alone:+7.1%}  gain {gains}{flag}"


def _ms(seconds: float) -> str:
    return f"{format_seconds(seconds):>8}"


def _errors(errors: Sequence[float]) -> str:
    sizes = sorted(map(abs, errors))
    if not sizes:
        return "none"
    return f"{len(sizes)}: median {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}"
