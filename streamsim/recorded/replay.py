"""Replays: recorded programs simulated by the model, compared with the recorded times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, known_within
from streamsim.displayed import Displayed
from streamsim.errors import InputError
from streamsim.program import UNKNOWN, HostWork, RecordedTimes
from streamsim.recorded.costs import STAMPS_S, HostCosts, costs_of, occupied_ns, profile_of, while_recorded
from streamsim.recorded.program import RecordedProgram, program_of
from streamsim.recorded.recording import NONE, SIMULATED, Recording
from streamsim.recorded.times import lanes_of, length, merged
from streamsim.text import format_change, format_seconds
from streamsim.timeline import Timeline, recorded_timeline

CLOSE = 0.02  # share of the untraced time: the model is less accurate, so a time this close counts as reached
NEAR = 1e-4  # share of the untraced time: clocks and second runs do not repeat a time more closely
LEAST_OFF = 0.01  # share of the whole time: smaller errors of an engine do not matter
MOST_TIMES = 4.0  # the most times the cost that calls without work show: something else may have disturbed the host
MOST_SHARE, MOST_RECORD_S = 0.6, 30e-6  # the most that a given time may take off: share of host time, seconds a record


class EngineReplay(msgspec.Struct, frozen=True):
    """The busy time of an engine in seconds, recorded and predicted."""

    name: str
    recorded_s: float
    predicted_s: float


class Replay(Displayed, msgspec.Struct, frozen=True):
    """The prediction for the ``program`` of a ``recording`` on ``device``, compared with the recorded times.

    - ``timeline``: the predicted time line.
    - ``stamps_s``: seconds by which recording delays an op behind an op on another engine.
    - ``recorded_s``, ``predicted_s``: seconds from the call of the first work to the end of the last work.
    - ``engines``: the busy time of each engine.
    """

    recording: Recording
    program: RecordedProgram
    device: Device
    timeline: Timeline
    stamps_s: float
    recorded_s: float
    predicted_s: float
    engines: tuple[EngineReplay, ...]

    def __repr__(self) -> str:
        predicted = format_seconds(self.predicted_s, self.known_within)
        return f"Replay({format_seconds(self.recorded_s)} recorded, {predicted} predicted on {self.device.name})"

    @property
    def known_within(self) -> float:
        """The relative error of the predicted times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return known_within(self.device)

    @property
    def error(self) -> float:
        """The relative error of ``predicted_s``: 0.1 if it is 10 % above ``recorded_s``."""
        return self.predicted_s / self.recorded_s - 1 if self.recorded_s else 0.0

    @property
    def recorded(self) -> Timeline:
        """The recorded time line, with the ops of ``timeline``; lanes show unified memory."""
        return recorded_timeline(self.timeline, recorded_times(self.recording, self.program))


def replay(recording: Recording, device: Device | str | Path | None = None) -> Replay:
    """Simulate the program of a recording of one card, with the cost of recording, and compare the times.

    ``device``: a Device, the name or file of one, or None for the profile that :func:`profile_of` returns. Raises
    InputError as :func:`program_of` does.
    """
    on = profile_of(recording) if device is None else as_device(device)
    program, is_simulated = program_of(recording, device=on), recording.tool == SIMULATED
    timeline = simulate_one_of_many(program.schedule, on if is_simulated else while_recorded(on))
    work, engine = np.array(program.work), np.array(timeline.engine)
    starts, ends = occupied_ns(recording, on)
    starts = np.maximum(starts, program.first_ns)  # what ran before the program began is no part of it
    engines = []
    for number, name in enumerate(timeline.engine_names):
        own = work[(engine == number) & (work != NONE)]
        engines.append(EngineReplay(name, length(merged(starts[own], ends[own])) / 1e9, timeline.busy_s[name]))
    stamps_s = 0.0 if is_simulated else STAMPS_S
    recorded_s = int(recording.work.end_ns[work[work != NONE]].max() - program.first_ns) / 1e9
    return Replay(recording, program, on, timeline, stamps_s, recorded_s, timeline.makespan_s, tuple(engines))


BAD = 0.1  # relative error of the whole time, or of an engine's, from which a replay is called bad


def warnings_of(found: Replay, without: Unrecorded | None = None) -> list[str]:
    """Return warnings: errors above 10 % of the whole time or of an engine, and an untraced time not reached."""
    told = []
    if abs(found.error) > BAD:
        change = format_change(found.error, found.known_within)
        told.append(f"bad replay: {change} in all; what follows from it is no better")
    for engine in found.engines:
        off_s = engine.predicted_s - engine.recorded_s
        if engine.recorded_s and abs(off_s) > BAD * engine.recorded_s and abs(off_s) > LEAST_OFF * found.recorded_s:
            change = format_change(off_s / engine.recorded_s, found.known_within)
            told.append(f"bad replay: the {engine.name} engine is busy {change}; what changes there is no better")
    if without is not None and not without.is_reached:
        told.append(f"untraced time: {without.how}")
    return told


# The cost of recording


class Unrecorded(msgspec.Struct, frozen=True):
    """A recorded program without the cost of recording, and its predicted time.

    - ``program``: the program without that cost; ``predicted_s``: its time by the model.
    - ``how``: how the cost is known, or why the program does not take ``untraced_s``.
    - ``untraced_s``: the given time without a profiler (None: not given); ``is_reached``: False if no cost explains it.
    """

    program: RecordedProgram
    predicted_s: float
    how: str
    untraced_s: float | None = None
    is_reached: bool = True


def without_recording(
    recording: Recording, device: Device | str | Path, untraced_s: float | None = None, name: str = ""
) -> Unrecorded:
    """Return the program without the host's cost of recording, and its predicted time.

    ``untraced_s``: the measured seconds of the program without a profiler, from its first call to its end. The cost is
    then chosen so that the prediction equals this time. Without this time, or if no cost explains it, the cost is that
    of :func:`~streamsim.recorded.costs.costs_of`. Raises InputError for a time that is not above zero.
    """
    device = as_device(device)
    if untraced_s is not None and not untraced_s > 0:
        raise InputError(f"untraced_s = {untraced_s!r}: expected a time above zero, such as 4.67ms")

    def predicted(costs: HostCosts) -> tuple[RecordedProgram, float, float]:
        program = program_of(recording, name, costs, device)
        timeline = simulate_one_of_many(program.schedule, device)
        return program, timeline.makespan_s, max(timeline.makespan_s, timeline.host_s)

    costs, how = costs_of(recording)
    is_reached = True
    if untraced_s is not None:
        fitted = _fitted(_families(costs), lambda costs: predicted(costs)[2], untraced_s)
        is_reached = isinstance(fitted, HostCosts)
        if isinstance(fitted, HostCosts):
            costs, how = fitted, "fitted to the time given"
        else:
            how = f"{format_seconds(untraced_s)} {fitted}; taken instead: {how}"
    program, predicted_s, _ = predicted(costs)
    return Unrecorded(program, predicted_s, how, untraced_s, is_reached)


def _families(likely: HostCosts) -> Iterator[tuple[Callable[[float], HostCosts], float]]:
    """Yield families of costs of recording, the most plausible first: costs by a number, and its largest value."""
    if likely.share == 0.0 and likely != HostCosts():
        yield likely.scaled, MOST_TIMES
    elif likely.share == 0.0:  # nothing is known of this profiler: the same time for each call
        yield HostCosts(call_s=1.0).scaled, MOST_RECORD_S
    most = HostCosts(most_s=MOST_RECORD_S, first=likely.first)
    yield lambda share: replace(most, share=share), MOST_SHARE


def _fitted(
    families: Iterable[tuple[Callable[[float], HostCosts], float]],
    takes_s: Callable[[HostCosts], float],
    untraced_s: float,
) -> HostCosts | str:
    """Return the costs with which the program takes ``untraced_s``, or the reason in words if there are none."""
    longest_s = shortest_s = takes_s(HostCosts())
    if untraced_s >= longest_s:
        return f"is no less than the {format_seconds(longest_s)} that it takes with all that recording cost"
    for costs_at, most in families:
        shortest_s = takes_s(costs_at(most))
        if shortest_s <= untraced_s * (1 + CLOSE):
            low, high, at, off_s = 0.0, most, most, shortest_s - untraced_s
            while abs(off_s) > NEAR * untraced_s and high - low > NEAR * most:
                at = (low + high) / 2
                off_s = takes_s(costs_at(at)) - untraced_s
                low, high = (at, high) if off_s > 0 else (low, at)
            return costs_at(at)
    return f"is less than the {format_seconds(shortest_s)} that it takes with the most that recording can have cost"


def recorded_times(recording: Recording, program: RecordedProgram) -> RecordedTimes:
    """Return when the ops of ``program`` were issued and ran, from its first call on, in nanoseconds.

    ``program`` is the program of ``recording``. Host work between two calls takes the time between them, with the cost
    of recording. Work that began before the first call starts with it. If a call has several ops, the first one has the
    call's time.
    """
    calls, work, first_ns = recording.calls, recording.work, program.first_ns
    issued_ns, returned_ns = (_since(column, program.call, first_ns) for column in (calls.start_ns, calls.end_ns))
    for i, (before, call) in enumerate(pairwise(program.call), 1):
        if call == before != NONE:
            issued_ns[i] = returned_ns[i]
    _between_calls(program, issued_ns, returned_ns)
    start_ns, end_ns = (_since(column, program.work, first_ns) for column in (work.start_ns, work.end_ns))
    lanes = lanes_of(recording, first_ns)
    return RecordedTimes(tuple(issued_ns), tuple(returned_ns), tuple(start_ns), tuple(end_ns), lanes)


def _since(column: NDArray[np.int64], rows: tuple[int, ...], first_ns: int) -> list[int]:
    """Return the times of ``rows`` since the first call, at least 0; UNKNOWN for the row -1."""
    chosen = np.array(rows)
    there = np.append(column, 0)[chosen]  # the row -1 takes the appended 0
    found: list[int] = np.where(chosen == NONE, UNKNOWN, np.maximum(there - first_ns, 0)).tolist()
    return found


def _between_calls(program: RecordedProgram, issued_ns: list[int], returned_ns: list[int]) -> None:
    """Set the times of ops between a thread's calls: host work ends the gap, and waits take the rest before it."""
    latest: dict[int, int] = {}  # by thread: the end of its last op
    waiting: dict[int, list[int]] = {}  # by thread: the ops since then
    ops = program.schedule.ops
    for i, op in enumerate(ops):
        if issued_ns[i] == UNKNOWN:
            if program.work[i] == NONE:  # work from before the recording has no call
                waiting.setdefault(op.thread, []).append(i)
            continue
        until, since = issued_ns[i], min(latest.get(op.thread, 0), issued_ns[i])
        for k in reversed(waiting.pop(op.thread, [])):
            what, before = ops[k], until
            until = max(since, until - round(what.duration_s * 1e9)) if isinstance(what, HostWork) else since
            issued_ns[k], returned_ns[k] = until, before
        latest[op.thread] = max(latest.get(op.thread, 0), returned_ns[i])
