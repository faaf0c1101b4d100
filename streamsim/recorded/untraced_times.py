"""What a window of a recorded program took in the runs that nothing recorded."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from streamsim.recorded.recording import NONE
from streamsim.recorded.windows import name_of, part_of, window_ns

if TYPE_CHECKING:
    from streamsim.recorded.recording import Recording


def untraced_time_s(recording: Recording, window: str | None, card: int | None = None) -> float | None:
    """What the program in a named window takes when nothing records it, in seconds; None where that is not known.

    As :func:`streamsim.recorded.replay.untraced` takes it: from the call of its first work until all is done. The
    median of the untraced runs, without what the window has before that call and behind the end: these were not timed,
    and are taken to be as in the recording. Not known where work still runs when the window closes: a run that nothing
    records cannot tell when that has ended. ``card``: of which the window's work is.
    """
    if window is None or not recording.untraced:
        return None
    name, which = name_of(recording, window)
    if name not in recording.names:
        return None
    number = recording.names.index(name)
    lengths = ((run.end_ns - run.start_ns)[run.name == number] for run in recording.untraced)
    took_ns = [int(ns) for of_run in lengths for ns in of_run[which - 1 : which]]
    if not took_ns:
        return None
    opened_ns, closed_ns = window_ns(recording, window)
    inside = part_of(recording, card, window=window)
    calls, work = inside.calls, inside.work
    issuing = work.call[work.call != NONE]
    if not len(issuing) or work.end_ns.max() > closed_ns:
        return None
    before_ns = int(calls.start_ns[issuing].min()) - opened_ns
    behind_ns = closed_ns - int(max(calls.end_ns.max(), work.end_ns.max()))
    found_ns = median(took_ns) - before_ns - max(behind_ns, 0)
    return found_ns * 1e-9 if found_ns > 0 else None
