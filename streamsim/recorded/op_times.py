"""Recorded times of the ops of a recorded program: when they were issued and when they ran."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streamsim.program import UNKNOWN, HostWork, RecordedTimes
from streamsim.recorded.program import RecordedProgram
from streamsim.recorded.recording import NONE, Recording
from streamsim.recorded.unified import lanes_of


def recorded_times(recording: Recording, program: RecordedProgram) -> RecordedTimes:
    """Return when the ops of ``program`` were issued and ran, from its first call on, in nanoseconds.

    ``program`` is the program of ``recording``. Host work between two calls takes the time between them, with the cost
    of recording. Work that began before the first call starts with it. If a call has several ops, the first one has the
    call's time.
    """
    calls, work, first_ns = recording.calls, recording.work, program.first_ns
    issued_ns, returned_ns = (
        _since(calls.start_ns, program.call, first_ns),
        _since(calls.end_ns, program.call, first_ns),
    )
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
